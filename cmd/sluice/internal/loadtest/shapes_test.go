package loadtest_test

import (
	"context"
	"errors"
	"net"
	"net/http"
	"net/http/httputil"
	"net/url"
	"os/exec"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/sluice-push/sluice/cmd/sluice/internal/loadtest"
	"github.com/sluice-push/sluice/internal/testwait"
)

// Clients rejoin after a reset, and a server with enough history gives each client its missed publications.
func TestStorm(t *testing.T) {
	t.Parallel()
	spec := loadtest.Spec{URL: "ws://" + newNode(t, 10_000), Shape: loadtest.Storm, Clients: 20, Rate: 1000, Connect: 2}
	r, err := loadtest.Run(testwait.Context(t), short(spec), nil)
	must(t, err)
	s := r.Storm
	if s == nil || s.Cut != 20 || s.Back != 20 || s.Resumed != 20 || s.NotResumed != 0 || s.BackAfter <= 0 || s.CaughtUp < s.BackAfter {
		t.Errorf("recovery %+v", s)
	}
	perfect(t, r)
}

// Clients of several channels resume in each of them at their own position.
func TestStormOfChannels(t *testing.T) {
	t.Parallel()
	spec := loadtest.Spec{
		URL: "ws://" + newNode(t, 10_000), Shape: loadtest.Storm, Clients: 20, Channels: 10, Each: 3, Rate: 1000, Connect: 2, Rejoin: 20,
	}
	r, err := loadtest.Run(testwait.Context(t), short(spec), nil)
	must(t, err)
	if s := r.Storm; s == nil || s.Cut != 20 || s.Back != 20 || s.Resumed != 20 || s.NotResumed != 0 || s.CaughtUp < s.BackAfter {
		t.Errorf("recovery %+v", s)
	}
	perfect(t, r)
	if d := r.Deliveries; d.Expected == 20*r.Publications.Sent {
		t.Errorf("each client is subscribed to all channels: %+v", d)
	}
}

// Clients that a server refuses for now try again, before a storm and after it. Attempts after it are counted.
func TestRefusedForNow(t *testing.T) {
	t.Parallel()
	node := httputil.NewSingleHostReverseProxy(&url.URL{Scheme: "http", Host: newNode(t, 10_000)})
	var clients atomic.Int64
	address := serve(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get("Upgrade") != "" {
			if n := clients.Add(1); n == 1 || n == 20 || n == 23 || n == 24 { // two before the 20 are subscribed, two after that
				http.Error(w, "come again", http.StatusServiceUnavailable)
				return
			}
		}
		node.ServeHTTP(w, r)
	}))
	spec := loadtest.Spec{URL: "ws://" + address, Shape: loadtest.Storm, Clients: 20, Rate: 200, RetryMin: 1, RetryMax: 1}
	r, err := loadtest.Run(testwait.Context(t), short(spec), nil)
	must(t, err)
	if s := r.Storm; s == nil || s.Back != 20 || s.Resumed != 20 {
		t.Errorf("recovery %+v", s)
	}
	refused := 0
	for reason, n := range r.Connects.Reasons {
		if strings.Contains(reason, "503") {
			refused += n
		}
	}
	if refused != 2 || r.Connects.Failed > 0 {
		t.Errorf("%d attempts refused after the storm, want 2: %+v", refused, r.Connects)
	}
	if d := r.Deliveries; !d.Sound() || d.Received != d.Expected || d.Expected == 0 {
		t.Errorf("deliveries %+v", d)
	}
}

// Clients of several nodes get the publications that one node receives. This includes clients that rejoin through another node.
func TestNodes(t *testing.T) {
	t.Parallel()
	nodes := newCluster(t, 10_000, 3)
	spec := loadtest.Spec{URL: "http://" + nodes[0], Nodes: []string{"http://" + nodes[1], "ws://" + nodes[2]}, Shape: loadtest.Storm, Clients: 21, Rate: 500}
	r, err := loadtest.Run(testwait.Context(t), short(spec), nil)
	must(t, err)
	if s := r.Storm; s == nil || s.Back != 21 || s.Resumed != 21 {
		t.Errorf("recovery %+v", s)
	}
	perfect(t, r)
}

// A server that claims a full recovery, but delivers too few or too many of the missed publications, is detected.
func TestStormLie(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		missed func(since int, all []string) ([]string, bool)
		wrong  func(*loadtest.Deliveries) bool
	}{
		"nothing": {
			func(int, []string) ([]string, bool) { return nil, true },
			func(d *loadtest.Deliveries) bool { return d.Lost > 0 && d.Announced == 0 && d.Duplicated == 0 },
		},
		"nothing, and says so": {
			func(int, []string) ([]string, bool) { return nil, false },
			func(d *loadtest.Deliveries) bool { return d.Sound() && d.Announced > 0 },
		},
		"one too many": {
			func(since int, all []string) ([]string, bool) { return all[since-1:], true },
			func(d *loadtest.Deliveries) bool { return d.Lost == 0 && d.Announced == 0 && d.Duplicated == 4 },
		},
		"one too few": {
			func(since int, all []string) ([]string, bool) { return all[min(since+1, len(all)):], true },
			func(d *loadtest.Deliveries) bool { return d.Lost > 0 && d.Lost <= 4 && d.Announced == 0 },
		},
	} {
		t.Run(name, func(t *testing.T) {
			h := &hostile{missed: c.missed, behind: 3}
			r := h.against(t, loadtest.Spec{Shape: loadtest.Storm, Rate: 400})
			if r.Storm == nil || r.Storm.Cut != 4 {
				t.Fatalf("recovery %+v", r.Storm)
			}
			if !c.wrong(&r.Deliveries) {
				t.Errorf("deliveries %+v, recovery %+v", r.Deliveries, r.Storm)
			}
		})
	}
}

// No deliveries are expected to clients that stop reading, and the other clients receive all publications.
func TestSlow(t *testing.T) {
	t.Parallel()
	spec := loadtest.Spec{URL: "ws://" + newNode(t, 10_000), Shape: loadtest.Slow, Stalled: 0.25, Clients: 20, Rate: 200}
	r, err := loadtest.Run(testwait.Context(t), short(spec), nil)
	must(t, err)
	perfect(t, r)
	if d := r.Deliveries; d.Expected != 15*r.Publications.Sent {
		t.Errorf("deliveries %+v of %+v", d, r.Publications)
	}
	if s := r.Stalled; s == nil || s.Count == 0 || s.Max < r.Latency.P50 {
		t.Errorf("stalled %+v", s)
	}
}

// Clients of a market that stop reading for a while do not delay the others, and receive publications when they read again.
func TestMarketStalls(t *testing.T) {
	t.Parallel()
	spec := loadtest.Spec{
		URL: "ws://" + newNode(t, 10_000), Shape: loadtest.Market, Channels: 10, Each: 3, Clients: 20, Rate: 200, Stalled: 0.25, StallFor: 100 * time.Millisecond,
	}
	r, err := loadtest.Run(testwait.Context(t), short(spec), nil)
	must(t, err)
	perfect(t, r)
	if r.Spec.Stalled != 0.25 || r.Stalled == nil || r.Stalled.Count == 0 {
		t.Errorf("stalled %+v of %+v", r.Stalled, r.Spec)
	}
}

// Idle clients connect and subscribe, and nothing is published.
func TestIdle(t *testing.T) {
	t.Parallel()
	spec := loadtest.Spec{URL: "ws://" + newNode(t, 10), Shape: loadtest.Idle, Clients: 20}
	r, err := loadtest.Run(testwait.Context(t), short(spec), nil)
	must(t, err)
	if r.Connects.Clients != 20 || r.Publications.Due != 0 || r.Deliveries != (loadtest.Deliveries{}) || len(r.Problems) > 0 {
		t.Errorf("%+v", r)
	}
}

// A run that is interrupted in any phase ends soon, with a result for the time until then.
func TestInterrupted(t *testing.T) {
	for _, phase := range []loadtest.Phase{loadtest.Connecting, loadtest.Settling, loadtest.Warming, loadtest.Measuring, loadtest.Draining, loadtest.Closing} {
		t.Run(string(phase), func(t *testing.T) {
			ctx, cancel := context.WithCancel(testwait.Context(t))
			defer cancel()
			spec := short(loadtest.Spec{URL: "ws://" + newNode(t, 10_000), Clients: 20, Rate: 200, Patience: time.Hour})
			if phase == loadtest.Measuring || phase == loadtest.Settling {
				spec.Settle, spec.Duration = time.Hour, time.Hour // the interruption ends them
			}
			if phase == loadtest.Measuring {
				spec.Settle = time.Millisecond
			}
			r, err := loadtest.Run(ctx, spec, &loadtest.Options{Phase: func(p loadtest.Phase) {
				if p == phase {
					cancel()
				}
			}})
			must(t, err)
			if !r.Deliveries.Sound() || phase != loadtest.Closing && phase != loadtest.Draining && len(r.Problems) == 0 {
				t.Errorf("%+v", r)
			}
		})
	}
}

// If a run is impossible, the error says why.
func TestImpossible(t *testing.T) {
	closed, err := net.Listen("tcp", "127.0.0.1:0")
	must(t, err)
	must(t, closed.Close())
	node := newNode(t, 10)
	for name, c := range map[string]struct {
		spec   loadtest.Spec
		worker func() *exec.Cmd
		want   string
	}{
		"no listener":       {spec: loadtest.Spec{URL: "ws://" + closed.Addr().String()}, want: "no client could connect"},
		"wrong path":        {spec: loadtest.Spec{URL: "ws://" + node + "/nowhere"}, want: "no client could connect"},
		"wrong spec":        {spec: loadtest.Spec{URL: "ftp://x"}, want: "ftp://x"},
		"no processes":      {spec: loadtest.Spec{URL: "ws://" + node, Clients: 4, Processes: 2}, want: "Options.Worker is not set"},
		"a process dies":    {spec: loadtest.Spec{URL: "ws://" + node, Clients: 4, Processes: 2}, worker: self(t, "die"), want: "it was told to die"},
		"unknown namespace": {spec: loadtest.Spec{URL: "ws://" + node, Prefix: "nowhere:x"}, want: "unknown channel"},
	} {
		t.Run(name, func(t *testing.T) {
			r, err := loadtest.Run(testwait.Context(t), short(c.spec), &loadtest.Options{Worker: c.worker})
			if err == nil || !strings.Contains(err.Error(), c.want) || !strings.HasPrefix(err.Error(), "loadtest: ") {
				t.Errorf("error %v, result %+v; want %q", err, r, c.want)
			}
			if errors.Is(err, context.DeadlineExceeded) {
				t.Error("it took too long")
			}
		})
	}
}

// Progress describes the current state of a run, and moments its past seconds.
func TestProgress(t *testing.T) {
	t.Parallel()
	spec := short(loadtest.Spec{URL: "ws://" + newNode(t, 10_000), Clients: 10, Rate: 200})
	spec.Duration = 2500 * time.Millisecond
	var last loadtest.Progress
	seen := 0
	r, err := loadtest.Run(testwait.Context(t), spec, &loadtest.Options{Progress: func(p loadtest.Progress) {
		seen++
		if p.Target != 10 || p.Wrong != 0 || p.Delivered < last.Delivered || p.Published < last.Published {
			t.Errorf("%+v after %+v", p, last)
		}
		last = p
	}})
	must(t, err)
	if seen == 0 || last.Delivered == 0 || last.Latency.Count == 0 || last.Clients != 10 {
		t.Errorf("the last of %d: %+v", seen, last)
	}
	if len(r.Moments) == 0 || r.Moments[0].Delivered == 0 || r.Moments[0].Connected != 10 || r.Moments[0].P99 <= 0 {
		t.Errorf("moments %+v", r.Moments)
	}
}
