package main_test

import (
	"fmt"
	"slices"
	"sync"
	"testing"

	"github.com/sluice-push/sluice/internal/testwait"
)

// drainedConfig is that of a cluster whose clients are told one after the other that their gateway ends. For the partitions see clusterConfig.
const drainedConfig = `
ping: {interval: 60s, timeout: 50s}
shutdown: {delay: 0s, spread: 200ms}
namespaces:
  - {name: ticks, mode: stream, partitions: 4, history: {size: 200000, age: 1h}}
`

// TestClusterRollingRestart: while all hubs and gateways are told to end and started again, one after the other, a publisher goes on. Every subscriber
// gets each publication once and in order, and is not cut when a hub ends.
func TestClusterRollingRestart(t *testing.T) {
	t.Parallel()
	const channels = 8
	c := startCluster(t, &clusterPlan{config: drainedConfig})
	want := map[string]*expectation{}
	for i := range channels {
		want[fmt.Sprintf("ticks:%d", i)] = &expectation{}
	}
	clients := c.clients(10, 4, want)
	feeds := map[*feedClient]*numberedFeed{}
	for _, client := range clients {
		feeds[client] = followNumbers(t, client, channels)
	}
	viewing := startClients(t, clients...)
	p := &numberedPublisher{cluster: c, channels: channels, stop: make(chan struct{})}
	var publishing sync.WaitGroup
	publishing.Go(p.run)
	for _, n := range slices.Concat(c.hubs, c.gateways) {
		p.awaitMore(t)
		end := func() {
			if code := n.terminate(); code != 0 {
				t.Errorf("exit code %d:\n%s", code, n.stderr)
			}
		}
		if slices.Contains(c.gateways, n) {
			c.takeDown(n, end)
		} else {
			end()
		}
		p.awaitMore(t)
		n.start()
	}
	p.awaitMore(t)
	close(p.stop)
	testwait.Return(t, publishing.Wait)
	viewing.await("at the end", func(client *feedClient) <-chan struct{} { return feeds[client].all })
	viewing.stop()
	for client, feed := range feeds {
		if feed.count != p.next || client.lost == 0 || client.checker.resumed() == 0 {
			t.Errorf("%s got %d publications of %d, lost its gateway %d times and resumed %d times",
				client.name, feed.count, p.next, client.lost, client.checker.resumed())
		}
	}
	t.Logf("%d publications, %d attempts failed", p.next, p.failed)
}

// numberedFeed is what a client has got of a numberedPublisher.
type numberedFeed struct {
	count int           // of numbers
	all   chan struct{} // closed when the client has got the last publication of every channel
}

// followNumbers fails the test if a client gets another publication of a channel than the next one.
func followNumbers(t *testing.T, client *feedClient, channels int) *numberedFeed {
	f := &numberedFeed{all: make(chan struct{})}
	ended := 0
	for i := range channels {
		next := i
		client.checker.accounts[fmt.Sprintf("ticks:%d", i)].taken = func(data []byte) {
			switch text := string(data); text {
			case fmt.Sprint(next):
				next += channels
				f.count++
			case `"end"`:
				if ended++; ended == channels {
					close(f.all)
				}
			default:
				t.Errorf("%s got %s when it waited for %d", client.name, text, next)
			}
		}
	}
	return f
}

// numberedPublisher publishes numbers to channels, in turn, until it is stopped. It repeats what was not accepted, at another gateway.
type numberedPublisher struct {
	cluster  *testCluster
	channels int
	stop     chan struct{} // closed by the test

	mu     sync.Mutex // guards the following while run runs
	next   int        // the next number
	failed int        // attempts
}

func (p *numberedPublisher) run() {
	for isStopped := false; !isStopped; {
		select {
		case <-p.stop:
			isStopped = true
		default:
			number := p.count()
			if !p.publish(number%p.channels, fmt.Sprint(number)) {
				return
			}
			p.mu.Lock()
			p.next++
			p.mu.Unlock()
		}
	}
	for i := range p.channels {
		p.publish(i, `"end"`)
	}
}

func (p *numberedPublisher) count() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.next
}

// awaitMore waits until something more was published.
func (p *numberedPublisher) awaitMore(t *testing.T) {
	t.Helper()
	const more = 50
	before := p.count()
	testwait.True(t, "publications are accepted", func() bool { return p.count() >= before+more })
}

// publish publishes data to a channel, and reports whether it could.
func (p *numberedPublisher) publish(channel int, data string) bool {
	body := fmt.Sprintf(`{"channel":"ticks:%d","data":%s,"idempotency_key":%q}`, channel, data, fmt.Sprintf("%d/%s", channel, data))
	for attempt := 0; ; attempt++ {
		n := p.cluster.gateways[attempt%len(p.cluster.gateways)]
		if !n.isUp.Load() {
			continue
		}
		err := tryAt(n.address, "publish", body)
		if err == nil {
			return true
		}
		p.cluster.t.Logf("%s at %s: %v", data, n.address, err)
		p.mu.Lock()
		p.failed++
		failed := p.failed
		p.mu.Unlock()
		if failed > 1000 {
			p.cluster.t.Errorf("publications are not accepted: %v", err)
			return false
		}
	}
}
