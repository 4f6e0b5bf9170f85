package loadtest_test

import (
	"strings"
	"testing"
	"time"

	"github.com/sluice-push/sluice/cmd/sluice/internal/loadtest"
	"github.com/sluice-push/sluice/internal/testwait"
)

// Clients behind a simulated network get all publications, with its delay. The problems mention the network.
func TestNetwork(t *testing.T) {
	t.Parallel()
	for name, spec := range map[string]loadtest.Spec{
		"one":           {Clients: 20, Rate: 50, Network: "delay=20ms,jitter=5ms,down=2Mbit"},
		"two processes": {Clients: 21, Rate: 50, Network: "delay=20ms,jitter=5ms", Processes: 2},
		"stalls":        {Clients: 20, Rate: 50, Network: "delay=20ms,stall=5ms-20ms/50ms"},
		"by a client":   {Clients: 20, Rate: 50, Network: "delay=20ms", Publish: loadtest.ByClient, Spread: true},
		"closed":        {Clients: 20, Rate: -1, Network: "delay=20ms"},
		"storm":         {Clients: 20, Rate: 200, Network: "delay=20ms", Shape: loadtest.Storm, Connect: 10},
	} {
		t.Run(name, func(t *testing.T) {
			spec.URL = "http://" + newNode(t, 10_000)
			r, err := loadtest.Run(testwait.Context(t), short(spec), &loadtest.Options{Worker: self(t, "work")})
			must(t, err)
			if len(r.Problems) != 1 || !strings.HasPrefix(r.Problems[0], "latencies include the network: delay=20ms") {
				t.Errorf("problems %q", r.Problems)
			}
			r.Problems = nil
			perfect(t, r)
			if r.Spec.Network != spec.Network || r.Latency.P50 < 20 {
				t.Errorf("network %q, latency %+v", r.Spec.Network, r.Latency)
			}
			if s := r.Storm; s != nil && (s.Cut != 20 || s.Back != 20 || s.Resumed != 20) {
				t.Errorf("recovery %+v", s)
			}
		})
	}
}

// Clients that the network resets rejoin through the next node, resume, and get all publications. At the end of the run all are connected.
func TestNetworkCuts(t *testing.T) {
	specs := map[string]loadtest.Spec{
		"one":           {Rate: 200},
		"two processes": {Rate: 200, Processes: 2},
	}
	for _, spec := range carriers() {
		spec.Rate = 200
		specs[spec.Transport+", "+spec.Protocol] = spec
	}
	for name, spec := range specs {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			nodes := newCluster(t, 10_000, 2)
			spec.URL, spec.Nodes = "http://"+nodes[0], []string{"http://" + nodes[1]}
			spec.Clients, spec.Network = 20, "delay=1ms,reset=200ms"
			r, err := loadtest.Run(testwait.Context(t), short(spec), &loadtest.Options{Worker: self(t, "work")})
			must(t, err)
			if len(r.Problems) != 1 {
				t.Errorf("problems %q", r.Problems)
			}
			r.Problems = nil
			perfect(t, r)
			if r.Connects.Resets == 0 || r.Connects.NotRejoined != 0 || r.Storm != nil {
				t.Errorf("connects %+v, recovery %+v", r.Connects, r.Storm)
			}
		})
	}
}

// Behind a network without a server, no client can connect.
func TestNetworkWithoutServer(t *testing.T) {
	t.Parallel()
	spec := short(loadtest.Spec{URL: "http://127.0.0.1:1", Clients: 3, Network: "none", Patience: 10 * time.Second})
	if r, err := loadtest.Run(testwait.Context(t), spec, nil); err == nil || r != nil || !strings.Contains(err.Error(), "no client could connect") {
		t.Errorf("%v, %v", r, err)
	}
}

// A spec whose network would prove nothing is invalid.
func TestNetworkIsRefused(t *testing.T) {
	for _, tt := range []struct {
		spec loadtest.Spec
		want string
	}{
		{loadtest.Spec{Network: "4g"}, `loadtest: network: unknown name "4g": use none, dsl`},
		{loadtest.Spec{Network: "delay=-1s"}, "loadtest: network: delay-up of -1s"},
		{loadtest.Spec{Network: "flaky", Shape: loadtest.Market, Stalled: 0.1}, `loadtest: network "flaky" resets connections`},
		{loadtest.Spec{Network: "edge,reset=1m", Shape: loadtest.Storm}, "only shapes one and market with a rate"},
		{loadtest.Spec{Network: "edge,reset=1m", Rate: -1}, "leave reset out"},
		{loadtest.Spec{Network: "edge,refuse"}, `loadtest: network "edge,refuse" refuses or half-opens connections`},
		{loadtest.Spec{Network: "halfopen=1s"}, "use one without halfopen and refuse"},
		{loadtest.Spec{Route: true, Rate: -1}, "clients that come back need shape one or market with a rate"},
		{loadtest.Spec{Route: true, Shape: loadtest.Market, Stalled: 0.1}, "or no routes"},
		{loadtest.Spec{Route: true, Protocol: loadtest.Plain}, "routes are asked for over HTTP"},
		{loadtest.Spec{Network: "3g", Clients: 20_001}, "20001 clients behind a network: use at most 20000"},
	} {
		if err := tt.spec.Validate(); err == nil || !strings.Contains(err.Error(), tt.want) {
			t.Errorf("%+v: %v, want %s", tt.spec, err, tt.want)
		}
	}
	if err := (loadtest.Spec{Network: "wifi-lossy,seed=3", Clients: 20_000}).Validate(); err != nil {
		t.Error(err)
	}
}
