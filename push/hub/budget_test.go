package hub_test

import (
	"bytes"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/sluice-push/sluice/internal/testwait"
	"github.com/sluice-push/sluice/push"
	"github.com/sluice-push/sluice/push/broker/memory"
	"github.com/sluice-push/sluice/push/hub"
	"github.com/sluice-push/sluice/push/pushtest"
)

// Over the budget, unused channels are dropped, then the streams at rest forget their entries; tables keep their rows, and a client that is up
// to date notices nothing.
func TestBudget(t *testing.T) { synctest.Test(t, testBudget) } // no time passes, so the janitor stays out of it

func testBudget(t *testing.T) {
	w := newBudgetWorld(t)
	w.fill("stream:1")
	w.fill("table:x")
	w.fill("stream:0")
	w.look(0, 1500, 0)
	w.fill("stream:unused")
	w.look(0, 1500, 1) // the unused one is given up, and one can ask for it again
	if w.hub.Holds("stream:unused") != -1 {
		t.Error("the unused channel is still there")
	}
	w.look(0, 1500, 1)
	w.fill("stream:2")
	w.look(1, 1500, 2) // stream:1 was idle for longest
	w.fill("stream:1")
	w.look(2, 1500, 2) // now stream:0; it is the same overrun as long as no look finds that all fits
	for range 3 {
		w.fill("table:x")
	}
	w.look(2, 1500, 2)
	for i := range 30 {
		publish(t, w.hub, "table:x", push.Publication{Key: fmt.Sprint("more", i), Data: bytes.Repeat([]byte("x"), 100)})
	}
	settle(t, w.hub, "table:x")
	w.served(5*w.filled + 30)
	w.hub.Measure()
	rows := w.hub.Stats().LogBytes - 1000
	w.look(4, rows, 3) // all streams, and it does not suffice
	w.look(4, rows, 3) // which is said once
	found, err := w.hub.History(testwait.Context(t), "stream:unused", hub.HistoryRequest{Limit: -1})
	must(t, err)
	if len(found.Entries) != 5 {
		t.Errorf("the unused channel came back with %d entries", len(found.Entries))
	}
	w.upToDate()
}

// budgetWorld is a hub that may hold 1,500 bytes, and a client that is subscribed to four of its channels and takes everything.
type budgetWorld struct {
	t       *testing.T
	clock   *pushtest.Clock
	hub     *hub.Hub
	log     bytes.Buffer
	budget  hub.Budget
	carrier *carrier
	names   []string // of the client's channels
	filled  int      // how often one of them was
}

func newBudgetWorld(t *testing.T) *budgetWorld {
	w := &budgetWorld{t: t, clock: pushtest.NewClock(time.Now())}
	b := memory.New(&memory.Options{Now: w.clock.Now})
	t.Cleanup(func() { must(t, b.Close()) })
	w.hub = newHub(t, b, spaces(push.History{}), &hub.Options{LogBytes: 1500, Logger: slog.New(slog.NewTextHandler(&w.log, nil))})
	w.carrier = newCarrier(t, open, false)
	s := w.carrier.connect(w.hub, client("a"))
	w.names = []string{"table:x", "stream:0", "stream:1", "stream:2"}
	for _, name := range w.names {
		subscribe(t, s, hub.SubscribeRequest{Channel: name})
	}
	settle(t, w.hub, "stream:unused")
	return w
}

// fill publishes 500 bytes to a channel.
func (w *budgetWorld) fill(name string) {
	w.t.Helper()
	w.clock.Advance(time.Second)
	for i := range 5 {
		publish(w.t, w.hub, name, push.Publication{Key: fmt.Sprint(i), Data: bytes.Repeat([]byte("x"), 99)})
	}
	settle(w.t, w.hub, name)
	if slices.Contains(w.names, name) {
		w.filled++
		w.served(5 * w.filled)
	}
}

// served waits until the client has n frames: a client that is up to date does not notice when a log forgets its entries.
func (w *budgetWorld) served(n int) {
	w.t.Helper()
	testwait.True(w.t, "the client has all", func() bool { return len(w.carrier.taken()) == n })
}

// look has the budget enforced, and says what the outcome has to be.
func (w *budgetWorld) look(shrunk uint64, held int64, warnings int) {
	w.t.Helper()
	w.budget.Enforce(w.hub)
	stats, n := w.hub.Stats(), strings.Count(w.log.String(), "channel logs exceed the memory limit")
	if stats.Shrunk != shrunk || stats.LogBytes != held || n != warnings {
		w.t.Errorf("%d shrunk, %d bytes held, %d warnings; want %d, %d, %d", stats.Shrunk, stats.LogBytes, n, shrunk, held, warnings)
	}
}

// upToDate checks that the client has noticed nothing.
func (w *budgetWorld) upToDate() {
	w.t.Helper()
	for _, name := range w.names {
		publish(w.t, w.hub, name, push.Publication{Key: "last", Data: []byte("last")})
	}
	testwait.True(w.t, "the last ones come", func() bool {
		n := 0
		for _, f := range w.carrier.taken() {
			if f.kind == "end" {
				w.t.Fatalf("%s was ended", f.channel)
			}
			if f.key == "last" {
				n++
			}
		}
		return n == len(w.names)
	})
}

// A negative budget is none.
func TestBudgetOff(t *testing.T) {
	h := newHub(t, newBroker(t), spaces(push.History{}), &hub.Options{LogBytes: -1})
	s := newCarrier(t, open, false).connect(h, client("a"))
	subscribe(t, s, hub.SubscribeRequest{Channel: "stream:x"})
	publishN(t, h, "stream:x", 1, 9)
	settle(t, h, "stream:x")
	var budget hub.Budget
	budget.Enforce(h)
	if stats := h.Stats(); stats.LogBytes != 9 || stats.Shrunk != 0 {
		t.Errorf("%+v", stats)
	}
}

// A client that was away when its stream was shrunk learns that it cannot go on; one that reads too slowly is ended.
func TestBudgetLoses(t *testing.T) {
	h := newHub(t, newBroker(t), spaces(push.History{}), &hub.Options{LogBytes: 1})
	slow := newCarrier(t, shut, false)
	s := slow.connect(h, client("slow"))
	from := subscribe(t, s, hub.SubscribeRequest{Channel: "stream:x"}).Position
	publishN(t, h, "stream:x", 1, 9)
	settle(t, h, "stream:x")
	stuck(t, slow)
	var budget hub.Budget
	budget.Enforce(h)
	away := newCarrier(t, open, false).connect(h, client("away"))
	if got := subscribe(t, away, hub.SubscribeRequest{Channel: "stream:x", Since: &from}); got.Recovered {
		t.Errorf("recovered: %+v", got)
	}
	slow.open(open)
	testwait.True(t, "the slow one is ended", func() bool { return !s.Subscribes("stream:x") })
}
