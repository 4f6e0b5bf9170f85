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

// fault injects a fault into the nodes or their broker once.
type fault func(w *cluster, rng *rand.Rand)

// cluster is a test environment: the nodes, the clients, and the record of publications.
type cluster struct {
	counters

	t         *testing.T
	ctx       context.Context
	seed      uint64
	log       *slog.Logger
	published *published
	names     []string

	faults     []fault
	faulty     *pushtest.Faulty                                 // the broker of all nodes, if it is in memory
	connect    func(ctx context.Context) (broker.Broker, error) // makes a node's broker, if it is not in memory
	natsServer *natsServer
	hubs       []*linkedHub      // which the nodes' links lead to
	placement  placement         // of the hubs
	returnHub  func(bool)        // has the hub come back that is away; nil: none is
	loads      countedLoads      // what the hubs load; its channel is a table that viewers see besides; empty: there are no viewers
	epochs     map[string]string // epochs of the channels at a quiescent point
	nudging    sync.RWMutex      // held for writing while a publication is made at a quiescent point

	mu    sync.RWMutex // guards the fields below
	nodes [2]*node
}

func newCluster(t *testing.T, seed uint64) *cluster {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(t.Context()), 5*time.Minute)
	t.Cleanup(cancel)
	w := &cluster{t: t, ctx: ctx, seed: seed, published: newPublished(), log: slog.New(slog.DiscardHandler)}
	w.names = []string{"stream:a", "stream:b", "value:a", "table:a", "table:b"}
	return w
}

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// onMemory starts the nodes on a shared broker in memory.
func (w *cluster) onMemory(t *testing.T, faults []fault) {
	w.faults, w.faulty = faults, pushtest.NewFaulty(memory.New(nil))
	t.Cleanup(func() { must(t, w.faulty.Close()) })
	w.startNodes(t)
}

// natsServer is a NATS server that can be restarted.
type natsServer struct {
	options nats.Options
	broker  *nats.Broker
}

// onNATS starts the nodes on one NATS server, each with its own broker client.
func (w *cluster) onNATS(t *testing.T, faults []fault) {
	w.faults = faults
	w.natsServer = &natsServer{options: nats.Options{Dir: t.TempDir(), Listen: freeAddress(t)}}
	var err error
	w.natsServer.broker, err = nats.New(w.ctx, &w.natsServer.options)
	must(t, err)
	t.Cleanup(func() { must(t, w.natsServer.broker.Close()) })
	w.connect = func(ctx context.Context) (broker.Broker, error) {
		return nats.New(ctx, &nats.Options{URL: "nats://" + w.natsServer.options.Listen})
	}
	w.startNodes(t)
}

// freeAddress returns an address at which a server can listen repeatedly.
func freeAddress(t *testing.T) string {
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	must(t, err)
	defer func() { _ = ln.Close() }()
	return ln.Addr().String()
}

func (w *cluster) startNodes(t *testing.T) {
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
func (w *cluster) start() (*node, error) {
	var own, b broker.Broker = nil, w.faulty
	if w.connect != nil {
		var err error
		if own, err = w.connect(w.ctx); err != nil {
			return nil, err
		}
		b = own
	}
	faulty := pushtest.NewFaulty(b)
	n, err := start(w.ctx, faulty, w.natsServer != nil, w.seed, w.log)
	if err != nil {
		return nil, err
	}
	n.faulty, n.broker = faulty, own
	return n, nil
}

// node returns one of the nodes.
func (w *cluster) node(i int) *node {
	w.mu.RLock()
	defer w.mu.RUnlock()
	return w.nodes[i]
}

// kill loses a node: its connections break, and a new node takes its place.
func (w *cluster) kill(rng *rand.Rand) {
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

// gap makes the broker evict publications before the nodes get them. The nodes are told of the gap.
func (w *cluster) gap(rng *rand.Rand) {
	if rng.IntN(5) == 0 {
		w.faulty.Evict(w.partition(rng), 1+rng.IntN(3))
		w.gaps.Add(1)
	}
}

// lag delays the publications for one of the nodes.
func (w *cluster) lag(rng *rand.Rand) {
	if rng.IntN(3) == 0 {
		release := w.node(rng.IntN(2)).faulty.Hold(w.partition(rng))
		pause(w.ctx, time.Duration(rng.IntN(20))*time.Millisecond)
		release()
		w.lags.Add(1)
	}
}

// renew starts a new epoch of a partition.
func (w *cluster) renew(rng *rand.Rand) {
	if rng.IntN(6) == 0 {
		w.faulty.Reset(w.partition(rng))
		w.lives.Add(1)
	}
}

func (w *cluster) partition(rng *rand.Rand) broker.Partition {
	return broker.PartitionOf(w.names[rng.IntN(len(w.names))], partitions)
}

// restart restarts the server.
func (w *cluster) restart(rng *rand.Rand) {
	if rng.IntN(40) != 0 {
		return
	}
	if err := w.natsServer.broker.Close(); err != nil {
		w.t.Errorf("the server does not end: %v", err)
	}
	b, err := nats.New(w.ctx, &w.natsServer.options)
	if err != nil {
		w.t.Errorf("the server does not start again: %v", err)
		return
	}
	w.natsServer.broker = b
	w.restarts.Add(1)
}

// participant is a client or a browser.
type participant interface {
	act(done <-chan struct{}) // acts randomly until done is closed
	catchUp()                 // waits until it has all publications, and checks what it received
	end()
}

// run runs all participants for several rounds. After each round it checks the laws. After a violation there are no more rounds.
func (w *cluster) run(rounds uint64) {
	w.seeds.Add(1)
	var clients []participant
	for i := range 6 {
		clients = append(clients, newClient(w, i))
	}
	for i := range 3 {
		clients = append(clients, newBrowser(w, i))
	}
	if w.loads.channel != "" {
		for i := range 4 {
			clients = append(clients, newViewer(w, i))
		}
	}
	for round := range rounds {
		var publishers, others sync.WaitGroup
		done := make(chan struct{})
		for i := range uint64(3) {
			publishers.Go(func() { w.publish(rand.New(rand.NewPCG(w.seed<<8|round, 100+i)), 250) }) //nolint:gosec // reproducible
		}
		for _, c := range clients {
			others.Go(func() { c.act(done) })
		}
		others.Go(func() {
			rng := rand.New(rand.NewPCG(w.seed<<8|round, 200)) //nolint:gosec // reproducible
			for !isClosed(done) {
				if len(w.faults) > 0 {
					w.faults[rng.IntN(len(w.faults))](w, rng)
				}
				w.bounded(len(clients))
				pause(w.ctx, time.Duration(rng.IntN(10))*time.Millisecond)
			}
		})
		publishers.Wait()
		close(done)
		others.Wait()
		if w.checkQuiescent(clients); w.t.Failed() {
			break
		}
	}
	for _, c := range clients {
		c.end()
	}
}

// checkQuiescent checks the laws while nothing happens: publishing has paused, and every client must catch up. If nodes have missed
// publications, nudge publishes now and then, because a client learns of a loss only with the next publication.
func (w *cluster) checkQuiescent(clients []participant) {
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
		all.Go(c.catchUp)
	}
	all.Wait()
	close(done)
	nudging.Wait()
	w.rests.Add(1)
}

// nudge publishes to each stream.
func (w *cluster) nudge(rng *rand.Rand) {
	w.nudging.Lock()
	defer w.nudging.Unlock()
	for _, name := range w.names {
		if strings.HasPrefix(name, "stream:") {
			w.publishOne(rng, name)
		}
	}
}

// mostQueued is how many bytes may wait for a client: the session's bound on replies, and the rest of one frame.
const mostQueued = 64<<10 + 64<<10

// bounded checks law 4, as far as the gateway's statistics show.
func (w *cluster) bounded(clients int) {
	for i := range w.nodes {
		if queued := w.node(i).gateway.Stats().QueueBytes; queued > int64(clients*mostQueued) {
			w.t.Errorf("%d bytes wait for %d clients", queued, clients)
		}
	}
}

// kept checks law 6: each node has every acknowledged publication that the namespace keeps. It also records the current epochs.
func (w *cluster) kept() {
	w.epochs = map[string]string{}
	deadline := time.Now().Add(*patience)
	names := w.names
	if w.loads.channel != "" {
		names = append(slices.Clone(names), w.loads.channel)
	}
	for i := range w.nodes {
		for _, name := range names {
			found, err := w.awaitHistory(i, name, deadline)
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

// awaitHistory returns the history of a channel at a node. It waits until the node has received all acknowledged publications, or until the
// deadline.
func (w *cluster) awaitHistory(i int, name string, deadline time.Time) (hub.History, error) {
	all := w.published.of(name, 0, push.MaxOffset)
	ctx, cancel := context.WithDeadline(w.ctx, deadline)
	defer cancel()
	for {
		found, err := retry(ctx, func() (hub.History, error) {
			return w.node(i).hub.History(ctx, name, hub.HistoryRequest{Limit: -1})
		})
		if err != nil || len(all) == 0 || found.Position.Offset >= all[len(all)-1].Offset || time.Now().After(deadline) {
			return found, err
		}
		pause(w.ctx, time.Millisecond)
	}
}

// shown returns what a node must return as the history of a channel: at least as many entries of a stream as its namespace keeps, and all rows
// of a table.
func (w *cluster) shown(name string, shows int) []string {
	all := w.published.of(name, 0, push.MaxOffset)
	if !strings.HasPrefix(name, "stream:") {
		rows := w.published.rows(name)
		all = slices.DeleteFunc(all, func(p push.Publication) bool { return rows[p.Key].offset != p.Offset })
	} else if least := min(len(all), keptPublications(w.seed)); shows >= least || w.gaps.Load() > 0 {
		// A node that was told of a gap discards all entries before it.
		all = all[max(len(all)-shows, 0):]
	}
	var out []string
	for _, p := range all {
		out = append(out, text(p.Offset, p.Key+" "+string(p.Data)))
	}
	return out
}

// retry calls f until it succeeds, returns a permanent error, or ctx ends.
func retry[T any](ctx context.Context, f func() (T, error)) (T, error) {
	for {
		v, err := f()
		var e *push.Error
		if err == nil || !errors.As(err, &e) || !e.Temporary || ctx.Err() != nil {
			return v, err
		}
		pause(ctx, time.Millisecond)
	}
}

// publishOne publishes to a channel. If it is unknown whether the publication was stored, publishOne repeats it until it is acknowledged.
func (w *cluster) publishOne(rng *rand.Rand, name string) bool {
	p, key := w.publication(rng, name), fmt.Sprintf("%x", rng.Uint64())
	tries := 0
	at, err := retry(w.ctx, func() (push.Position, error) {
		if tries++; tries == 2 {
			w.published.repeat(version{p.Key, string(p.Data)})
		}
		return w.node(rng.IntN(2)).hub.Publish(w.ctx, name, p, key)
	})
	if err != nil {
		w.t.Errorf("publishing to %s: %v", name, err)
		return false
	}
	w.published.add(name, at, p)
	w.publications.Add(1)
	return true
}

// publish makes n publications to random channels.
func (w *cluster) publish(rng *rand.Rand, n int) {
	for range n {
		if !w.publishOne(rng, w.names[rng.IntN(len(w.names))]) {
			return
		}
		if rng.IntN(4) == 0 {
			pause(w.ctx, time.Duration(rng.IntN(3000))*time.Microsecond)
		}
	}
}

// publication returns a random publication for a channel.
func (w *cluster) publication(rng *rand.Rand, name string) push.Publication {
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
