package members_test

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/sluice-push/sluice/discovery/discoverytest"
	"github.com/sluice-push/sluice/push/cluster"
	"github.com/sluice-push/sluice/push/cluster/members"
)

func update(t *testing.T, d *members.Directory, change func(*cluster.Member)) {
	t.Helper()
	if err := d.Update(change); err != nil {
		t.Fatal(err)
	}
}

// watchAll watches a Directory in a bubble until the test ends. The function returns all sets that were reported, as text, each once in a row.
func watchAll(t *testing.T, d *members.Directory) (reported func() []string) {
	ctx, cancel := context.WithCancel(context.WithoutCancel(t.Context()))
	var sets []string
	var watching sync.WaitGroup
	watching.Go(func() {
		err := d.Watch(ctx, func(set *cluster.Set) { sets = append(sets, text(set)) })
		if !errors.Is(err, context.Canceled) && !errors.Is(err, members.ErrClosed) {
			t.Errorf("Watch: %v", err)
		}
	})
	t.Cleanup(func() {
		cancel()
		watching.Wait()
	})
	return func() []string {
		synctest.Wait()
		return slices.Compact(slices.Clone(sets))
	}
}

func TestJoinRefuses(t *testing.T) {
	if _, err := members.Join(&cluster.Member{}, members.Static{}, nil); !errors.Is(err, cluster.ErrMember) {
		t.Errorf("a node without an ID: %v", err)
	}
}

// A list has this node as it describes itself now. Entries that are not right are left out and logged.
func TestStatic(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		stranger := *node("x")
		stranger.Cluster = "other"
		old, second, third := *node("a"), *node("b"), *node("c")
		old.Weight, second.Cluster, second.Weight = 5, "", 7
		list := members.Static{old, second, third, third, stranger, {ID: "bad", Cluster: "test", Weight: -1}}
		var said discoverytest.Output
		d := join(t, node("a"), list, &said)
		<-d.Ready()
		want(t, d, "of a list", "a b c")
		if a, b := d.Set().Member("a"), d.Set().Member("b"); a.Weight != cluster.DefaultWeight || b.Weight != 7 || b.Cluster != "test" {
			t.Errorf("members: %+v, %+v", a, b)
		}
		if list[1].Cluster != "" {
			t.Error("the list has changed")
		}
		update(t, d, func(m *cluster.Member) { m.Draining = true })
		want(t, d, "of a list", "a! b c")
		pass(time.Minute)
		if n := times(&said, "weight"); n != 1 || times(&said, "") != 1 {
			t.Errorf("it was logged %d times:\n%s", n, &said)
		}
		if err := d.Close(t.Context()); err != nil {
			t.Error(err)
		}
	})
}

// A list that has this node under another ID, or another node under the ID of this one, has a mistake. The node is in its set once.
func TestOwnAddresses(t *testing.T) {
	addressed := func(m cluster.Member, link, public string) cluster.Member {
		m.Link, m.Public = link, public
		return m
	}
	a, b := *node("a"), *node("b")
	stranger := addressed(a, "z.test:1", "ws://z.test")
	stranger.Cluster = "other"
	for name, tt := range map[string]struct {
		self, entry cluster.Member
		want, said  string
	}{
		"same":                 {a, a, "a", ""},
		"only the link":        {a, addressed(a, a.Link, ""), "a", ""},
		"only the public URL":  {a, addressed(a, "", a.Public), "a", ""},
		"another link":         {a, addressed(a, "z.test:1", a.Public), "a", ""},
		"no addresses":         {addressed(a, "", ""), addressed(a, "", ""), "a", ""},
		"elsewhere":            {a, addressed(a, "z.test:1", "ws://z.test"), "a", "another node has the id of this one"},
		"gateways, elsewhere":  {addressed(a, "", a.Public), addressed(a, "", "ws://z.test"), "a", "another node has the id of this one"},
		"another cluster":      {a, stranger, "a", ""},
		"link of this node":    {a, addressed(b, a.Link, ""), "a", "give the node that id"},
		"gateways without one": {addressed(a, "", a.Public), addressed(b, "", b.Public), "a b", ""},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var said discoverytest.Output
				d := join(t, &tt.self, members.Static{tt.entry}, &said)
				<-d.Ready()
				want(t, d, "with the entry", tt.want)
				if m := d.Set().Member("a"); m.Link != tt.self.Link || m.Public != tt.self.Public {
					t.Errorf("this node is %+v", m)
				}
				update(t, d, func(m *cluster.Member) { m.Sessions++ })
				synctest.Wait()
				lines := 0
				if tt.said != "" {
					lines = 1
				}
				if times(&said, "") != lines || times(&said, tt.said) != lines {
					t.Errorf("it was logged:\n%s", &said)
				}
			})
		})
	}
}

// An update is in the own set at once. One that is not allowed changes nothing.
func TestUpdate(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		self := node("a")
		self.Labels = map[string]string{"zone": "x"}
		d := join(t, self, members.Static{}, nil)
		self.Labels["zone"] = "changed by the caller"
		update(t, d, func(m *cluster.Member) { m.Sessions = 1 })
		if got := d.Set().Member("a").Labels["zone"]; got != "x" {
			t.Errorf("the label is %q", got)
		}
		labels := map[string]string{"zone": "y"}
		update(t, d, func(m *cluster.Member) { m.Labels, m.Sessions, m.Weight = labels, 3, 9 })
		labels["zone"] = "changed by the caller"
		update(t, d, func(m *cluster.Member) { m.Capacity, m.Version = 4, "v" })
		before := d.Set()
		got := before.Member("a")
		if got.Labels["zone"] != "y" || got.Sessions != 3 || got.Weight != 9 || got.Capacity != 4 || got.Version != "v" {
			t.Errorf("the node is %+v", got)
		}
		for name, tt := range map[string]struct {
			change func(*cluster.Member)
			want   error
		}{
			"id":       {func(m *cluster.Member) { m.ID = "b" }, members.ErrFixed},
			"cluster":  {func(m *cluster.Member) { m.Cluster = "b" }, members.ErrFixed},
			"role":     {func(m *cluster.Member) { m.Role = cluster.Hub }, members.ErrFixed},
			"public":   {func(m *cluster.Member) { m.Public = "" }, members.ErrFixed},
			"link":     {func(m *cluster.Member) { m.Link = "b.test:1" }, members.ErrFixed},
			"sessions": {func(m *cluster.Member) { m.Sessions = -1 }, cluster.ErrMember},
			"labels":   {func(m *cluster.Member) { m.Labels["zone"] = "\n" }, cluster.ErrMember},
		} {
			if err := d.Update(tt.change); !errors.Is(err, tt.want) {
				t.Errorf("%s: %v", name, err)
			}
		}
		if d.Set() != before {
			t.Errorf("a refused update made another set: %+v", d.Set().Members())
		}
		if err := d.Close(t.Context()); err != nil {
			t.Error(err)
		}
		if err := d.Update(func(*cluster.Member) { t.Error("called") }); !errors.Is(err, members.ErrClosed) {
			t.Errorf("update after close: %v", err)
		}
		if d.Set() != before {
			t.Error("the set changed with close")
		}
	})
}

// An update that another one has overtaken is made again, with the values of the other.
func TestUpdatesAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := join(t, node("a"), members.Static{}, nil)
		calls := 0
		update(t, d, func(m *cluster.Member) {
			if calls++; calls == 1 {
				update(t, d, func(m *cluster.Member) { m.Sessions, m.Capacity = 5, 7 })
			}
			m.Sessions++
		})
		if m := d.Set().Member("a"); m.Sessions != 6 || m.Capacity != 7 || calls != 2 {
			t.Errorf("after %d calls the node is %+v", calls, m)
		}
	})
}

// A watcher is told of the set that is there and of every later one, but not of each if it is slow. It ends with its context and with Close.
func TestWatch(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := join(t, node("a"), members.Static{}, nil)
		<-d.Ready()
		release, sets := make(chan struct{}), make(chan int, 10)
		ended := make(chan error)
		go func() {
			ended <- d.Watch(t.Context(), func(set *cluster.Set) {
				<-release
				sets <- set.Member("a").Sessions
			})
		}()
		synctest.Wait()
		for range 5 {
			update(t, d, func(m *cluster.Member) { m.Sessions++ })
		}
		update(t, d, func(*cluster.Member) {}) // no change
		close(release)
		if first, last := <-sets, <-sets; first != 0 || last != 5 {
			t.Errorf("sets with %d and %d sessions, want 0 and 5", first, last)
		}
		if synctest.Wait(); len(sets) > 0 {
			t.Errorf("another set, with %d sessions", <-sets)
		}
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		if err := d.Watch(ctx, func(*cluster.Set) {}); !errors.Is(err, context.Canceled) {
			t.Errorf("watch with a context that is done: %v", err)
		}
		if err := d.Close(t.Context()); err != nil {
			t.Error(err)
		}
		if err := <-ended; !errors.Is(err, members.ErrClosed) {
			t.Errorf("watch of a Directory that is closed: %v", err)
		}
	})
}

// A problem is logged when it comes, and not again before it was gone for a minute. A flood of problems does not fill the log.
func TestProblemLog(t *testing.T) {
	var l members.ProblemLog
	now := time.Unix(0, 0)
	step := func(after time.Duration, problems, want string) {
		t.Helper()
		now = now.Add(after)
		all := make(map[string]error)
		for _, name := range strings.Fields(problems) {
			all[name] = errAway
		}
		if got := strings.Join(l.Fresh(now, all), " "); got != want {
			t.Errorf("at %v of %q these are logged: %q, want %q", now.Sub(time.Unix(0, 0)), problems, got, want)
		}
	}
	step(0, "", "")
	step(0, "b a", "a b")
	step(time.Hour, "a b c", "c")
	step(time.Second, "a", "")
	step(time.Minute-1, "a b", "")
	step(time.Second, "", "")
	step(time.Minute, "", "")
	step(0, "a b", "a b")
	flood := make(map[string]error)
	for i := range 1000 {
		flood[fmt.Sprint("flood ", i)] = errAway
	}
	if n := len(l.Fresh(now, flood)); n != 98 {
		t.Errorf("%d problems of a flood are logged, want 98", n)
	}
	if got := l.Fresh(now, maps.Clone(flood)); len(got) != 0 {
		t.Errorf("logged again: %q", got)
	}
}
