package load_test

import (
	"strings"
	"testing"
	"time"

	"github.com/sluice-push/sluice/push/load"
)

// Clients behind a weak network get everything, as late as it has it, and the result says so.
func TestNetwork(t *testing.T) {
	for name, spec := range map[string]load.Spec{
		"one":           {Clients: 20, Rate: 50, Network: "delay=20ms,jitter=5ms,down=2Mbit"},
		"two processes": {Clients: 21, Rate: 50, Network: "delay=20ms,jitter=5ms", Processes: 2},
		"stalls":        {Clients: 20, Rate: 50, Network: "delay=20ms,stall=5ms-20ms/50ms"},
		"by a client":   {Clients: 20, Rate: 50, Network: "delay=20ms", Publish: load.ByClient, Spread: true},
		"closed":        {Clients: 20, Rate: -1, Network: "delay=20ms"},
		"storm":         {Clients: 20, Rate: 200, Network: "delay=20ms", Shape: load.Storm, Connect: 10},
	} {
		t.Run(name, func(t *testing.T) {
			spec.URL = "http://" + newNode(t, 10_000)
			r, err := load.Run(testContext(t), short(spec), &load.Options{Worker: self(t, "work")})
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

// Clients that the network cuts come back, to another node than before, resume, and get everything, however often that happens; in the end all are there.
func TestNetworkCuts(t *testing.T) {
	for name, spec := range map[string]load.Spec{
		"one":           {Rate: 200},
		"two processes": {Rate: 200, Processes: 2},
	} {
		t.Run(name, func(t *testing.T) {
			nodes := newCluster(t, 10_000, 2)
			spec.URL, spec.Nodes = "http://"+nodes[0], []string{"http://" + nodes[1]}
			spec.Clients, spec.Network = 20, "delay=1ms,reset=200ms"
			r, err := load.Run(testContext(t), short(spec), &load.Options{Worker: self(t, "work")})
			must(t, err)
			if len(r.Problems) != 1 {
				t.Errorf("problems %q", r.Problems)
			}
			r.Problems = nil
			perfect(t, r)
			if r.Connects.Resets == 0 || r.Connects.Away != 0 || r.Storm != nil {
				t.Errorf("connects %+v, recovery %+v", r.Connects, r.Storm)
			}
		})
	}
}

// A network that nobody could get through is like a server that is not there: no client comes in.
func TestNetworkWithoutServer(t *testing.T) {
	spec := short(load.Spec{URL: "http://127.0.0.1:1", Clients: 3, Network: "none", Patience: 10 * time.Second})
	if r, err := load.Run(testContext(t), spec, nil); err == nil || r != nil || !strings.Contains(err.Error(), "no client could connect") {
		t.Errorf("%v, %v", r, err)
	}
}

func TestNetworkIsRefused(t *testing.T) {
	for _, tt := range []struct {
		spec load.Spec
		want string
	}{
		{load.Spec{Network: "4g"}, `load: network: unknown name "4g": use none, dsl`},
		{load.Spec{Network: "delay=-1s"}, "load: network: delay-up of -1s"},
		{load.Spec{Network: "flaky", Shape: load.Market}, `load: network "flaky" resets connections`},
		{load.Spec{Network: "edge,reset=1m", Shape: load.Storm}, "in shape one with a rate and in shape idle"},
		{load.Spec{Network: "edge,reset=1m", Rate: -1}, "leave reset out"},
		{load.Spec{Network: "edge,refuse"}, `load: network "edge,refuse" keeps clients out`},
		{load.Spec{Network: "halfopen=1s"}, "use one without halfopen and refuse"},
		{load.Spec{Network: "3g", Clients: 20_001}, "20001 clients behind a network: it has to be at most 20000"},
	} {
		if err := tt.spec.Validate(); err == nil || !strings.Contains(err.Error(), tt.want) {
			t.Errorf("%+v: %v, want %s", tt.spec, err, tt.want)
		}
	}
	if err := (load.Spec{Network: "wifi-lossy,seed=3", Clients: 20_000}).Validate(); err != nil {
		t.Error(err)
	}
}
