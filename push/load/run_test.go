package load_test

import (
	"testing"

	"github.com/sluice-push/sluice/push/load"
)

// A node does its work in every shape and by every way to publish, in one process and in several.
func TestNode(t *testing.T) {
	for name, spec := range map[string]load.Spec{
		"one":               {Clients: 20, Rate: 200},
		"one, many writers": {Clients: 20, Rate: 2000},
		"one, by a client":  {Clients: 20, Rate: 200, Publish: load.ByClient},
		"one, closed":       {Clients: 20, Rate: -1},
		"one, closed, four": {Clients: 20, Rate: -1, Window: 4, Publish: load.ByClient},
		"market":            {Shape: load.Market, Clients: 30, Channels: 20, Each: 5, Rate: 1000, Zipf: 1.1},
		"market, alike":     {Shape: load.Market, Clients: 30, Channels: 20, Each: 20, Rate: 300, Publish: load.ByClient},
		"market, closed":    {Shape: load.Market, Clients: 30, Channels: 20, Each: 5, Rate: -1, Window: 3},
		"many addresses":    {Clients: 20, Rate: 100, Spread: true},
		"large":             {Clients: 5, Rate: 100, Bytes: 20_000},
		"small":             {Clients: 5, Rate: 100, Bytes: load.MinBytes},
		"two processes":     {Clients: 21, Rate: 200, Processes: 2},
		"three, closed":     {Clients: 21, Rate: -1, Processes: 3, Window: 2},
	} {
		t.Run(name, func(t *testing.T) {
			spec.URL = "http://" + newNode(t, 10_000)
			var phases []load.Phase
			r, err := load.Run(testContext(t), short(spec), &load.Options{
				Worker: self(t, "work"), Phase: func(p load.Phase) { phases = append(phases, p) },
			})
			must(t, err)
			if spec.Shape == load.Market {
				r.Last = load.Latency{Count: r.Publications.Sent, Max: r.Latency.Max} // some channels have nobody
			}
			perfect(t, r)
			if len(phases) != 6 {
				t.Errorf("phases %q", phases)
			}
		})
	}
}
