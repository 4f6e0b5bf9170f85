package cluster_test

import (
	"errors"
	"testing"

	"pgregory.net/rapid"

	"github.com/sluice-push/sluice/discovery"
	"github.com/sluice-push/sluice/push/cluster"
)

// A member comes back from a registry as it was.
func TestEndpoint(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		m := anyMember().Draw(t, "member")
		e, err := m.Endpoint()
		if m.Link == "" && m.Public == "" {
			if !errors.Is(err, cluster.ErrMember) {
				t.Fatalf("a member without address: %v", err)
			}
			return
		}
		if err != nil {
			t.Fatal(err)
		}
		text, err := discovery.Encode(&e)
		if err != nil {
			t.Fatal(err)
		}
		kept, err := discovery.Decode(text)
		if err != nil {
			t.Fatal(err)
		}
		if back, err := cluster.MemberOf(&kept, "any"); err != nil || !back.Equal(&m) {
			t.Fatalf("%+v becomes %+v (%v)", m, back, err)
		}
	})
	for public, want := range map[string]string{
		"ws://a.test": "a.test:80", "https://a.test/x": "a.test:443", "wss://[::1]": "[::1]:443", "http://a.test:8000": "a.test:8000",
	} {
		m := cluster.Member{ID: "a", Public: public}
		if e, err := m.Endpoint(); err != nil || e.Address != want {
			t.Errorf("%s is at %q (%v)", public, e.Address, err)
		}
	}
}

// Endpoints of lists and of DNS are hubs.
func TestMemberOf(t *testing.T) {
	got, err := cluster.MemberOf(&discovery.Endpoint{Address: "a.test:1", Weight: 5, Zone: "x", Labels: map[string]string{"disk": "fast"}}, "blue")
	want := cluster.Member{
		ID: "a.test:1", Cluster: "blue", Role: cluster.Hub, Link: "a.test:1", Weight: 5, Labels: map[string]string{"zone": "x", "disk": "fast"},
	}
	if err != nil || !got.Equal(&want) {
		t.Errorf("got %+v (%v)", got, err)
	}
	for name, e := range map[string]discovery.Endpoint{
		"no address": {}, "no member": {Address: "a.test:1", Labels: map[string]string{"sluice.member": "{}"}},
	} {
		if _, err := cluster.MemberOf(&e, ""); !errors.Is(err, cluster.ErrMember) {
			t.Errorf("%s: %v", name, err)
		}
	}
}
