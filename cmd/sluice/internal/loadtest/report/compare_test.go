package report_test

import (
	"strings"
	"testing"
	"time"

	"github.com/sluice-push/sluice/cmd/sluice/internal/loadtest"
	"github.com/sluice-push/sluice/cmd/sluice/internal/loadtest/report"
)

func TestCompare(t *testing.T) {
	faster := perfect()
	faster.Version, faster.Began = "v0.5.0", faster.Began.Add(24*time.Hour)
	faster.Latency = loadtest.Latency{Count: 600_000, Mean: 30, P50: 30.1, P90: 70, P99: 99, P999: 120, Max: 500}
	faster.Server.CPU, faster.Server.PerDelivery, faster.Server.PerClient = 5.5, 9.17, 1200
	elsewhere := perfect()
	elsewhere.Host.Name, elsewhere.Host.Cores, elsewhere.Host.CPU = "two", 64, "Ampere Altra"
	elsewhere.Spec.Clients, elsewhere.Spec.Rate, elsewhere.Spec.Duration, elsewhere.Spec.Shape = 1000, 10, time.Second, loadtest.Market
	elsewhere.Spec.Key, elsewhere.Spec.Token = "secret", "secret"
	elsewhere.Publications.Rate, elsewhere.Deliveries.PerSecond = 10, 10_000
	peer := perfect()
	peer.Spec.URL, peer.Server = "ws://127.0.0.1:9001/connection/websocket", nil
	peer.Generator.PerClient = -69 // its memory shrank
	few := perfect()
	few.Latency.Count = 150
	storm := perfect()
	storm.Spec.Shape, storm.Host = loadtest.Storm, nil
	storm.Storm = &loadtest.Recovery{Cut: 10, Back: 10, Resumed: 10, BackAfter: 1, CaughtUp: 2}
	slower := perfect()
	slower.Spec.Shape = loadtest.Storm
	slower.Storm = &loadtest.Recovery{Cut: 10, Back: 10, NotResumed: 10, BackAfter: 2, CaughtUp: 2}
	noisy := *faster
	host := *faster.Host
	noisy.Host, host.Stolen = &host, 0.06
	empty := &loadtest.Result{}
	for name, tt := range map[string]struct{ a, b *loadtest.Result }{
		"same":   {perfect(), perfect()},
		"faster": {perfect(), faster},
		"noisy":  {perfect(), &noisy},
		"hosts":  {perfect(), elsewhere},
		"peer":   {perfect(), peer},
		"broken": {perfect(), broken()},
		"few":    {few, faster},
		"storm":  {storm, slower},
		"empty":  {empty, perfect()},
		"none":   {empty, empty},
	} {
		t.Run(name, func(t *testing.T) {
			got := report.Compare(*tt.a, *tt.b)
			golden(t, "compare-"+name, got)
			if strings.Contains(got, "secret") {
				t.Error("it shows a secret")
			}
		})
	}
}

// Differences below 5 % get no opinion. Larger ones are better or worse, depending on the figure.
func TestCompareClaims(t *testing.T) {
	set := func(p50, perSecond float64) loadtest.Result {
		r := perfect()
		r.Latency.P50, r.Deliveries.PerSecond = p50, perSecond
		return *r
	}
	for _, tt := range []struct {
		a, b             loadtest.Result
		latency, arrived string
	}{
		{set(100, 100), set(104, 104), "about the same", "about the same"},
		{set(104, 104), set(100, 100), "about the same", "about the same"},
		{set(100, 100), set(106, 106), "worse", "better"},
		{set(106, 106), set(100, 100), "better", "worse"},
		{set(0, 0), set(1, 1), "worse", "better"},
		{set(1, 1), set(0, 0), "better", "worse"},
	} {
		text := report.Compare(tt.a, tt.b)
		for figure, want := range map[string]string{"latency p50": tt.latency, "deliveries  ": tt.arrived} {
			found := false
			for line := range strings.Lines(text) {
				if strings.HasPrefix(line, figure) {
					found = true
					if !strings.HasSuffix(line, want+"\n") {
						t.Errorf("%s: %q, want %s", figure, line, want)
					}
				}
			}
			if !found {
				t.Errorf("%s is not compared:\n%s", figure, text)
			}
		}
	}
}
