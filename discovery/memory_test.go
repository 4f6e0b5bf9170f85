package discovery_test

import (
	"context"
	"errors"
	"slices"
	"sync"
	"testing"
	"testing/synctest"

	"github.com/sluice-push/sluice/discovery"
	"github.com/sluice-push/sluice/discovery/discoverytest"
)

// watch watches a service in a bubble, until the test ends. The function returns all sets that were reported.
func watch(t *testing.T, r discovery.Resolver, service string) (reported func() []string) {
	ctx, cancel := context.WithCancel(t.Context())
	var sets []string
	var watching sync.WaitGroup
	watching.Go(func() {
		err := r.Watch(ctx, service, func(set []discovery.Endpoint) { sets = append(sets, names(set)) })
		if !errors.Is(err, context.Canceled) {
			t.Errorf("Watch: %v", err)
		}
	})
	t.Cleanup(func() {
		cancel()
		watching.Wait()
	})
	return func() []string {
		synctest.Wait()
		return sets
	}
}

func TestStatic(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		if got := watch(t, discovery.Addresses("b:1", "a:1", "b:1"), "any")(); !slices.Equal(got, []string{"ab"}) {
			t.Errorf("reported: %q", got)
		}
	})
	err := discovery.Addresses("a").Watch(t.Context(), "any", func([]discovery.Endpoint) { t.Error("reported") })
	if !errors.Is(err, discovery.ErrEndpoint) {
		t.Errorf("a bad address: %v", err)
	}
}

func TestMemory(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var m discovery.Memory
		reported := watch(t, &m, "quotes")
		reported()
		register := func(service string, e discovery.Endpoint) discovery.Registration {
			t.Helper()
			r, err := m.Register(t.Context(), service, e)
			if err != nil {
				t.Fatal(err)
			}
			reported()
			return r
		}
		b := register("quotes", discovery.Endpoint{Address: "b:1"})
		register("other", discovery.Endpoint{Address: "x:1"})
		a := register("quotes", discovery.Endpoint{Address: "a:1"})
		again := register("quotes", discovery.Endpoint{Address: "b:1"}) // nothing changes
		if err := b.Close(t.Context()); err != nil {                    // it has been replaced
			t.Error(err)
		}
		if err := b.Update(t.Context(), discovery.Endpoint{Address: "b:1"}); !errors.Is(err, discovery.ErrClosed) {
			t.Errorf("the registration that was replaced: %v", err)
		}
		if err := a.Update(t.Context(), discovery.Endpoint{Address: "a:1", Weight: 5}); err != nil {
			t.Error(err)
		}
		reported()
		if err := a.Update(t.Context(), discovery.Endpoint{Address: "c:1"}); !errors.Is(err, discovery.ErrEndpoint) {
			t.Errorf("another address: %v", err)
		}
		for range 2 {
			if err := again.Close(t.Context()); err != nil {
				t.Error(err)
			}
			reported()
		}
		if got, want := reported(), []string{"", "b", "ab", "ab", "a"}; !slices.Equal(got, want) {
			t.Errorf("reported: %q, want %q", got, want)
		}
	})
}

func TestConformance(t *testing.T) {
	var m discovery.Memory
	discoverytest.Run(t, &discoverytest.Harness{Connect: func(*testing.T) discoverytest.Registry { return &m }})
}

func TestMemoryRefuses(t *testing.T) {
	var m discovery.Memory
	if _, err := m.Register(t.Context(), "quotes", discovery.Endpoint{}); !errors.Is(err, discovery.ErrEndpoint) {
		t.Errorf("an endpoint without an address: %v", err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := m.Register(ctx, "quotes", discovery.Endpoint{Address: "a:1"}); !errors.Is(err, context.Canceled) {
		t.Errorf("a context that is done: %v", err)
	}
}
