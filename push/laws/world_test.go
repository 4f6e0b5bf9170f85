package laws_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"net"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/sluice-push/sluice/push"
	"github.com/sluice-push/sluice/push/broker"
	"github.com/sluice-push/sluice/push/broker/memory"
	"github.com/sluice-push/sluice/push/broker/nats"
	"github.com/sluice-push/sluice/push/hub"
	"github.com/sluice-push/sluice/push/pushtest"
)

// trouble is something that happens to the nodes and their broker, once.
type trouble func(w *world, rng *rand.Rand)

// world is the nodes, the clients and the truth.
type world struct {
	tally

	t     *testing.T
	ctx   context.Context
	seed  uint64
	log   *slog.Logger
	truth *truth
	names []string

	troubles []trouble
	faulty   *pushtest.Faulty                                 // the broker of all nodes, if it is in memory
	connect  func(ctx context.Context) (broker.Broker, error) // makes a node's broker, if it is not
	host     *host
	epochs   map[string]string // of the channels, at a quiet point
	nudging  sync.RWMutex      // held for writing while something is published at a quiet point

	mu    sync.RWMutex // guards what follows
	nodes [2]*node
}

func newWorld(t *testing.T, seed uint64) *world {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(t.Context()), 5*time.Minute)
	t.Cleanup(cancel)
	w := &world{t: t, ctx: ctx, seed: seed, truth: newTruth(), log: slog.New(slog.DiscardHandler)}
	w.names = []string{"stream:a", "stream:b", "value:a", "table:a", "table:b"}
	return w
}

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// onMemory starts the nodes on a broker in memory.
func (w *world) onMemory(t *testing.T, troubles []trouble) {
	w.troubles, w.faulty = troubles, pushtest.NewFaulty(memory.New(nil))
	t.Cleanup(func() { must(t, w.faulty.Close()) })
	w.startNodes(t)
}

// host is a NATS server that can be restarted.
type host struct {
	options nats.Options
	broker  *nats.Broker
}

// onNATS starts the nodes with a broker each, on one server.
func (w *world) onNATS(t *testing.T, troubles []trouble) {
	w.troubles = troubles
	w.host = &host{options: nats.Options{Dir: t.TempDir(), Listen: freeAddress(t)}}
	var err error
	w.host.broker, err = nats.New(w.ctx, &w.host.options)
	must(t, err)
	t.Cleanup(func() { must(t, w.host.broker.Close()) })
	w.connect = func(ctx context.Context) (broker.Broker, error) {
		return nats.New(ctx, &nats.Options{URL: "nats://" + w.host.options.Listen})
	}
	w.startNodes(t)
}

// freeAddress returns an address at which a server may listen, again and again.
func freeAddress(t *testing.T) string {
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	must(t, err)
	defer func() { _ = ln.Close() }()
	return ln.Addr().String()
}

func (w *world) startNodes(t *testing.T) {
	for i := range w.nodes {
		n, err := w.start()
		must(t, err)
		w.nodes[i] = n
	}
	t.Cleanup(func() {
		for _, n := range w.nodes {
			must(t, n.stop())
		}
	})
}

// start starts a node.
func (w *world) start() (*node, error) {
	var own, b broker.Broker = nil, w.faulty
	if w.connect != nil {
		var err error
		if own, err = w.connect(w.ctx); err != nil {
			return nil, err
		}
		b = own
	}
	faulty := pushtest.NewFaulty(b)
	n, err := start(w.ctx, faulty, w.connect != nil, w.seed, w.log)
	if err != nil {
		return nil, err
	}
	n.faulty, n.broker = faulty, own
	return n, nil
}

// node returns one of the nodes.
func (w *world) node(i int) *node {
	w.mu.RLock()
	defer w.mu.RUnlock()
	return w.nodes[i]
}

// kill loses a node: its connections break, and another one takes its place.
func (w *world) kill(rng *rand.Rand) {
	if rng.IntN(20) != 0 {
		return
	}
	i := rng.IntN(2)
	n, err := w.start()
	if err != nil {
		w.t.Errorf("a node does not start: %v", err)
		return
	}
	w.mu.Lock()
	old := w.nodes[i]
	w.nodes[i] = n
	w.mu.Unlock()
	if err := old.stop(); err != nil {
		w.t.Errorf("a node does not end: %v", err)
	}
	w.kills.Add(1)
}

// gap has the nodes miss publications that they are told of.
func (w *world) gap(rng *rand.Rand) {
	if rng.IntN(5) == 0 {
		w.faulty.Evict(w.partition(rng), 1+rng.IntN(3))
		w.gaps.Add(1)
	}
}

// lag has one of the nodes hear of what is published a little later than the other.
func (w *world) lag(rng *rand.Rand) {
	if rng.IntN(3) == 0 {
		release := w.node(rng.IntN(2)).faulty.Hold(w.partition(rng))
		pause(w.ctx, time.Duration(rng.IntN(20))*time.Millisecond)
		release()
		w.lags.Add(1)
	}
}

// renew ends the life of a partition.
func (w *world) renew(rng *rand.Rand) {
	if rng.IntN(6) == 0 {
		w.faulty.Reset(w.partition(rng))
		w.lives.Add(1)
	}
}

func (w *world) partition(rng *rand.Rand) broker.Partition {
	return broker.PartitionOf(w.names[rng.IntN(len(w.names))], 2)
}

// restart restarts the server.
func (w *world) restart(rng *rand.Rand) {
	if rng.IntN(40) != 0 {
		return
	}
	if err := w.host.broker.Close(); err != nil {
		w.t.Errorf("the server does not end: %v", err)
	}
	b, err := nats.New(w.ctx, &w.host.options)
	if err != nil {
		w.t.Errorf("the server does not start again: %v", err)
		return
	}
	w.host.broker = b
	w.restarts.Add(1)
}

// party is a client of whatever kind.
type party interface {
	live(done <-chan struct{}) // does random things until done is closed
	calm()                     // waits until it has what was published, and checks what came
	end()
}

// run lets everybody loose, several times, and looks in between.
func (w *world) run(rounds uint64) {
	w.seeds.Add(1)
	var clients []party
	for i := range 6 {
		clients = append(clients, newClient(w, i))
	}
	for i := range 3 {
		clients = append(clients, newBrowser(w, i))
	}
	for round := range rounds {
		var publishers, others sync.WaitGroup
		done := make(chan struct{})
		for i := range uint64(3) {
			publishers.Go(func() { w.publish(rand.New(rand.NewPCG(w.seed<<8|round, 100+i)), 250) }) //nolint:gosec // reproducible
		}
		for _, c := range clients {
			others.Go(func() { c.live(done) })
		}
		others.Go(func() {
			rng := rand.New(rand.NewPCG(w.seed<<8|round, 200)) //nolint:gosec // reproducible
			for !isClosed(done) {
				if len(w.troubles) > 0 {
					w.troubles[rng.IntN(len(w.troubles))](w, rng)
				}
				w.bounded(len(clients))
				pause(w.ctx, time.Duration(rng.IntN(10))*time.Millisecond)
			}
		})
		publishers.Wait()
		close(done)
		others.Wait()
		w.rest(clients)
	}
	for _, c := range clients {
		c.end()
	}
}

// rest is a quiet point: nobody publishes, and everybody is to have everything. But where the nodes have missed something there is a little
// more now and then: that a client has lost something is told with what comes next.
func (w *world) rest(clients []party) {
	w.kept()
	var all, nudging sync.WaitGroup
	done := make(chan struct{})
	if w.gaps.Load() > 0 {
		rng := rand.New(rand.NewPCG(w.seed, 300))
		nudging.Go(func() {
			for !isClosed(done) {
				w.nudge(rng)
				pause(w.ctx, 200*time.Millisecond)
			}
		})
	}
	for _, c := range clients {
		all.Go(c.calm)
	}
	all.Wait()
	close(done)
	nudging.Wait()
	w.rests.Add(1)
}

// nudge publishes to each stream.
func (w *world) nudge(rng *rand.Rand) {
	w.nudging.Lock()
	defer w.nudging.Unlock()
	for _, name := range w.names {
		if strings.HasPrefix(name, "stream:") {
			w.publishOne(rng, name)
		}
	}
}

// mostQueued is what may wait for a client: replies up to the bound of the session, and what was begun of one frame.
const mostQueued = 64<<10 + 64<<10

// bounded is the fourth law, as far as the gateway knows it.
func (w *world) bounded(clients int) {
	for i := range w.nodes {
		if queued := w.node(i).gateway.Stats().QueueBytes; queued > int64(clients*mostQueued) {
			w.t.Errorf("%d bytes wait for %d clients", queued, clients)
		}
	}
}

// kept is the sixth law: each node has what was acknowledged, as far as it is kept. It also learns the present epochs.
func (w *world) kept() {
	w.epochs = map[string]string{}
	deadline := time.Now().Add(*patience)
	for i := range w.nodes {
		for _, name := range w.names {
			found, err := w.heard(i, name, deadline)
			if err != nil {
				w.t.Errorf("node %d does not show %s: %v", i, name, err)
				continue
			}
			w.epochs[name] = found.Position.Epoch
			var got []string
			for _, e := range found.Entries {
				got = append(got, text(e.Offset, e.Key+" "+string(e.Data)))
			}
			if want := w.shown(name, len(got)); !slices.Equal(got, want) {
				w.t.Errorf("node %d shows %d entries of %s, %d were acknowledged; first difference: %s",
					i, len(got), name, len(want), firstDifference(got, want))
			}
		}
	}
}

// heard returns the history of a channel as a node shows it when it has heard of all that was acknowledged, also by the other node, or at the
// deadline.
func (w *world) heard(i int, name string, deadline time.Time) (hub.History, error) {
	all := w.truth.of(name, 0, push.MaxOffset)
	for {
		found, err := again(w.ctx, func() (hub.History, error) {
			return w.node(i).hub.History(w.ctx, name, hub.HistoryRequest{Limit: -1})
		})
		if err != nil || len(all) == 0 || found.Position.Offset >= all[len(all)-1].Offset || time.Now().After(deadline) {
			return found, err
		}
		pause(w.ctx, time.Millisecond)
	}
}

// shown is what a node has to show of a channel: at least as many entries of a stream as its namespace keeps, and all rows of a table.
func (w *world) shown(name string, shows int) []string {
	all := w.truth.of(name, 0, push.MaxOffset)
	if !strings.HasPrefix(name, "stream:") {
		rows := w.truth.rows(name)
		all = slices.DeleteFunc(all, func(p push.Publication) bool { return rows[p.Key].offset != p.Offset })
	} else if least := min(len(all), keptPublications(w.seed)); shows >= least || w.gaps.Load() > 0 {
		// A node that heard of a gap gives up what is before.
		all = all[max(len(all)-shows, 0):]
	}
	var out []string
	for _, p := range all {
		out = append(out, text(p.Offset, p.Key+" "+string(p.Data)))
	}
	return out
}

// again tries something until it works, or is wrong.
func again[T any](ctx context.Context, f func() (T, error)) (T, error) {
	for {
		v, err := f()
		var e *push.Error
		if err == nil || !errors.As(err, &e) || !e.Temporary || ctx.Err() != nil {
			return v, err
		}
		pause(ctx, time.Millisecond)
	}
}

// publishOne publishes to a channel. What is not known to have been stored is repeated until it is.
func (w *world) publishOne(rng *rand.Rand, name string) bool {
	p, key := w.publication(rng, name), fmt.Sprintf("%x", rng.Uint64())
	tries := 0
	at, err := again(w.ctx, func() (push.Position, error) {
		if tries++; tries == 2 {
			w.truth.repeat(version{p.Key, string(p.Data)})
		}
		return w.node(rng.IntN(2)).hub.Publish(w.ctx, name, p, key)
	})
	if err != nil {
		w.t.Errorf("publishing to %s: %v", name, err)
		return false
	}
	w.truth.add(name, at, p)
	w.publications.Add(1)
	return true
}

// publish publishes n times to random channels.
func (w *world) publish(rng *rand.Rand, n int) {
	for range n {
		if !w.publishOne(rng, w.names[rng.IntN(len(w.names))]) {
			return
		}
		if rng.IntN(4) == 0 {
			pause(w.ctx, time.Duration(rng.IntN(3000))*time.Microsecond)
		}
	}
}

// publication is something to publish to a channel.
func (w *world) publication(rng *rand.Rand, name string) push.Publication {
	p := push.Publication{Tags: map[string]string{"t": fmt.Sprint(rng.IntN(3))}}
	filler := strings.Repeat("the same again ", rng.IntN(20)*(1+rng.IntN(2)*rng.IntN(30)))
	p.Data = fmt.Appendf(nil, `{"symbol":"SLU","filler":"%s","n":%d}`, filler, rng.Uint32())
	if strings.HasPrefix(name, "stream:") {
		return p
	}
	if strings.HasPrefix(name, "table:") {
		p.Key = fmt.Sprintf("row %d", rng.IntN(1+rng.IntN(200)))
	}
	switch n := rng.IntN(200); {
	case n == 0:
		return push.Publication{Op: push.Clear}
	case n < 30:
		return push.Publication{Key: p.Key, Op: push.Remove}
	}
	return p
}
