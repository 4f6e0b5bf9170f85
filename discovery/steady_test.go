package discovery_test

import (
	"context"
	"errors"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"pgregory.net/rapid"

	"github.com/sluice-push/sluice/discovery"
)

// set returns endpoints with the names' letters as hosts, sorted.
func set(names string) []discovery.Endpoint {
	letters := strings.Split(names, "")
	slices.Sort(letters)
	out := make([]discovery.Endpoint, len(letters))
	for i, letter := range letters {
		out[i].Address = letter + ":1"
	}
	return out
}

// names is the inverse of set.
func names(set []discovery.Endpoint) string {
	var out strings.Builder
	for i := range set {
		out.WriteString(strings.TrimSuffix(set[i].Address, ":1"))
	}
	return out.String()
}

// An endpoint that leaves for the third time within a moment is left out until it has stayed for two half-lives; another is not.
func TestFlaps(t *testing.T) {
	f, now := discovery.NewFlaps(&discovery.SteadyOptions{HalfLife: time.Minute}), time.Unix(0, 0)
	see := func(reported, want string) (again time.Duration) {
		t.Helper()
		f.Observe(now, set(reported))
		got, again := f.Set(now)
		if names(got) != want {
			t.Fatalf("%s is reported: %q, want %q", reported, names(got), want)
		}
		return again
	}
	see("abc", "abc")
	for range 2 {
		see("bc", "bc")
		if again := see("abc", "abc"); again != 0 {
			t.Errorf("nobody is left out, and there may be more after %v", again)
		}
	}
	see("b", "b")
	again := see("abc", "bc")
	if again < 2*time.Minute || again > 2*time.Minute+time.Second {
		t.Errorf("there may be more after %v, want two minutes", again)
	}
	now = now.Add(again - time.Second)
	see("abc", "bc")
	now = now.Add(time.Second)
	see("abc", "abc")
	now = now.Add(time.Hour)
	see("abc", "abc")
	if n := f.Remembered(); n != 0 {
		t.Errorf("%d endpoints are remembered for ever", n)
	}
}

// What an endpoint says of itself is passed on at once; an empty set is not believed, unless that is wanted.
func TestEmpty(t *testing.T) {
	for _, empty := range []bool{false, true} {
		f, now := discovery.NewFlaps(&discovery.SteadyOptions{Empty: empty}), time.Unix(0, 0)
		f.Observe(now, nil)
		if got, _ := f.Set(now); len(got) != 0 {
			t.Errorf("at first: %v", got)
		}
		f.Observe(now, set("ab"))
		f.Observe(now, nil)
		if got, _ := f.Set(now); (len(got) == 0) != empty {
			t.Errorf("an empty set is believed: %t, and left is %v", empty, got)
		}
		f.Observe(now, []discovery.Endpoint{{Address: "a:1", Weight: 5}})
		if got, _ := f.Set(now); len(got) != 1 || got[0].Weight != 5 {
			t.Errorf("a new weight: %v", got)
		}
	}
}

// Whatever is reported: only what was reported is used; something is, if anything was; an endpoint that never left is; and after a quiet time all are.
func TestFlapsProperty(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		f, now := discovery.NewFlaps(&discovery.SteadyOptions{Flaps: rapid.IntRange(1, 4).Draw(t, "flaps"), HalfLife: time.Second}), time.Unix(0, 0)
		last, left := "", ""
		for range rapid.IntRange(1, 40).Draw(t, "steps") {
			now = now.Add(time.Duration(rapid.IntRange(0, 2000).Draw(t, "ms")) * time.Millisecond)
			reported := strings.Join(rapid.SliceOfNDistinct(rapid.SampledFrom([]string{"a", "b", "c", "d"}), 1, 4, rapid.ID).Draw(t, "set"), "")
			for _, name := range strings.Split(last, "") {
				if !strings.Contains(reported, name) {
					left += name
				}
			}
			last = reported
			f.Observe(now, set(reported))
			got, again := f.Set(now)
			if len(got) == 0 || len(got) < len(reported) && again == 0 {
				t.Fatalf("%s is reported: %q, and there may be more after %v", reported, names(got), again)
			}
			for _, name := range strings.Split(reported, "") {
				if !strings.Contains(names(got), name) && !strings.Contains(left, name) {
					t.Fatalf("%s is left out of %q and never left", name, names(got))
				}
			}
			if strings.Trim(names(got), reported) != "" {
				t.Fatalf("%q are used of %q", names(got), reported)
			}
		}
		got, again := f.Set(now.Add(time.Minute))
		if len(got) != len(last) || again != 0 {
			t.Fatalf("in the end %q of %q, and there may be more after %v", names(got), last, again)
		}
	})
}

// Watch reports each change once, one at a time, and endpoints that were left out when their time has come, though the registry says nothing.
func TestSteady(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		reports, done := make(chan []discovery.Endpoint), make(chan error)
		source := resolverFunc(func(ctx context.Context, service string, update func([]discovery.Endpoint)) error {
			if service != "quotes" {
				t.Errorf("the service is %q", service)
			}
			for {
				select {
				case set := <-reports:
					update(set)
				case <-ctx.Done():
					return ctx.Err()
				}
			}
		})
		var mu sync.Mutex
		var all []string // guarded by mu
		reported := func() []string {
			synctest.Wait()
			mu.Lock()
			defer mu.Unlock()
			return slices.Clone(all)
		}
		steady := discovery.NewSteady(source, nil)
		go func() {
			done <- steady.Watch(ctx, "quotes", func(set []discovery.Endpoint) {
				mu.Lock()
				defer mu.Unlock()
				all = append(all, names(set))
			})
		}()
		for _, s := range []string{"ab", "ab", "a", "ab", "a", "ab", "a", "ab", "a", "ab"} {
			reports <- set(s)
		}
		if got, want := reported(), []string{"ab", "a", "ab", "a", "ab", "a"}; !slices.Equal(got, want) {
			t.Errorf("reported: %q, want %q", got, want)
		}
		<-time.After(10 * time.Minute)
		if got := reported(); got[len(got)-1] != "ab" || len(got) != 7 {
			t.Errorf("after some minutes: %q", got)
		}
		for range 4 {
			reports <- set("a")
			reports <- set("ab")
		}
		cancel() // while b is left out
		if err := <-done; !errors.Is(err, context.Canceled) {
			t.Error(err)
		}
		before := len(reported())
		<-time.After(time.Hour)
		if got := reported(); len(got) != before {
			t.Errorf("reported after the end: %q", got[before:])
		}
	})
}

// resolverFunc is a Resolver.
type resolverFunc func(ctx context.Context, service string, update func([]discovery.Endpoint)) error

func (f resolverFunc) Watch(ctx context.Context, service string, update func([]discovery.Endpoint)) error {
	return f(ctx, service, update)
}
