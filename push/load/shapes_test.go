package load_test

import (
	"context"
	"errors"
	"net"
	"os/exec"
	"strings"
	"testing"
	"time"

	"github.com/sluice-push/sluice/push/load"
)

// Clients that are reset come back, and a server that keeps enough gives each what it has missed.
func TestStorm(t *testing.T) {
	spec := load.Spec{URL: "ws://" + newNode(t, 10_000), Shape: load.Storm, Clients: 20, Rate: 1000, Connect: 2}
	r, err := load.Run(testContext(t), short(spec), nil)
	must(t, err)
	s := r.Storm
	if s == nil || s.Cut != 20 || s.Back != 20 || s.Resumed != 20 || s.Fresh != 0 || s.BackAfter <= 0 || s.CaughtUp < s.BackAfter {
		t.Errorf("recovery %+v", s)
	}
	perfect(t, r)
}

// Clients of several nodes get what is published to one of them, also those that come back to another than they were cut from.
func TestNodes(t *testing.T) {
	nodes := newCluster(t, 10_000, 3)
	spec := load.Spec{URL: "http://" + nodes[0], Nodes: []string{"http://" + nodes[1], "ws://" + nodes[2]}, Shape: load.Storm, Clients: 21, Rate: 500}
	r, err := load.Run(testContext(t), short(spec), nil)
	must(t, err)
	if s := r.Storm; s == nil || s.Back != 21 || s.Resumed != 21 {
		t.Errorf("recovery %+v", s)
	}
	perfect(t, r)
}

// A server that says that nothing was missed, and gives nothing of it, or too much, is found out.
func TestStormLie(t *testing.T) {
	for name, c := range map[string]struct {
		missed func(since int, all []string) ([]string, bool)
		wrong  func(*load.Deliveries) bool
	}{
		"nothing": {
			func(int, []string) ([]string, bool) { return nil, true },
			func(d *load.Deliveries) bool { return d.Lost > 0 && d.Told == 0 && d.Duplicated == 0 },
		},
		"nothing, and says so": {
			func(int, []string) ([]string, bool) { return nil, false },
			func(d *load.Deliveries) bool { return d.Sound() && d.Told > 0 },
		},
		"one too many": {
			func(since int, all []string) ([]string, bool) { return all[since-1:], true },
			func(d *load.Deliveries) bool { return d.Lost == 0 && d.Told == 0 && d.Duplicated == 4 },
		},
		"one too few": {
			func(since int, all []string) ([]string, bool) { return all[min(since+1, len(all)):], true },
			func(d *load.Deliveries) bool { return d.Lost > 0 && d.Lost <= 4 && d.Told == 0 },
		},
	} {
		t.Run(name, func(t *testing.T) {
			h := &hostile{missed: c.missed, refuse: true}
			// The first come back while the last are still away: each must miss something.
			h.let = func(number int) bool {
				return number < 4 || len(h.log) > h.cutAt+2
			}
			r := h.against(t, load.Spec{Shape: load.Storm, Rate: 400})
			if r.Storm == nil || r.Storm.Cut != 4 {
				t.Fatalf("recovery %+v", r.Storm)
			}
			if !c.wrong(&r.Deliveries) {
				t.Errorf("deliveries %+v, recovery %+v", r.Deliveries, r.Storm)
			}
		})
	}
}

// Clients that stop reading are nobody of whom something is expected, and those that read have it all.
func TestSlow(t *testing.T) {
	spec := load.Spec{URL: "ws://" + newNode(t, 10_000), Shape: load.Slow, Stalled: 0.25, Clients: 20, Rate: 200}
	r, err := load.Run(testContext(t), short(spec), nil)
	must(t, err)
	perfect(t, r)
	if d := r.Deliveries; d.Expected != 15*r.Publications.Sent {
		t.Errorf("deliveries %+v of %+v", d, r.Publications)
	}
	if s := r.Stalled; s == nil || s.Count == 0 || s.Max < r.Latency.P50 {
		t.Errorf("stalled %+v", s)
	}
}

// Clients of a market that stop reading for a while hold nobody up, and get something once they read again.
func TestMarketStalls(t *testing.T) {
	spec := load.Spec{
		URL: "ws://" + newNode(t, 10_000), Shape: load.Market, Channels: 10, Each: 3, Clients: 20, Rate: 200, Stalled: 0.25, StallFor: 100 * time.Millisecond,
	}
	r, err := load.Run(testContext(t), short(spec), nil)
	must(t, err)
	perfect(t, r)
	if r.Spec.Stalled != 0.25 || r.Stalled == nil || r.Stalled.Count == 0 {
		t.Errorf("stalled %+v of %+v", r.Stalled, r.Spec)
	}
}

// Idle clients are connected, and that is all.
func TestIdle(t *testing.T) {
	spec := load.Spec{URL: "ws://" + newNode(t, 10), Shape: load.Idle, Clients: 20}
	r, err := load.Run(testContext(t), short(spec), nil)
	must(t, err)
	if r.Connects.Clients != 20 || r.Publications.Due != 0 || r.Deliveries != (load.Deliveries{}) || len(r.Problems) > 0 {
		t.Errorf("%+v", r)
	}
}

// A run that is interrupted, whatever it is doing, ends soon, with what there was.
func TestInterrupted(t *testing.T) {
	for _, phase := range []load.Phase{load.Connecting, load.Settling, load.Warming, load.Measuring, load.Draining, load.Closing} {
		t.Run(string(phase), func(t *testing.T) {
			ctx, cancel := context.WithCancel(testContext(t))
			defer cancel()
			spec := short(load.Spec{URL: "ws://" + newNode(t, 10_000), Clients: 20, Rate: 200, Patience: time.Hour})
			if phase == load.Measuring || phase == load.Settling {
				spec.Settle, spec.Duration = time.Hour, time.Hour // for which nobody will wait
			}
			if phase == load.Measuring {
				spec.Settle = time.Millisecond
			}
			r, err := load.Run(ctx, spec, &load.Options{Phase: func(p load.Phase) {
				if p == phase {
					cancel()
				}
			}})
			must(t, err)
			if !r.Deliveries.Sound() || phase != load.Closing && phase != load.Draining && len(r.Problems) == 0 {
				t.Errorf("%+v", r)
			}
		})
	}
}

// What makes a run impossible is an error that says so.
func TestImpossible(t *testing.T) {
	nobody, err := net.Listen("tcp", "127.0.0.1:0")
	must(t, err)
	must(t, nobody.Close())
	node := newNode(t, 10)
	for name, c := range map[string]struct {
		spec   load.Spec
		worker func() *exec.Cmd
		want   string
	}{
		"nobody listens":    {spec: load.Spec{URL: "ws://" + nobody.Addr().String()}, want: "no client could connect"},
		"wrong path":        {spec: load.Spec{URL: "ws://" + node + "/nowhere"}, want: "no client could connect"},
		"wrong spec":        {spec: load.Spec{URL: "ftp://x"}, want: "ftp://x"},
		"no processes":      {spec: load.Spec{URL: "ws://" + node, Clients: 4, Processes: 2}, want: "set Options.Worker"},
		"a process dies":    {spec: load.Spec{URL: "ws://" + node, Clients: 4, Processes: 2}, worker: self(t, "die"), want: "it was told to die"},
		"unknown namespace": {spec: load.Spec{URL: "ws://" + node, Prefix: "nowhere:x"}, want: "unknown channel"},
	} {
		t.Run(name, func(t *testing.T) {
			r, err := load.Run(testContext(t), short(c.spec), &load.Options{Worker: c.worker})
			if err == nil || !strings.Contains(err.Error(), c.want) || !strings.HasPrefix(err.Error(), "load: ") {
				t.Errorf("error %v, result %+v; want %q", err, r, c.want)
			}
			if errors.Is(err, context.DeadlineExceeded) {
				t.Error("it took too long")
			}
		})
	}
}

// Progress shows where the run is, and moments where it was.
func TestProgress(t *testing.T) {
	spec := short(load.Spec{URL: "ws://" + newNode(t, 10_000), Clients: 10, Rate: 200})
	spec.Duration = 2500 * time.Millisecond
	var last load.Progress
	seen := 0
	r, err := load.Run(testContext(t), spec, &load.Options{Progress: func(p load.Progress) {
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
