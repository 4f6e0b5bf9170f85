package report_test

import (
	"flag"
	"os"
	"path/filepath"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/sluice-push/sluice/cmd/sluice/internal/loadtest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

var update = flag.Bool("update", false, "write the expected texts of testdata anew")

// golden compares a text with a file of testdata.
func golden(t *testing.T, name, got string) {
	t.Helper()
	path := filepath.Join("testdata", name+".txt")
	if *update {
		must(t, os.WriteFile(path, []byte(got), 0o644))
	}
	want, err := os.ReadFile(path)
	must(t, err)
	if got != string(want) {
		t.Errorf("%s: got\n%s\nwant\n%s", path, got, want)
	}
}

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// perfect returns a result of shape one without any fault.
func perfect() *loadtest.Result {
	return &loadtest.Result{
		Format: 1, Version: "v0.4.0", Began: time.Date(2026, 11, 22, 10, 0, 0, 0, time.UTC), Seconds: 60.02,
		Host: &loadtest.Host{
			Name: "one", System: "linux 6.18.44 amd64", CPU: "AMD EPYC 9554", Cores: 2, Memory: 24 << 30, Load: 0.1, Toolchain: "go1.26.8",
		},
		Spec: loadtest.Spec{
			URL: "ws://127.0.0.1:8000/connection/websocket", Transport: "websocket", Protocol: "json", Publish: "api", Shape: loadtest.One, Clients: 10_000,
			Channels: 2000, Each: 20, Prefix: "ticks:load-", Rate: 1, Window: 1, Bytes: 256, Seed: 1, Stalled: 0.1, StallBuffer: 16 << 10,
			Connect: 64, Settle: 2 * time.Second, Warmup: 2 * time.Second, Duration: time.Minute, Patience: 10 * time.Second,
		},
		Connects:     loadtest.Connects{Clients: 10_000, Seconds: 1.284},
		Publications: loadtest.Publications{Due: 60, Sent: 60, Rate: 0.9997, Late: 0.81},
		Deliveries:   loadtest.Deliveries{Expected: 600_000, Received: 600_000, PerSecond: 9996.7},
		Latency:      loadtest.Latency{Count: 600_000, Mean: 40.118, P50: 39.27, P90: 71.1, P99: 83.004, P999: 90.9, Max: 121.25},
		Last:         loadtest.Latency{Count: 60, Mean: 80.2, P50: 79.9, P90: 85, P99: 118, P999: 121.25, Max: 121.25},
		Server: &loadtest.Usage{
			Processes: 1, CPU: 5.37, PerDelivery: 8.95, Before: 20 << 20, Idle: 36 << 20, Peak: 50 << 20, After: 44 << 20, PerClient: 1677,
			Sockets: 12 << 20,
		},
		Generator: &loadtest.Usage{Processes: 1, CPU: 3.2, PerDelivery: 5.3, Before: 15 << 20, Idle: 95 << 20, Peak: 99 << 20, After: 99 << 20, PerClient: 8388},
	}
}

// broken returns a result with every kind of fault.
func broken() *loadtest.Result {
	r := perfect()
	r.Connects = loadtest.Connects{Clients: 9_988, Failed: 12, Cut: 7, Seconds: 3, Reasons: map[string]int{
		"connection limit (4503)": 12, "shutdown (3001)": 3, "read: connection reset by peer": 3, "slow (3008)": 1, "a": 1, "b": 1,
	}}
	r.Publications.Refused, r.Publications.Sent = 1, 59
	r.Deliveries = loadtest.Deliveries{
		Expected: 589_292, Received: 589_200, Lost: 92, Announced: 40, Duplicated: 1, Disordered: 1234, Corrupt: 2, PerSecond: 9000,
	}
	r.Problems = []string{"other virtual machines took 8 % of the CPU time: latencies are higher than on an idle host"}
	return r
}
