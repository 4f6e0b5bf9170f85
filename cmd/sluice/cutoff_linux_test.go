package main_test

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/sluice-push/sluice/internal/testwait"
	"github.com/sluice-push/sluice/push/broker"
	"github.com/sluice-push/sluice/push/broker/nats"
	"github.com/sluice-push/sluice/push/cluster"
	"github.com/sluice-push/sluice/push/cluster/members"
)

// cutVariable is how long the hosts of these tests are cut off from each other; default 5 s. make proof-cutoff sets it.
const cutVariable = "SLUICE_CUT"

func cutTime(t *testing.T) time.Duration {
	text := os.Getenv(cutVariable)
	if text == "" {
		return 5 * time.Second
	}
	d, err := time.ParseDuration(text)
	must(t, err)
	return d
}

// cutoffPartitions is the number of partitions of each namespace.
const cutoffPartitions = 4

// cutoffNamespaces keeps everything that these tests publish, but for the channels of one namespace.
const cutoffNamespaces = `
namespaces:
  - {name: ticks, mode: stream, partitions: 4, history: {size: 200000, age: 1h}}
  - {name: own, mode: stream, partitions: 4, history: {size: 200000, age: 1h}}
  - {name: few, mode: stream, partitions: 4, history: {size: 20, age: 1h}}
  - {name: rows, mode: table, partitions: 4, history: {size: 1000, age: 1h}}
`

// cutoff is a cluster whose nodes are hosts of a network: a NATS server, two hubs, two gateways with clients, and one through which others publish. The
// last one knows the first hub only, and is no member.
type cutoff struct {
	t         *testing.T
	server    *host
	hubs      [2]*host
	gateways  [2]*host
	nodes     [2]*process // of the gateways
	feed      *process    // the gateway through which others publish
	directory *members.Directory

	publishers []*publisher // of streams
	own        *publisher   // of a stream, publishes through the first gateway, and does not repeat
	rows       *publisher   // of a table
	channels   map[string]channelKind
	witnesses  []*witness
	stop       context.CancelFunc // ends the publishers
	publishing sync.WaitGroup
}

// newCutoff starts a cluster, publishers and witnesses.
func newCutoff(t *testing.T) *cutoff {
	t.Helper()
	n := newNetwork(t)
	c := &cutoff{t: t, server: n.host(), hubs: [2]*host{n.host(), n.host()}, gateways: [2]*host{n.host(), n.host()}}
	server := c.server.command(os.Getenv(serverVariable), "--addr", c.server.ip, "--port", "4222", "--jetstream", "--store_dir", t.TempDir())
	must(t, server.Start())
	t.Cleanup(func() {
		_ = server.Process.Kill()
		_ = server.Wait() // the error only says that the process was killed
	})
	for i, h := range c.hubs {
		c.launch(h, "", fmt.Sprintf(`
role: hub
broker: {kind: nats, nats: {url: "nats://%s:4222"}}
cluster: {name: c, node: hub%d, link: {listen: "%s:7000", secret: s}}
`, c.server.ip, i+1, h.ip))
	}
	for i, h := range c.gateways {
		c.nodes[i] = c.launch(h, h.ip+":8000", fmt.Sprintf(`
role: gateway
cluster: {name: c, node: gateway%d, link: {secret: s}, discovery: {addresses: ["%s:7000", "%s:7000"]}}
`, i+1, c.hubs[0].ip, c.hubs[1].ip))
	}
	feed := n.host()
	c.feed = c.launch(feed, feed.ip+":8000", fmt.Sprintf(`
role: gateway
cluster: {name: c, node: feed, link: {secret: s}, discovery: {kind: static, addresses: ["%s:7000"]}}
`, c.hubs[0].ip))
	for _, node := range append(c.nodes[:], c.feed) {
		testwait.Receive(t, node.greeted)
	}
	c.observe()
	c.watch()
	return c
}

// launch starts a node. It has a public address if it gets one.
func (c *cutoff) launch(h *host, public, config string) *process {
	c.t.Helper()
	folder := c.t.TempDir()
	file := filepath.Join(folder, "sluice.yaml")
	must(c.t, os.WriteFile(file, []byte(config+"listen: '"+public+"'\n"+cutoffNamespaces), 0o600))
	cmd := h.command(os.Getenv(programVariable), "serve", "--insecure", "--config", file, "--internal", "127.0.0.1:0", "--data", folder)
	return launch(c.t, cmd)
}

// observe joins the cluster, as a gateway that takes no clients, to see the members as other nodes do.
func (c *cutoff) observe() {
	c.t.Helper()
	b, err := nats.New(c.t.Context(), &nats.Options{URL: "nats://" + c.server.ip + ":4222"})
	must(c.t, err)
	self := &cluster.Member{ID: "observer", Cluster: "c", Role: cluster.Gateway, Public: "http://observer", Draining: true}
	c.directory, err = members.Join(self, members.NewLeases(b), nil)
	must(c.t, err)
	c.t.Cleanup(func() {
		if err := errors.Join(c.directory.Close(context.Background()), b.Close()); err != nil {
			c.t.Error(err)
		}
	})
	c.awaitMembers("all", "gateway1", "gateway2", "hub1", "hub2")
}

// awaitMembers waits until these nodes take clients or channels.
func (c *cutoff) awaitMembers(what string, ids ...string) {
	c.t.Helper()
	testwait.True(c.t, "the members are "+what, func() bool {
		return !slices.ContainsFunc(ids, func(id string) bool { return !c.isMember(id) })
	})
}

func (c *cutoff) isMember(id string) bool {
	m := c.directory.Set().Member(id)
	return m != nil && !m.Draining
}

// channel returns a channel of a namespace that is on one of the hubs.
func (c *cutoff) channel(namespace, hub string) string {
	c.t.Helper()
	placer, err := cluster.NewPlacer(nil)
	must(c.t, err)
	for i := range 100 {
		channel := fmt.Sprintf("%s:%d", namespace, i)
		m, err := placer.Place(c.directory.Set(), broker.PartitionOf(channel, cutoffPartitions), "")
		must(c.t, err)
		if m.ID == hub {
			return channel
		}
	}
	c.t.Fatalf("%s has no channel on %s", namespace, hub)
	return ""
}

// watch starts the publishers and the witnesses. The channels are on the second hub, but for one.
func (c *cutoff) watch() {
	c.t.Helper()
	own, rows := c.channel("own", "hub2"), c.channel("rows", "hub2")
	channels := map[string]channelKind{rows: table, own: gappy}
	streams := []string{c.channel("ticks", "hub2"), c.channel("few", "hub2"), c.channel("ticks", "hub1")}
	for _, channel := range streams {
		channels[channel] = stream
	}
	c.channels = channels
	c.witnesses = []*witness{
		watch(c.t, "witness 1", c.nodes[0].public, channels), watch(c.t, "witness 2", c.nodes[1].public, channels), watch(c.t, "mover", c.nodes[1].public, channels),
	}
	for _, w := range c.witnesses {
		testwait.True(c.t, w.name+" is subscribed", w.isSubscribed)
	}
	ctx, stop := context.WithCancel(context.Background())
	c.stop = stop
	c.t.Cleanup(c.stopPublishing)
	start := func(p *publisher) *publisher {
		p.t, p.rows = c.t, map[string]int64{}
		c.publishing.Go(func() { p.run(ctx) })
		return p
	}
	for _, channel := range streams {
		c.publishers = append(c.publishers, start(&publisher{node: c.feed, channel: channel, repeats: true}))
	}
	c.rows = start(&publisher{node: c.feed, channel: rows, repeats: true, hasKeys: true})
	c.own = start(&publisher{node: c.nodes[0], channel: own})
	c.awaitNews(c.newest())
}

func (c *cutoff) stopPublishing() {
	c.stop()
	testwait.Return(c.t, c.publishing.Wait)
}

// newest returns the newest acknowledged numbers, by channel.
func (c *cutoff) newest() map[string]int64 {
	all := map[string]int64{}
	for _, p := range c.publishers {
		all[p.channel] = p.newest()
	}
	return all
}

// awaitNews waits until all witnesses have newer publications than these.
func (c *cutoff) awaitNews(than map[string]int64) {
	c.t.Helper()
	want := map[string]int64{}
	for channel, number := range than {
		want[channel] = number + 1
	}
	for _, w := range c.witnesses {
		c.await(w, "has newer publications", func() bool { return w.has(want) })
	}
}

// await waits for a witness, and says how it stands if that is in vain.
func (c *cutoff) await(w *witness, what string, check func() bool) {
	c.t.Helper()
	defer func() {
		if c.t.Failed() {
			c.t.Log(w)
		}
	}()
	testwait.True(c.t, w.name+" "+what, check)
}

// directions are the ways in which two hosts may be cut off from each other.
var directions = []struct {
	name     string
	from, to bool // packets from the first host are dropped, and those to it
}{{name: "from", from: true}, {name: "to", to: true}, {name: "both", from: true, to: true}}

// moveTime is when a witness moves to a gateway that is cut off. The gateway does not know then that it is.
const moveTime = 2 * time.Second

// try cuts two hosts off from each other, in each way. A witness moves to the first gateway meanwhile, with positions that may be ahead of what the
// gateway has, and another one comes. They all have to get what is published when the hosts reach each other again; and before that, if it
// lasts until the other nodes have noticed. during is called then.
func (c *cutoff) try(a, b *host, during func()) {
	c.t.Helper()
	limit := cutTime(c.t)
	mover := c.witnesses[2]
	for _, d := range directions {
		began := time.Now()
		if d.from {
			a.drop(b)
		}
		if d.to {
			b.drop(a)
		}
		moving, healing := time.NewTimer(moveTime), time.NewTimer(limit)
		testwait.Receive(c.t, moving.C)
		mover.move(c.nodes[0].public)
		c.witnesses = append(c.witnesses, watch(c.t, "newcomer "+d.name, c.nodes[0].public, c.channels))
		<-healing.C
		if isNoticed := d.from && d.to || limit > 30*time.Second; isNoticed {
			c.awaitNews(c.newest())
			c.t.Logf("%s: all witnesses have newer publications after %v", d.name, time.Since(began))
			during()
			c.t.Logf("%s: the members have noticed after %v", d.name, time.Since(began))
		}
		for _, w := range c.witnesses {
			c.t.Logf("%s: before it heals: %v", d.name, w)
		}
		healed := time.Now()
		a.restore(b)
		b.restore(a)
		c.awaitNews(c.newest())
		c.awaitMembers("all again", "gateway1", "gateway2", "hub1", "hub2")
		c.t.Logf("%s: all is well %v after it has healed", d.name, time.Since(healed))
		mover.move(c.nodes[1].public)
	}
	c.finish()
}

// finish ends the publishers, and checks what the witnesses have, and what became of the publications of the first gateway.
func (c *cutoff) finish() {
	c.t.Helper()
	c.stopPublishing()
	newest, rows := c.newest(), c.rows.rowsNow()
	history := c.history(c.own.channel)
	for _, w := range c.witnesses {
		c.await(w, "has the last publications", func() bool { return w.has(newest) })
		c.await(w, "has the rows", func() bool { return w.hasRows(c.rows.channel, rows) })
		c.await(w, "has the publications of the first gateway", func() bool { return w.hasAll(c.own.channel, history) })
		c.t.Log(w)
	}
	times := map[int64]int{}
	for _, p := range history {
		times[p.number]++
	}
	for number, o := range c.own.outcomes {
		if n := times[int64(number)+1]; n > 1 || o == acked && n == 0 || o == refused && n > 0 {
			c.t.Errorf("publication %d, which was %s, is stored %d times", number+1, o, n)
		}
	}
	c.t.Logf("published %v, and %d through the first gateway, of which %d were stored", newest, len(c.own.outcomes), len(history))
}

// history returns the history of a channel.
func (c *cutoff) history(channel string) []stored {
	c.t.Helper()
	result := c.feed.api("history", map[string]any{"channel": channel, "limit": 100_000})
	var all []stored
	for _, entry := range result["publications"].([]any) {
		p := entry.(map[string]any)
		all = append(all, stored{uint64(p["offset"].(float64)), int64(p["data"].(float64))})
	}
	return all
}

// publisher publishes numbers to a channel, one after the other.
type publisher struct {
	t       *testing.T
	node    *process
	channel string
	repeats bool // a publication is made until it is acknowledged
	hasKeys bool // the numbers are those of rows

	mu       sync.Mutex
	number   int64            // guarded by mu: the newest that was acknowledged
	rows     map[string]int64 // guarded by mu
	outcomes []outcome        // of a publisher that does not repeat, owned by run
}

// outcome is what a publisher was told of a publication.
type outcome string

const (
	acked   outcome = "acknowledged"
	refused outcome = "refused"
	unknown outcome = "perhaps stored"
)

// publishPause is the time between two publications of a publisher.
const publishPause = 20 * time.Millisecond

func (p *publisher) run(ctx context.Context) {
	ticker := time.NewTicker(publishPause)
	defer ticker.Stop()
	for number := int64(1); ctx.Err() == nil; number++ {
		p.publish(ctx, number)
		select {
		case <-ticker.C:
		case <-ctx.Done():
		}
	}
}

func (p *publisher) publish(ctx context.Context, number int64) {
	key, what, isRemoval := "", fmt.Sprintf(`"data":%d`, number), false
	if p.hasKeys {
		if key = fmt.Sprint(number % 7); number%5 == 0 {
			what, isRemoval = `"removed":true`, true
		}
	}
	body := fmt.Sprintf(`{"channel":%q,"key":%q,%s,"idempotency_key":"%d"}`, p.channel, key, what, number)
	for {
		err := p.node.try("publish", body)
		if !p.repeats {
			p.note(err)
			return
		}
		if err == nil {
			break
		}
		if !isBusy(err) && !isUnsure(err) {
			p.t.Errorf("%s: %v", p.channel, err)
			return
		}
		pause(context.WithoutCancel(ctx)) // the outcome has to be certain
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.number = number
	switch {
	case isRemoval:
		delete(p.rows, key)
	case p.hasKeys:
		p.rows[key] = number
	}
}

// note notes what became of the next publication.
func (p *publisher) note(err error) {
	switch {
	case err == nil:
		p.outcomes = append(p.outcomes, acked)
	case isBusy(err):
		p.outcomes = append(p.outcomes, refused)
	default:
		if !isUnsure(err) {
			p.t.Errorf("%s: %v", p.channel, err)
		}
		p.outcomes = append(p.outcomes, unknown)
	}
}

func (p *publisher) newest() int64 {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.number
}

func (p *publisher) rowsNow() map[string]int64 {
	p.mu.Lock()
	defer p.mu.Unlock()
	return maps.Clone(p.rows)
}

// TestGatewayCutOff: while no packets pass between a gateway and a hub, the gateway gets channels from the other hub, and its clients are told
// the truth.
func TestGatewayCutOff(t *testing.T) {
	t.Parallel()
	if !withOwnNetwork(t) {
		return
	}
	c := newCutoff(t)
	c.try(c.gateways[0], c.hubs[1], func() {})
}

// TestHubCutOff: while no packets pass between a hub and the broker, the hub leaves the members, gateways that can reach it go to the other hub, and
// their clients are told the truth.
func TestHubCutOff(t *testing.T) {
	t.Parallel()
	if !withOwnNetwork(t) {
		return
	}
	c := newCutoff(t)
	c.try(c.hubs[1], c.server, func() {
		testwait.True(t, "the hub is no member", func() bool { return !c.isMember("hub2") })
	})
}
