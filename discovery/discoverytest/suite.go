// Package discoverytest is the suite that every registry of package discovery has to pass, and servers for tests: processes of etcd and ZooKeeper, and
// a DNS server.
package discoverytest

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/sluice-push/sluice/discovery"
)

// Patience bounds every wait of the suite.
const Patience = time.Minute

// Registry is what the suite tests.
type Registry interface {
	discovery.Resolver
	discovery.Registrar
}

// Harness is a registry.
type Harness struct {
	// Connect returns the registry as another process sees it. The test ends what it began.
	Connect func(t *testing.T) Registry
	// BadServices are names that Watch and Register refuse.
	BadServices []string
}

// Run runs the suite: each check is a subtest. Services of the suite have names that begin with the test's.
func Run(t *testing.T, h *Harness) {
	t.Helper()
	for name, check := range map[string]func(*testing.T, *Harness){
		"registered": checkRegistered, "replaced": checkReplaced, "many": checkMany, "refused": checkRefused, "cancelled": checkCancelled,
		"unknown service": checkUnknown,
	} {
		t.Run(name, func(t *testing.T) { check(t, h) })
	}
}

// Watched is the sets that a watcher was told.
type Watched struct {
	t    testing.TB
	sets chan []discovery.Endpoint
}

// Watch watches a service until the test ends.
func Watch(t testing.TB, r discovery.Resolver, service string) *Watched {
	t.Helper()
	ctx, cancel := context.WithCancel(context.WithoutCancel(t.Context()))
	w := &Watched{t: t, sets: make(chan []discovery.Endpoint)}
	var watching sync.WaitGroup
	watching.Go(func() {
		err := r.Watch(ctx, service, func(set []discovery.Endpoint) {
			select {
			case w.sets <- set:
			case <-ctx.Done():
			}
		})
		if !errors.Is(err, context.Canceled) {
			t.Errorf("Watch: %v", err)
		}
	})
	t.Cleanup(func() {
		cancel()
		watching.Wait()
	})
	return w
}

// Next returns the next set, as text: addresses with weights other than the default.
func (w *Watched) Next() string {
	w.t.Helper()
	timer := time.NewTimer(Patience)
	defer timer.Stop()
	select {
	case set := <-w.sets:
		return Text(set)
	case <-timer.C:
		w.t.Fatal("no set was reported")
		return ""
	}
}

// Until reads sets until there is one of that text, and fails if another one comes that none of passing has.
func (w *Watched) Until(want string, passing ...string) {
	w.t.Helper()
	for {
		got := w.Next()
		if got == want {
			return
		}
		if len(passing) > 0 && !slices.Contains(passing, got) {
			w.t.Fatalf("the set is %q, want %q, and before that only %q", got, want, passing)
		}
	}
}

// Text returns a set as text: addresses with weights other than the default.
func Text(set []discovery.Endpoint) string {
	out := make([]string, len(set))
	for i := range set {
		out[i] = set[i].Address
		if set[i].Weight != 0 {
			out[i] += fmt.Sprint("*", set[i].Weight)
		}
	}
	return strings.Join(out, " ")
}

func must(t *testing.T, what string, err error) {
	t.Helper()
	if err != nil {
		t.Fatalf("%s: %v", what, err)
	}
}

// service returns a name for the service of a check.
func service(t *testing.T) string {
	return strings.NewReplacer("/", "-", " ", "-", "#", "-").Replace(t.Name())
}

// checkRegistered: an endpoint is found from Register to Close, with what it says of itself, by watchers before and after; another service has it not.
func checkRegistered(t *testing.T, h *Harness) {
	here, there, name := h.Connect(t), h.Connect(t), service(t)
	early, other := Watch(t, there, name), Watch(t, there, name+"-2")
	early.Until("")
	other.Until("")
	e := discovery.Endpoint{Address: "a.test:1", Zone: "z", Labels: map[string]string{"k": "v", "é": "☃"}}
	r, err := here.Register(t.Context(), name, e)
	must(t, "register", err)
	early.Until("a.test:1")
	var got []discovery.Endpoint
	ctx, cancel := context.WithTimeout(t.Context(), Patience)
	defer cancel()
	_ = there.Watch(ctx, name, func(set []discovery.Endpoint) {
		got = set
		cancel()
	})
	if len(got) != 1 || !got[0].Equal(&e) {
		t.Errorf("found: %+v, want %+v", got, e)
	}
	e.Weight, e.Labels = 7, nil
	must(t, "update", r.Update(t.Context(), e))
	early.Until("a.test:1*7", "a.test:1")
	must(t, "close", r.Close(t.Context()))
	early.Until("", "a.test:1*7")
	must(t, "close again", r.Close(t.Context()))
	if err := r.Update(t.Context(), e); !errors.Is(err, discovery.ErrClosed) {
		t.Errorf("update after the end: %v", err)
	}
	r, err = here.Register(t.Context(), name+"-2", e)
	must(t, "register", err)
	other.Until("a.test:1*7") // and nothing before that
	must(t, "close", r.Close(t.Context()))
}

// checkReplaced: the last one to register an address has it, and the end of an earlier registration does not remove it.
func checkReplaced(t *testing.T, h *Harness) {
	name := service(t)
	watched := Watch(t, h.Connect(t), name)
	before, err := h.Connect(t).Register(t.Context(), name, discovery.Endpoint{Address: "a.test:1", Weight: 1})
	must(t, "register", err)
	after, err := h.Connect(t).Register(t.Context(), name, discovery.Endpoint{Address: "a.test:1", Weight: 2})
	must(t, "register again", err)
	watched.Until("a.test:1*2")
	must(t, "close the first", before.Close(t.Context()))
	must(t, "update the second", after.Update(t.Context(), discovery.Endpoint{Address: "a.test:1", Weight: 3}))
	watched.Until("a.test:1*3", "a.test:1*2")
	must(t, "close the second", after.Close(t.Context()))
	watched.Until("", "a.test:1*3")
}

// checkMany: what many register and close at the same time is in the end what all watchers have.
func checkMany(t *testing.T, h *Harness) {
	const processes, each = 4, 8
	name := service(t)
	var watchers []*Watched
	for range processes {
		watchers = append(watchers, Watch(t, h.Connect(t), name))
	}
	var mu sync.Mutex
	left := make(map[string]discovery.Registration) // guarded by mu
	var working sync.WaitGroup
	for p := range processes {
		r := h.Connect(t)
		working.Go(func() {
			for i := range each {
				address := fmt.Sprintf("%c.test:%d", 'a'+p, 1+i)
				registration, err := r.Register(t.Context(), name, discovery.Endpoint{Address: address})
				if err != nil {
					t.Errorf("register %s: %v", address, err)
					return
				}
				if i%2 == 0 {
					if err := registration.Close(t.Context()); err != nil {
						t.Errorf("close %s: %v", address, err)
					}
					continue
				}
				mu.Lock()
				left[address] = registration
				mu.Unlock()
			}
		})
	}
	done := make(chan struct{})
	go func() {
		working.Wait()
		close(done)
	}()
	last := make([]string, len(watchers))
	for i, w := range watchers { // so that no watcher keeps its registry waiting
		for waiting := true; waiting; {
			select {
			case set := <-w.sets:
				last[i] = Text(set)
			case <-done:
				waiting = false
			}
		}
	}
	want := strings.Join(slices.Sorted(maps.Keys(left)), " ")
	for i, w := range watchers {
		if last[i] != want {
			w.Until(want)
		}
	}
	for address, r := range left {
		must(t, "close "+address, r.Close(t.Context()))
	}
	for _, w := range watchers {
		w.Until("")
	}
}

// checkRefused: what can never work is refused at once, with an error that says why.
func checkRefused(t *testing.T, h *Harness) {
	r := h.Connect(t)
	if _, err := r.Register(t.Context(), service(t), discovery.Endpoint{Address: "nowhere"}); !errors.Is(err, discovery.ErrEndpoint) {
		t.Errorf("an endpoint without a port: %v", err)
	}
	for _, name := range h.BadServices {
		if _, err := r.Register(t.Context(), name, discovery.Endpoint{Address: "a.test:1"}); !errors.Is(err, discovery.ErrService) {
			t.Errorf("register for %q: %v", name, err)
		}
		err := r.Watch(t.Context(), name, func([]discovery.Endpoint) { t.Errorf("%q has endpoints", name) })
		if !errors.Is(err, discovery.ErrService) {
			t.Errorf("watch %q: %v", name, err)
		}
	}
	registration, err := r.Register(t.Context(), service(t), discovery.Endpoint{Address: "a.test:1"})
	must(t, "register", err)
	if err := registration.Update(t.Context(), discovery.Endpoint{Address: "b.test:1"}); !errors.Is(err, discovery.ErrEndpoint) {
		t.Errorf("update to another address: %v", err)
	}
	if err := registration.Update(t.Context(), discovery.Endpoint{Address: "a.test:1", Weight: -1}); !errors.Is(err, discovery.ErrEndpoint) {
		t.Errorf("update to a weight that cannot be: %v", err)
	}
	must(t, "close", registration.Close(t.Context()))
}

// checkCancelled: with a context that is done, nothing is registered, and the error is the context's.
func checkCancelled(t *testing.T, h *Harness) {
	r, name := h.Connect(t), service(t)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := r.Register(ctx, name, discovery.Endpoint{Address: "a.test:1"}); !errors.Is(err, context.Canceled) {
		t.Errorf("register: %v", err)
	}
	if err := r.Watch(ctx, name, func([]discovery.Endpoint) {}); !errors.Is(err, context.Canceled) {
		t.Errorf("watch: %v", err)
	}
	if got := Watch(t, r, name).Next(); got != "" {
		t.Errorf("registered: %q", got)
	}
}

// checkUnknown: a service that nobody has registered has no endpoints, which is told, and appears later.
func checkUnknown(t *testing.T, h *Harness) {
	name := service(t)
	watched := Watch(t, h.Connect(t), name)
	if got := watched.Next(); got != "" {
		t.Errorf("found: %q", got)
	}
	r, err := h.Connect(t).Register(t.Context(), name, discovery.Endpoint{Address: "unix:/run/a.sock"})
	must(t, "register", err)
	watched.Until("unix:/run/a.sock")
	must(t, "close", r.Close(t.Context()))
}
