package report_test

import (
	"strings"
	"testing"
	"time"

	"github.com/sluice-push/sluice/cmd/sluice/internal/loadtest"
	"github.com/sluice-push/sluice/cmd/sluice/internal/loadtest/report"
)

// results returns the results that the tests of Summary and Verdict use, by name.
func results() map[string]*loadtest.Result {
	storm := perfect()
	storm.Spec.Shape, storm.Spec.Channels, storm.Spec.Each = loadtest.Storm, 1, 1
	storm.Storm = &loadtest.Recovery{Cut: 10_000, Back: 10_000, Resumed: 9_990, NotResumed: 10, BackAfter: 1.02, CaughtUp: 1.1}
	left := perfect()
	left.Spec.Shape, left.Spec.Channels, left.Spec.Each = loadtest.Storm, 400, 5
	left.Storm = &loadtest.Recovery{Cut: 10_000, Back: 9_999, Resumed: 9_999, BackAfter: 1.02, CaughtUp: 1.1}
	slow := perfect()
	slow.Spec.Shape, slow.Spec.Rate = loadtest.Slow, 12.5
	slow.Stalled = &loadtest.Latency{Count: 1000, Mean: 900, P50: 800, P90: 2000, P99: 4000, P999: 5210, Max: 61_000}
	slow.Server = nil
	market := perfect()
	market.Spec.Shape, market.Spec.Rate, market.Spec.Window, market.Spec.Stalled = loadtest.Market, -1, 4, 0
	stall := perfect()
	stall.Spec.Shape, stall.Spec.StallFor = loadtest.Market, 20*time.Second
	for i := range 60 {
		m := loadtest.Moment{Second: float64(i + 1), Delivered: 10_000, P50: 10, P99: 20, Memory: 50 << 20, Sockets: 4 << 20}
		switch {
		case i < 20:
		case i < 40:
			m.P50, m.P99, m.Sockets, m.Memory = float64(i), float64(2*i), 8<<20, int64(i)<<20
		default:
			m.Delivered = uint64(i) * 1000
		}
		stall.Moments = append(stall.Moments, m)
	}
	early := perfect() // the run was interrupted
	early.Spec, early.Moments = stall.Spec, stall.Moments[:30]
	idle := perfect()
	idle.Spec.Shape = loadtest.Idle
	idle.Publications, idle.Deliveries = loadtest.Publications{}, loadtest.Deliveries{}
	idle.Latency, idle.Last = loadtest.Latency{}, loadtest.Latency{}
	nobody := &loadtest.Result{Spec: perfect().Spec, Connects: loadtest.Connects{Failed: 10_000, Reasons: map[string]int{"unknown channel (102)": 10_000}}}
	refused := perfect()
	refused.Publications = loadtest.Publications{Due: 60, Refused: 60}
	refused.Deliveries, refused.Latency, refused.Last = loadtest.Deliveries{}, loadtest.Latency{}, loadtest.Latency{}
	network := perfect()
	network.Spec.Network = "edge"
	network.Problems = []string{"latencies include the network: delay=300ms,jitter=200ms,down=50kbit,up=50kbit"}
	cuts := perfect()
	cuts.Spec.Network, cuts.Connects.Resets, cuts.Connects.NotRejoined = "flaky", 1234, 2
	return map[string]*loadtest.Result{
		"perfect": perfect(), "broken": broken(), "storm": storm, "left": left, "slow": slow, "market": market, "idle": idle,
		"nobody": nobody, "refused": refused, "network": network, "cuts": cuts, "stall": stall, "early": early,
	}
}

func TestSummary(t *testing.T) {
	for name, r := range results() {
		t.Run(name, func(t *testing.T) {
			got := report.Summary(r)
			golden(t, "summary-"+name, got)
			if first, _, _ := strings.Cut(got, "\n"); first != report.Verdict(r) {
				t.Errorf("it begins with %q instead of the verdict", first)
			}
			for line := range strings.Lines(strings.TrimPrefix(got, report.Verdict(r))) {
				if n := len([]rune(strings.TrimSuffix(line, "\n"))); n > 110 {
					t.Errorf("a line of %d columns: %s", n, line)
				}
			}
		})
	}
}

// Sound reports false for exactly the results with a fault.
func TestSound(t *testing.T) {
	want := map[string]bool{
		"perfect": true, "storm": true, "slow": true, "market": true, "idle": true, "network": true,
		"stall": true, "early": true,
	}
	for name, r := range results() {
		if report.Sound(r) != want[name] {
			t.Errorf("%s: sound is %t", name, report.Sound(r))
		}
	}
	for name, spoil := range map[string]func(*loadtest.Result){
		"lost":       func(r *loadtest.Result) { r.Deliveries.Lost = 1 },
		"doubled":    func(r *loadtest.Result) { r.Deliveries.Duplicated = 1 },
		"disordered": func(r *loadtest.Result) { r.Deliveries.Disordered = 1 },
		"changed":    func(r *loadtest.Result) { r.Deliveries.Corrupt = 1 },
		"failed":     func(r *loadtest.Result) { r.Connects.Failed = 1 },
		"nobody":     func(r *loadtest.Result) { r.Connects.Clients = 0 },
	} {
		r := perfect()
		spoil(r)
		if report.Sound(r) {
			t.Errorf("%s: it passes for sound", name)
		}
	}
}

// Refusals and losses that the server announced are no faults.
func TestToldIsSound(t *testing.T) {
	r := perfect()
	r.Deliveries.Announced, r.Publications.Refused, r.Connects.Cut = 5, 1, 3
	if !report.Sound(r) {
		t.Error("what was told counts as wrong")
	}
	if v := report.Verdict(r); !strings.Contains(v, "nothing lost") || !strings.Contains(v, "5 more") || !strings.Contains(v, "refused 1 publication") {
		t.Errorf("verdict: %s", v)
	}
}

func TestNumbers(t *testing.T) {
	tests := []struct{ got, want string }{
		{report.Significant(0), "0"},
		{report.Significant(0.1), "0.1"},
		{report.Significant(0.00012345), "0.0001"},
		{report.Significant(0.012345), "0.0123"},
		{report.Significant(1), "1"},
		{report.Significant(9.999), "10"},
		{report.Significant(12.34), "12.3"},
		{report.Significant(999.6), "1,000"},
		{report.Significant(1234567.8), "1,234,568"},
		{report.Significant(-12.34), "-12.3"},
		{report.Milliseconds(999.4), "999 ms"},
		{report.Milliseconds(1000), "1 s"},
		{report.Milliseconds(61_260), "61.3 s"},
		{report.Seconds(1234 * time.Millisecond), "1.2 s"},
		{report.Seconds(-time.Second), "0.0 s"},
		{report.Seconds(61*time.Second + 400*time.Millisecond), "1m1s"},
		{report.Binary(0), "0 B"},
		{report.Binary(1023), "1,023 B"},
		{report.Binary(1536), "1.5 KiB"},
		{report.Binary(-1536), "-1.5 KiB"},
		{report.Binary(24 << 30), "24 GiB"},
		{report.Binary(5000 << 40), "5,000 TiB"},
		{report.Percent(0.125), "12.5 %"},
		{report.Percent(0), "0 %"},
		{report.Thousands(0), "0"},
		{report.Thousands(999), "999"},
		{report.Thousands(-1000), "-1,000"},
		{report.Thousands(123456789), "123,456,789"},
		{report.Thousands(-1 << 63), "-9,223,372,036,854,775,808"},
	}
	for i, tt := range tests {
		if tt.got != tt.want {
			t.Errorf("number %d: %q, want %q", i, tt.got, tt.want)
		}
	}
}
