package hub_test

import (
	"context"
	"fmt"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/sluice-push/sluice/internal/testwait"
	"github.com/sluice-push/sluice/push"
	"github.com/sluice-push/sluice/push/broker"
	"github.com/sluice-push/sluice/push/broker/memory"
	"github.com/sluice-push/sluice/push/hub"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// patience is how long a test waits for what has to happen. Nothing is measured by it: a test that needs it has failed.
const patience = 30 * time.Second

// spaces are the namespaces of most tests, named after their modes.
func spaces(h push.History) []hub.Namespace {
	var out []hub.Namespace
	for _, mode := range []push.Mode{push.Stream, push.Value, push.Table} {
		out = append(out, hub.Namespace{
			Namespace: broker.Namespace{Name: mode.String(), Mode: mode, History: h, Partitions: 2},
			Presence:  true,
		})
	}
	return out
}

// newBroker returns a memory broker that is closed after the test's hubs.
func newBroker(t testing.TB) *memory.Broker {
	t.Helper()
	b := memory.New(nil)
	t.Cleanup(func() { must(t, b.Close()) })
	return b
}

// newHub returns a hub that is closed at the end of the test.
func newHub(t testing.TB, b broker.Broker, namespaces []hub.Namespace, o *hub.Options) *hub.Hub {
	t.Helper()
	h, err := hub.New(testwait.Context(t), b, namespaces, o)
	must(t, err)
	t.Cleanup(func() { must(t, h.Close()) })
	return h
}

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// publish may be called by any goroutine.
func publish(t testing.TB, h *hub.Hub, name string, p push.Publication) push.Position {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	at, err := h.Publish(ctx, name, p, "")
	if err != nil {
		t.Error(err)
	}
	return at
}

// publishN publishes the numbers from first on and returns the last position.
func publishN(t testing.TB, h *hub.Hub, name string, first, n int) (at push.Position) {
	t.Helper()
	for i := first; i < first+n; i++ {
		at = publish(t, h, name, push.Publication{Data: fmt.Append(nil, i)})
	}
	return at
}
