package loadtest

import (
	"context"
	"math"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"pgregory.net/rapid"

	"github.com/sluice-push/sluice/cmd/sluice/internal/clientconn"
	"github.com/sluice-push/sluice/cmd/sluice/internal/loadtest/delivery"
	"github.com/sluice-push/sluice/cmd/sluice/internal/loadtest/hostclock"
	"github.com/sluice-push/sluice/cmd/sluice/internal/loadtest/reasoncount"
	"github.com/sluice-push/sluice/push"
)

// Each client has the right number of distinct channels, which are the same in every process. Each channel has its share of clients.
func TestSubscriptions(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		s := Spec{Shape: Market, Channels: rapid.IntRange(1, 50).Draw(t, "channels"), Seed: rapid.Uint64().Draw(t, "seed")}
		s.Each = rapid.IntRange(1, s.Channels).Draw(t, "each")
		p, again := newPlan(s.withDefaults()), newPlan(s.withDefaults())
		for client := range 5 {
			list := p.subscriptions(client)
			if len(slices.Compact(slices.Clone(list))) != s.Each || !slices.IsSorted(list) || int(list[len(list)-1]) >= s.Channels {
				t.Fatalf("%d of %d channels: %v", s.Each, s.Channels, list)
			}
			if !slices.Equal(list, again.subscriptions(client)) {
				t.Fatal("they differ in another process")
			}
		}
	})
	p := newPlan(Spec{Shape: Market, Channels: 50, Each: 10}.withDefaults())
	var subscribers [50]int
	for client := range 1000 {
		for _, c := range p.subscriptions(client) {
			subscribers[c]++
		}
	}
	if least, most := slices.Min(subscribers[:]), slices.Max(subscribers[:]); least < 120 || most > 280 {
		t.Errorf("channels have %d to %d subscribers among 1,000 clients, about 200 are expected", least, most)
	}
}

// The due time of each publication follows the rate, and each stream belongs to one writer.
func TestSchedule(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		s := Spec{
			Shape: rapid.SampledFrom([]Shape{One, Market, Slow, Storm}).Draw(t, "shape"), Rate: rapid.Float64Range(0.1, 50_000).Draw(t, "rate"),
			Channels: rapid.IntRange(1, 300).Draw(t, "channels"), Each: 1, Zipf: rapid.SampledFrom([]float64{0, 1.1, 2}).Draw(t, "zipf"),
		}.withDefaults()
		p := newPlan(s)
		owner := map[uint32]int{}
		for k := range uint32(500) {
			if due := p.due(k + 1); due < p.due(k) || math.Abs(due.Seconds()-float64(k+1)/s.Rate) > 1e-6 {
				t.Fatalf("publication %d is due after %v at %v a second", k+1, due, s.Rate)
			}
			w, channel := p.writerOf(k), p.channelOf(k)
			stream := p.streamOf(channel, w)
			if w < 0 || w >= p.writers || channel >= p.channels || int(stream) >= p.streams() || int(stream)/p.streamsPerChannel != channel {
				t.Fatalf("publication %d: writer %d, channel %d, stream %d", k, w, channel, stream)
			}
			if before, known := owner[stream]; known && before != w {
				t.Fatalf("stream %d has writers %d and %d", stream, before, w)
			}
			owner[stream] = w
		}
	})
}

// Publications are distributed as the exponent s says: the first channel gets 2^s times as many as the second.
func TestZipf(t *testing.T) {
	p := newPlan(Spec{Shape: Market, Channels: 100, Zipf: 1.5}.withDefaults())
	var counts [100]float64
	const n = 200_000
	for k := range uint32(n) {
		counts[p.channelOf(k)]++
	}
	if got, want := counts[0]/counts[1], math.Pow(2, 1.5); math.Abs(got-want) > 0.15 {
		t.Errorf("the first is published to %.2f times as often as the second, want %.2f", got, want)
	}
	if slices.Min(counts[:]) == 0 {
		t.Error("a channel is never published to")
	}
}

// The number of clients that stall is right to within one.
func TestStalledClients(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		s := Spec{Shape: Slow, Clients: rapid.IntRange(1, 2000).Draw(t, "clients"), Stalled: rapid.Float64Range(0.001, 0.999).Draw(t, "share")}
		p, n := newPlan(s.withDefaults()), 0
		for i := range s.Clients {
			if p.stalls(i) {
				n++
			}
		}
		if want := float64(s.Clients) * s.Stalled; math.Abs(float64(n)-want) > 1 {
			t.Fatalf("%d of %d stall, want %.1f", n, s.Clients, want)
		}
	})
}

// The sum of the histograms of several processes equals a single histogram of all values.
func TestLatency(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		whole := delivery.NewHistogram()
		var parts []int64
		for range rapid.IntRange(1, 4).Draw(t, "processes") {
			part := delivery.NewHistogram()
			for _, v := range rapid.SliceOf(rapid.Int64Range(-5, 5_000_000_000)).Draw(t, "micros") {
				delivery.RecordLatency(part, v)
				delivery.RecordLatency(whole, v)
			}
			parts = delivery.SumCounts(parts, part.Export().Counts)
		}
		if got, want := latency(delivery.HistogramOf(parts)), latency(whole); got != want {
			t.Fatalf("%+v, want %+v", got, want)
		}
		if got := latency(delivery.HistogramBetween(parts, parts)); got != (Latency{}) {
			t.Fatalf("nothing has come, but %+v", got)
		}
	})
}

// The clock counts a nap of a millisecond as at least a millisecond.
func TestClock(t *testing.T) {
	a := hostclock.Now()
	hostclock.Nap(time.Millisecond)
	if b := hostclock.Now(); b-a < int64(time.Millisecond) {
		t.Errorf("a millisecond took %d ns", b-a)
	}
}

// Connections go to all nodes in turn. A node without a path gets the default path.
func TestAddress(t *testing.T) {
	s := Spec{URL: "http://a:1", Nodes: []string{"wss://b:2/path", "http://c:3"}}.withDefaults()
	if err := s.Validate(); err != nil {
		t.Fatal(err)
	}
	for n := range 7 {
		want := []string{"ws://a:1/connection/websocket", "wss://b:2/path", "ws://c:3/connection/websocket"}[n%3]
		if got := s.address(n); got != want {
			t.Errorf("connection %d goes to %s, not %s", n, got, want)
		}
	}
	if err := (Spec{URL: "http://a:1", Nodes: []string{"ftp://user:secret@b"}}).Validate(); err == nil || strings.Contains(err.Error(), "secret") {
		t.Errorf("the error is %v", err)
	}
}

// Over other transports than WebSocket, clients get the address of the node as it is. A publishing client uses WebSocket at the same node.
func TestAddressOfTransports(t *testing.T) {
	for _, tt := range []struct{ transport, url, client, publish, publisher string }{
		{"", "http://a:1", "ws://a:1/connection/websocket", "http://a:1/api/publish", "ws://a:1/connection/websocket"},
		{"websocket", "wss://a/x", "wss://a/x", "https://a/api/publish", "wss://a/x"},
		{"sse", "http://a:1", "http://a:1", "http://a:1/api/publish", "ws://a:1/connection/websocket"},
		{"http_stream", "https://a/x/", "https://a/x/", "https://a/api/publish", "wss://a/x/connection/websocket"},
	} {
		s := Spec{URL: tt.url, Transport: tt.transport}
		if err := s.Validate(); err != nil {
			t.Error(err)
		}
		s = s.withDefaults()
		if s.URL != tt.client || s.PublishURL != tt.publish || s.publisherURL() != tt.publisher || s.Protocol != JSON {
			t.Errorf("%s %s: %s, %s, %s in %s", tt.transport, tt.url, s.URL, s.PublishURL, s.publisherURL(), s.Protocol)
		}
	}
	err := (Spec{URL: "ws://user:secret@a:1?secret", Transport: "sse"}).Validate()
	if err == nil || strings.Contains(err.Error(), "secret") || !strings.Contains(err.Error(), "transport sse") {
		t.Errorf("the error is %v", err)
	}
}

// A client of a stream needs a file for commands as well, behind a network three for each.
func TestProcesses(t *testing.T) {
	const files = reservedFiles + 2*64 + 600
	for _, tt := range []struct {
		transport, network string
		want               int
	}{{"", "", 1}, {"sse", "", 2}, {"", "none", 3}, {"sse", "none", 6}} {
		s := Spec{Clients: 600, Transport: tt.transport, Network: tt.network}.withDefaults()
		if got := s.processes(files); got != tt.want {
			t.Errorf("%s %s: %d processes, want %d", tt.transport, tt.network, got, tt.want)
		}
	}
	s := Spec{Shape: Storm, Clients: 600, Connect: 64, Rejoin: 65}.withDefaults() // each client may be connecting
	if got := s.processes(files); got != 2 {
		t.Errorf("storm: %d processes, want 2", got)
	}
}

// Each client connects with its own token, all with the same one, or with none, in whichever process they are.
func TestTokens(t *testing.T) {
	for name, c := range map[string]struct {
		spec Spec
		want []string
	}{
		"none": {Spec{}, []string{"", ""}},
		"one":  {Spec{Token: "t"}, []string{"t", "t"}},
		"each": {Spec{Tokens: []string{"a", "b", "c"}}, []string{"b", "c"}},
	} {
		c.spec.Clients = 3
		g := newGroup(&job{Spec: c.spec.withDefaults(), Tokens: c.spec.tokensOf(1, 3), From: 1, To: 3})
		for i, client := range g.clients {
			if got := g.joinCommands(client)[0].Connect.Token; got != c.want[i] {
				t.Errorf("%s: client %d has the token %q, want %q", name, i+1, got, c.want[i])
			}
		}
		g.close()
	}
}

// A pause is at least RetryMin, grows with the failures, and is at most RetryMax, after any number of them.
func TestPauses(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := &group{plan: newPlan(Spec{RetryMin: time.Second, RetryMax: 10 * time.Second}.withDefaults())}
		longest := time.Duration(0)
		for failures := range 200 {
			began := time.Now()
			if !g.pauseBeforeRetry(t.Context(), failures) {
				t.Fatal("the context has not ended")
			}
			pause := time.Since(began)
			bound := 10 * time.Second
			if failures < 3 {
				bound = time.Second + time.Second<<failures
			}
			if pause < time.Second || pause > bound {
				t.Errorf("pause %v after %d failures, want 1s to %v", pause, failures, bound)
			}
			if failures >= 64 {
				longest = max(longest, pause)
			}
		}
		if longest < 8*time.Second {
			t.Errorf("the longest pause after 64 failures was %v", longest)
		}
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		if g.pauseBeforeRetry(ctx, 0) {
			t.Error("the context has ended")
		}
	})
}

// A connection that ends because of too many requests while a client joins leaves an error by which join knows that.
func TestEndWhileJoining(t *testing.T) {
	g := newGroup(&job{Spec: Spec{Clients: 1}.withDefaults(), To: 1})
	defer g.close()
	c := g.clients[0]
	c.state, c.joined = joining, make(chan error, 1)
	g.connectionEnded(nil, c, &clientconn.Closed{Disconnect: push.DisconnectTooManyRequests})
	if err := <-c.joined; !reasoncount.IsTemporary(err) || err.Error() != "closed by the server: 3013 too many requests" {
		t.Error(err)
	}
}

// The redacted spec has no secrets in its addresses.
func TestPublic(t *testing.T) {
	s := Spec{URL: "ws://user:secret@host:1/path?token=secret#secret", PublishURL: "https://user:secret@host/api?key=secret"}
	s.Nodes = []string{"ws://user:secret@other:1/path?token=secret"}
	if got := s.redacted(); got.Nodes[0] != "ws://other:1/path" || s.Nodes[0] == got.Nodes[0] {
		t.Errorf("%q of %q", got.Nodes, s.Nodes)
	}
	if got := s.redacted(); got.URL != "ws://host:1/path" || got.PublishURL != "https://host/api" {
		t.Errorf("%q and %q", got.URL, got.PublishURL)
	}
	if got := (Spec{}).redacted(); got.URL != "" || got.PublishURL != "" {
		t.Errorf("%+v", got)
	}
}
