package cluster_test

import (
	"bytes"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"go.uber.org/goleak"
	"pgregory.net/rapid"

	"github.com/sluice-push/sluice/push/cluster"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// nodes returns n nodes of role all.
func nodes(n int) []cluster.Member {
	out := make([]cluster.Member, n)
	for i := range out {
		id := fmt.Sprintf("node-%03d", i)
		out[i] = cluster.Member{ID: id, Public: "wss://" + id + ".test", Link: id + ".test:9100"}
	}
	return out
}

// fataler is what helpers need of *testing.T, *testing.B and *rapid.T.
type fataler interface {
	Helper()
	Fatal(args ...any)
}

// made returns the set of some members, which have to be valid.
func made(t fataler, members []cluster.Member) *cluster.Set {
	t.Helper()
	set, err := cluster.NewSet("", members)
	if err != nil {
		t.Fatal(err)
	}
	return set
}

// anyMember draws a valid member.
func anyMember() *rapid.Generator[cluster.Member] {
	return rapid.Custom(func(t *rapid.T) cluster.Member {
		return cluster.Member{
			ID:       rapid.StringMatching(`[a-z]{1,3}`).Draw(t, "id"),
			Cluster:  rapid.SampledFrom([]string{"", "blue"}).Draw(t, "cluster"),
			Role:     rapid.SampledFrom([]cluster.Role{cluster.All, cluster.Hub, cluster.Gateway}).Draw(t, "role"),
			Public:   rapid.SampledFrom([]string{"", "wss://a.test/x", "http://[::1]:8000"}).Draw(t, "public"),
			Link:     rapid.SampledFrom([]string{"", "a.test:9100", "unix:/run/link"}).Draw(t, "link"),
			Labels:   rapid.MapOfN(rapid.StringMatching(`[a-c"<]`), rapid.StringMatching(`[x-zé]{0,2}`), 0, 3).Draw(t, "labels"),
			Weight:   rapid.SampledFrom([]int{0, 1, 100, cluster.MaxWeight}).Draw(t, "weight"),
			Sessions: rapid.IntRange(0, cluster.MaxSessions).Draw(t, "sessions"),
			Capacity: rapid.SampledFrom([]int{0, 5}).Draw(t, "capacity"),
			Version:  rapid.SampledFrom([]string{"", "1.2.3"}).Draw(t, "version"),
			Draining: rapid.Bool().Draw(t, "draining"),
		}
	})
}

// What is encoded is decoded to the same.
func TestEncode(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		m := anyMember().Draw(t, "member")
		text, err := cluster.Encode(&m)
		if err != nil {
			t.Fatal(err)
		}
		back, err := cluster.Decode(text)
		if err != nil || !back.Equal(&m) {
			t.Fatalf("%s becomes %+v (%v)", text, back, err)
		}
	})
}

func TestDecode(t *testing.T) {
	m, err := cluster.Decode([]byte(` {"id":"a","role":"gateway","public":"wss://a.test","labels":{"zone":"x"},"sessions":7,"later":{"id":1}} `))
	want := cluster.Member{ID: "a", Role: cluster.Gateway, Public: "wss://a.test", Labels: map[string]string{"zone": "x"}, Sessions: 7}
	if err != nil || !m.Equal(&want) {
		t.Errorf("got %+v (%v)", m, err)
	}
	for text, complaint := range map[string]string{
		``:                                          "not JSON",
		`{"id":"a"} x`:                              "not JSON",
		`[]`:                                        "[] is not an object",
		`null`:                                      "null is not an object",
		`{}`:                                        "id is missing",
		`{"ID":"a"}`:                                "id is missing",
		`{"id":7}`:                                  "id: 7 is not a string",
		`{"id":null}`:                               "id: null is not a string",
		"{\"id\":\"a\xff\"}":                        "not UTF-8",
		`{"id":"a\u0000"}`:                          "control character",
		`{"id":"a","id":"b"}`:                       "id: comes twice",
		`{"id":"a","x":1,"x":1}`:                    "x: comes twice",
		`{"id":"a","role":"relay"}`:                 `unknown role "relay": use all, hub or gateway`,
		`{"id":"a","role":1}`:                       "role: 1 is not a string",
		`{"id":"a","weight":-1}`:                    "weight: -1 is not between 1 and 1000000",
		`{"id":"a","weight":1.5}`:                   "weight: 1.5 is not a whole number",
		`{"id":"a","weight":1e99}`:                  "weight: 1e99 is not a whole number",
		`{"id":"a","sessions":-1}`:                  "sessions: -1 is not between",
		`{"id":"a","capacity":"many"}`:              `capacity: "many" is not a whole number`,
		`{"id":"a","capacity":1000000001}`:          "capacity: 1000000001 is not between",
		`{"id":"a","draining":"yes"}`:               "is not true or false",
		`{"id":"a","cluster":1}`:                    "cluster: 1 is not a string",
		`{"id":"a","version":{}}`:                   "version: {} is not a string",
		`{"id":"a","labels":["zone"]}`:              `["zone"] is not an object`,
		`{"id":"a","labels":{"zone":1}}`:            "label zone: 1 is not a string",
		`{"id":"a","labels":{"z":"a","z":"a"}}`:     "z: comes twice",
		`{"id":"a","labels":{"":"a"}}`:              "labels: a name is empty",
		`{"id":"a","labels":{"z":"\n"}}`:            "control character",
		`{"id":"a","public":"a.test"}`:              "does not begin with http://",
		`{"id":"a","public":"tcp://a.test"}`:        "does not begin with http://",
		`{"id":"a","public":"wss://"}`:              "has no host",
		`{"id":"a","public":"wss://u:p@a.test"}`:    "has more than a host, a port and a path",
		`{"id":"a","public":"wss://a.test?x=1"}`:    "has more than a host, a port and a path",
		`{"id":"a","public":"wss://a.test:port"}`:   "is not a URL",
		`{"id":"a","public":1}`:                     "public: 1 is not a string",
		`{"id":"a","link":"a.test"}`:                "neither HOST:PORT",
		`{"id":"a","link":"a.test:0"}`:              "neither HOST:PORT",
		`{"id":"a","link":false}`:                   "link: false is not a string",
		`{"id":"` + strings.Repeat("a", 256) + `"}`: "id: 256 bytes are longer than 255",
		`{"id":"a","public":"ws://` + strings.Repeat("a", 2048) + `"}`: "public: 2053 bytes are longer than 2048",
		`{"id":"a","link":"` + strings.Repeat("a", 2048) + `:1"}`:      "link: 2050 bytes are longer than 2048",
		strings.Repeat(" ", cluster.MaxMemberBytes+1):                  "32769 bytes of JSON, more than 32768",
	} {
		m, err := cluster.Decode([]byte(text))
		if !errors.Is(err, cluster.ErrMember) || !strings.Contains(err.Error(), complaint) || !m.Equal(&cluster.Member{}) {
			t.Errorf("%.100s: %+v (%v), want an error with %q", text, m, err, complaint)
		}
		if err != nil && len(err.Error()) > 400 {
			t.Errorf("%.100s: an error of %d bytes", text, len(err.Error()))
		}
	}
	many := []string{}
	for i := range cluster.MaxLabels + 1 {
		many = append(many, fmt.Sprintf(`"l%d":"x"`, i))
	}
	if _, err := cluster.Decode([]byte(`{"id":"a","labels":{` + strings.Join(many, ",") + `}}`)); err == nil || !strings.Contains(err.Error(), "labels: more than 32") {
		t.Errorf("33 labels: %v", err)
	}
	if _, err := cluster.Encode(&cluster.Member{ID: "a", Role: 9}); err == nil || !strings.Contains(err.Error(), "unknown role(9)") {
		t.Errorf("a role that is not one: %v", err)
	}
}

// FuzzDecode decodes any text. What is accepted can be encoded, and decodes to the same again.
func FuzzDecode(f *testing.F) {
	for _, seed := range []string{
		`{"id":"a","role":"gateway","public":"wss://a.test","link":"a.test:1","labels":{"zone":"x"},"weight":3,"sessions":7,"capacity":9,"draining":true}`,
		`{"id":"a","cluster":"blue","version":"1","later":[{}]}`, `{"id":1}`, `[]`, `{"id":"a","labels":null}`, "{\"id\":\"\\ud800\"}",
	} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		m, err := cluster.Decode(text)
		if err != nil {
			if !errors.Is(err, cluster.ErrMember) {
				t.Fatalf("%q: %v", text, err)
			}
			return
		}
		again, err := cluster.Encode(&m)
		if err != nil {
			t.Fatalf("%q cannot be encoded: %v", text, err)
		}
		if back, err := cluster.Decode(again); err != nil || !back.Equal(&m) {
			t.Fatalf("%q becomes %+v (%v)", again, back, err)
		}
	})
}

// A list makes the same set in any order, and if its members come several times.
func TestSet(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		members := rapid.SliceOfN(anyMember(), 0, 12).Draw(t, "members")
		one, errOne := cluster.NewSet("blue", members)
		mixed := append(slices.Clone(members), members...)
		random := rand.New(rand.NewPCG(rapid.Uint64().Draw(t, "seed"), 0))
		random.Shuffle(len(mixed), func(i, j int) { mixed[i], mixed[j] = mixed[j], mixed[i] })
		two, errTwo := cluster.NewSet("blue", mixed)
		if !one.Equal(two) || (errOne == nil) != (errTwo == nil) {
			t.Fatalf("%+v (%v) and %+v (%v)", one.Members(), errOne, two.Members(), errTwo)
		}
		ids := map[string]bool{}
		for _, m := range members {
			if m.Cluster == "blue" {
				ids[m.ID] = true
			} else if kept := one.Member(m.ID); kept != nil && kept.Cluster != "blue" {
				t.Fatalf("%s belongs to another cluster", m.ID)
			}
		}
		if len(ids) != len(one.Members()) {
			t.Fatalf("%d of %d members are left", len(one.Members()), len(ids))
		}
		for i := range one.Members() {
			m := &one.Members()[i]
			if one.Member(m.ID) != m || i > 0 && one.Members()[i-1].ID >= m.ID {
				t.Fatalf("%s is not where it belongs", m.ID)
			}
		}
		if one.Member("none") != nil {
			t.Fatal("a member that is not there")
		}
	})
}

// Members that are not valid are left out and named, and so is one of two nodes with the same ID.
func TestSetErrors(t *testing.T) {
	members := nodes(3)
	members[1].Weight = -1
	members = append(members, members[0])
	members[3].Draining = true
	set, err := cluster.NewSet("", members)
	if !errors.Is(err, cluster.ErrMember) || len(set.Members()) != 2 {
		t.Fatalf("%d members, %v", len(set.Members()), err)
	}
	for _, part := range []string{`"node-001": weight: -1`, `"node-000": two different nodes have this id`} {
		if !strings.Contains(err.Error(), part) {
			t.Errorf("%v does not say %q", err, part)
		}
	}
}

// A set is its own: neither the labels of the list nor other numbers of sessions change it.
func TestSetIsKept(t *testing.T) {
	members := nodes(2)
	members[0].Labels = map[string]string{"zone": "a", "tier": ""}
	members[1].Sessions = 5
	set := made(t, members)
	members[0].Labels["zone"] = "b"
	if got := set.Member("node-000").Labels; got["zone"] != "a" || len(got) != 1 {
		t.Errorf("labels %v", got)
	}
	if got := set.Member("node-001").Weight; got != cluster.DefaultWeight {
		t.Errorf("weight %d", got)
	}
	other := set.WithSessions(map[string]int{"node-000": 9, "node-001": -3, "none": 1})
	for id, want := range map[string][2]int{"node-000": {0, 9}, "node-001": {5, 0}} {
		if got := [2]int{set.Member(id).Sessions, other.Member(id).Sessions}; got != want {
			t.Errorf("%s has %v sessions, want %v", id, got, want)
		}
	}
	if set.Equal(other) || !set.SamePlaces(other) || len(other.Members()) != 2 {
		t.Error("the sets differ in more than loads, or not at all")
	}
	members[0].Draining = true
	if set.SamePlaces(made(t, members)) || set.SamePlaces(made(t, members[:1])) {
		t.Error("places are the same though a node drains")
	}
}

// Names of roles and policies are those of the configuration.
func TestNames(t *testing.T) {
	for _, tt := range []struct {
		value interface {
			MarshalText() ([]byte, error)
			String() string
		}
		into interface{ UnmarshalText(text []byte) error }
		name string
	}{
		{cluster.All, new(cluster.Role), "all"},
		{cluster.Hub, new(cluster.Role), "hub"},
		{cluster.Gateway, new(cluster.Role), "gateway"},
		{cluster.PlaceByHash, new(cluster.PlacementPolicy), "hash"},
		{cluster.PlaceByZone, new(cluster.PlacementPolicy), "zone"},
		{cluster.LeastLoaded, new(cluster.Policy), "least_loaded"},
		{cluster.ByUser, new(cluster.Policy), "user"},
		{cluster.ByChannel, new(cluster.Policy), "channel"},
	} {
		text, err := tt.value.MarshalText()
		if err != nil || string(text) != tt.name || tt.value.String() != tt.name {
			t.Errorf("%s is called %s", tt.name, text)
		}
		if err := tt.into.UnmarshalText(text); err != nil || fmt.Sprint(tt.into) == "" {
			t.Errorf("%s: %v", tt.name, err)
		}
		if err := tt.into.UnmarshalText(bytes.ToUpper(text)); err == nil {
			t.Errorf("%s is accepted in capitals", tt.name)
		}
	}
	for value, want := range map[fmt.Stringer]string{
		cluster.Role(7): "role(7)", cluster.Policy(7): "route policy(7)", cluster.Reason(0): "reason(0)", cluster.Reason(77): "reason(77)",
		cluster.PlaceChanged: "place changed",
	} {
		if value.String() != want {
			t.Errorf("%v instead of %s", value, want)
		}
	}
}
