package cluster_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/sluice-push/sluice/push/cluster"
)

// homesOf returns n sessions of users whose best gateway has an ID.
func homesOf(t fataler, set *cluster.Set, id string, n int) (out []cluster.Session) {
	t.Helper()
	router := routed(t, cluster.Rules{Policy: cluster.ByUser, Bound: -1})
	for i := 0; len(out) < n; i++ {
		if c := (cluster.Client{User: fmt.Sprint(id, i)}); route(t, router, set, c)[0] == id {
			out = append(out, cluster.Session{Client: c})
		}
	}
	return out
}

// Between two levels things stay as they are. The levels are those of the package comment, for two gateways with 1,000 sessions as their fair share.
func TestRebindLevels(t *testing.T) {
	set := made(t, nodes(2))
	for _, tt := range []struct {
		name     string
		sessions []cluster.Session // of node-000
		loads    []int             // of node-000, one after the other
		moves    []bool            // whether a session moves
	}{
		{
			"overload", homesOf(t, set, "node-000", 1),
			[]int{1000, 1250, 1251, 1200, 1189, 1188, 1200, 1250, 1251},
			[]bool{false, false, true, true, true, false, false, false, true},
		},
		{
			"place", homesOf(t, set, "node-001", 1), // node-001 has the rest of 2,000
			[]int{900, 937, 938, 900, 876, 875, 900, 937, 938},
			[]bool{false, false, true, true, true, false, false, false, true},
		},
	} {
		r := rebinding(t, cluster.RebindOptions{Self: "node-000", Router: routed(t, cluster.Rules{Policy: cluster.ByUser})})
		for i, load := range tt.loads {
			now := time.Unix(int64(1000*i), 0) // earlier moves have settled
			moves, _ := r.Step(now, set.WithSessions(map[string]int{"node-000": load, "node-001": 2000 - load}), tt.sessions)
			if got := len(moves) > 0; got != tt.moves[i] {
				t.Errorf("%s: with %d sessions, after %v: %v", tt.name, load, tt.loads[:i], moves)
			}
		}
	}
}

// An overloaded gateway first gives away sessions that are not at their best gateway anyway.
func TestRebindHomeLast(t *testing.T) {
	members := nodes(3)
	members[0].Sessions, members[1].Sessions, members[2].Sessions = 1300, 1100, 600 // the second has too much to begin to take sessions
	set := made(t, members)
	sessions := append(homesOf(t, set, "node-000", 20), homesOf(t, set, "node-001", 1)...)
	r := rebinding(t, cluster.RebindOptions{Self: "node-000", Router: routed(t, cluster.Rules{Policy: cluster.ByUser}), Rate: 1})
	moves, _ := r.Step(time.Unix(1000, 0), set, sessions)
	if len(moves) != 1 || moves[0].Session != 20 || moves[0].To.ID != "node-002" || moves[0].Reason != cluster.Overloaded {
		t.Errorf("%+v", moves)
	}
}

// Clients that are routed by hash without a bound stay where their hash says, whatever the load.
func TestRebindWithoutBound(t *testing.T) {
	set := made(t, nodes(2)).WithSessions(map[string]int{"node-000": 5000})
	r := rebinding(t, cluster.RebindOptions{Self: "node-000", Router: routed(t, cluster.Rules{Policy: cluster.ByUser, Bound: -1})})
	sessions := append(homesOf(t, set, "node-000", 5), cluster.Session{}) // the last one has no hash
	moves, _ := r.Step(time.Unix(1000, 0), set, sessions)
	if len(moves) != 1 || moves[0].Session != 5 {
		t.Errorf("%+v", moves)
	}
}
