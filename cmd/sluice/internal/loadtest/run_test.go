package loadtest_test

import (
	"testing"

	"github.com/sluice-push/sluice/cmd/sluice/internal/clientconn"
	"github.com/sluice-push/sluice/cmd/sluice/internal/loadtest"
	"github.com/sluice-push/sluice/cmd/sluice/internal/loadtest/delivery"
	"github.com/sluice-push/sluice/internal/testwait"
)

// carriers returns a spec for each transport and each form that it carries, but not where a server of HTTP is not enough: the command's tests
// have them.
func carriers() (out []loadtest.Spec) {
	for _, transport := range clientconn.Transports() {
		if transport == "grpc" || transport == "tcp" {
			continue
		}
		for _, protocol := range clientconn.ProtocolsOf(transport) {
			out = append(out, loadtest.Spec{Transport: transport, Protocol: protocol})
		}
	}
	return out
}

// A node passes a run in every shape and with every way to publish, over every transport, from one process and from several.
func TestNode(t *testing.T) {
	specs := map[string]loadtest.Spec{
		"one":               {Clients: 20, Rate: 200},
		"one, many writers": {Clients: 20, Rate: 2000},
		"one, by a client":  {Clients: 20, Rate: 200, Publish: loadtest.ByClient},
		"one, closed":       {Clients: 20, Rate: -1},
		"one, closed, four": {Clients: 20, Rate: -1, Window: 4, Publish: loadtest.ByClient},
		"market":            {Shape: loadtest.Market, Clients: 30, Channels: 20, Each: 5, Rate: 1000, Zipf: 1.1},
		"market, alike":     {Shape: loadtest.Market, Clients: 30, Channels: 20, Each: 20, Rate: 300, Publish: loadtest.ByClient},
		"market, closed":    {Shape: loadtest.Market, Clients: 30, Channels: 20, Each: 5, Rate: -1, Window: 3},
		"many addresses":    {Clients: 20, Rate: 100, Spread: true},
		"large":             {Clients: 5, Rate: 100, Bytes: 20_000},
		"small":             {Clients: 5, Rate: 100, Bytes: delivery.MinBytes},
		"two processes":     {Clients: 21, Rate: 200, Processes: 2},
		"three, closed":     {Clients: 21, Rate: -1, Processes: 3, Window: 2},
	}
	for _, spec := range carriers() {
		name := spec.Transport + ", " + spec.Protocol
		spec.Rate, spec.Clients = 200, 20
		specs[name] = spec
		spec.Shape, spec.Channels, spec.Each, spec.Publish, spec.Processes = loadtest.Market, 20, 5, loadtest.ByClient, 2
		specs[name+", market"] = spec
		spec.Stalled, spec.Processes = 0.25, 1
		specs[name+", stalls"] = spec
	}
	for name, spec := range specs {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			spec.URL = "http://" + newNode(t, 10_000)
			var phases []loadtest.Phase
			r, err := loadtest.Run(testwait.Context(t), short(spec), &loadtest.Options{
				Worker: self(t, "work"), Phase: func(p loadtest.Phase) { phases = append(phases, p) },
			})
			must(t, err)
			if spec.Shape == loadtest.Market {
				r.Last = loadtest.Latency{Count: r.Publications.Sent, Max: r.Latency.Max} // some channels have no subscriber
			}
			perfect(t, r)
			if len(phases) != 6 {
				t.Errorf("phases %q", phases)
			}
		})
	}
}
