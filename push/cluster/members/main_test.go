package members_test

import (
	"context"
	"errors"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/sluice-push/sluice/discovery/discoverytest"
	"github.com/sluice-push/sluice/push/broker"
	"github.com/sluice-push/sluice/push/broker/memory"
	"github.com/sluice-push/sluice/push/cluster"
	"github.com/sluice-push/sluice/push/cluster/members"
)

func TestMain(m *testing.M) {
	// The clock of the embedded NATS server ends with the process.
	goleak.VerifyTestMain(m, goleak.IgnoreTopFunction("github.com/nats-io/nats-server/v2/server/ats.Register.func1"))
}

// node returns a node of role all whose addresses follow from its ID.
func node(id string) *cluster.Member {
	return &cluster.Member{ID: id, Cluster: "test", Link: id + ".test:9100", Public: "ws://" + id + ".test"}
}

// join makes a Directory, which is closed at the end of the test.
func join(t *testing.T, self *cluster.Member, source members.Source, said *discoverytest.Output) *members.Directory {
	t.Helper()
	o := &members.Options{}
	if said != nil {
		o.Logger = said.Logger()
	}
	d, err := members.Join(self, source, o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = d.Close(context.WithoutCancel(t.Context())) })
	return d
}

// newBroker returns a broker that is closed at the end of the test.
func newBroker(t *testing.T) *memory.Broker {
	t.Helper()
	b := memory.New(nil)
	t.Cleanup(func() {
		if err := b.Close(); err != nil {
			t.Error(err)
		}
	})
	return b
}

// text returns the IDs of the members, a draining one with an exclamation mark.
func text(set *cluster.Set) string {
	var out []string
	for _, m := range set.Members() {
		id := m.ID
		if m.Draining {
			id += "!"
		}
		out = append(out, id)
	}
	return strings.Join(out, " ")
}

// want fails unless a Directory has these members.
func want(t *testing.T, d *members.Directory, when, members string) {
	t.Helper()
	if got := text(d.Set()); got != members {
		t.Errorf("%s the members are %q, want %q", when, got, members)
	}
}

// pass lets time go by, in a bubble of synctest.
func pass(d time.Duration) { <-time.After(d) }

// times returns in how many lines of a log there is a text.
func times(said *discoverytest.Output, text string) int {
	n := 0
	for line := range strings.Lines(said.String()) {
		if strings.Contains(line, text) {
			n++
		}
	}
	return n
}

// The states of flaky leases.
const (
	up = iota
	failing
	hanging // until the context is done
)

var errAway = errors.New("the broker is away")

// flaky is leases of a broker that is away at times.
type flaky struct {
	leases atomic.Pointer[memory.Broker]
	state  atomic.Int32                  // of all calls
	lists  atomic.Int32                  // the state of lists
	puts   atomic.Int32                  // how many there were
	next   atomic.Pointer[memory.Broker] // if it is set, the next put fails although it takes effect, after all leases were lost
}

func newFlaky(b *memory.Broker) *flaky {
	f := &flaky{}
	f.leases.Store(b)
	return f
}

func (f *flaky) check(ctx context.Context) error { return answer(ctx, f.state.Load()) }

func answer(ctx context.Context, state int32) error {
	switch state {
	case failing:
		return errAway
	case hanging:
		<-ctx.Done()
		return ctx.Err()
	}
	return nil
}

func (f *flaky) PutLease(ctx context.Context, l broker.Lease, ttl time.Duration) error {
	f.puts.Add(1)
	if b := f.next.Swap(nil); b != nil {
		f.leases.Store(b)
		return errors.Join(errAway, b.PutLease(ctx, l, ttl))
	}
	if err := f.check(ctx); err != nil {
		return err
	}
	return f.leases.Load().PutLease(ctx, l, ttl)
}

func (f *flaky) DropLease(ctx context.Context, key string) error {
	if err := f.check(ctx); err != nil {
		return err
	}
	return f.leases.Load().DropLease(ctx, key)
}

func (f *flaky) ListLeases(ctx context.Context, prefix string) ([]broker.Lease, error) {
	if err := errors.Join(f.check(ctx), answer(ctx, f.lists.Load())); err != nil {
		return nil, err
	}
	return f.leases.Load().ListLeases(ctx, prefix)
}
