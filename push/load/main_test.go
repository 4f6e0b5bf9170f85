package load_test

import (
	"context"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/sluice-push/sluice/internal/testwait"
	"github.com/sluice-push/sluice/push"
	"github.com/sluice-push/sluice/push/api"
	"github.com/sluice-push/sluice/push/broker"
	"github.com/sluice-push/sluice/push/broker/memory"
	"github.com/sluice-push/sluice/push/gateway"
	"github.com/sluice-push/sluice/push/hub"
	"github.com/sluice-push/sluice/push/load"
)

// The test binary is also the process of clients, when it is started with this in its environment.
const asWorker = "SLUICE_LOAD_TEST"

func TestMain(m *testing.M) {
	switch os.Getenv(asWorker) {
	case "work":
		if err := load.Work(context.Background(), os.Stdin, os.Stdout); err != nil {
			os.Exit(1)
		}
	case "die":
		_, _ = os.Stderr.WriteString("it was told to die\n")
		os.Exit(3)
	default:
		goleak.VerifyTestMain(m)
	}
}

// self is a command that runs the test binary as a process of clients.
func self(t *testing.T, how string) func() *exec.Cmd {
	t.Helper()
	name, err := os.Executable()
	must(t, err)
	return func() *exec.Cmd {
		cmd := exec.Command(filepath.Clean(name))
		cmd.Env = append(os.Environ(), asWorker+"="+how)
		return cmd
	}
}

// patience is how long a test waits for what has to happen. Nothing is measured by it: a test that needs it has failed.
const patience = 60 * time.Second

func testContext(t testing.TB) context.Context {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.WithoutCancel(t.Context()), patience)
	t.Cleanup(cancel)
	return ctx
}

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// newNode starts a node of the platform with streams that keep so many publications, and returns its address.
func newNode(t testing.TB, history int) string {
	t.Helper()
	return newCluster(t, history, 1)[0]
}

// newCluster starts nodes on one broker, and returns their addresses.
func newCluster(t testing.TB, history, nodes int) (addresses []string) {
	t.Helper()
	b := memory.New(nil)
	t.Cleanup(func() { must(t, b.Close()) })
	for range nodes {
		addresses = append(addresses, startNode(t, b, history))
	}
	return addresses
}

func startNode(t testing.TB, b *memory.Broker, history int) string {
	t.Helper()
	h, err := hub.New(t.Context(), b, []hub.Namespace{{Namespace: broker.Namespace{
		Name: "ticks", Mode: push.Stream, History: push.History{Size: history}, Partitions: 1,
	}}}, nil)
	must(t, err)
	g := gateway.New(h, nil)
	mux := http.NewServeMux()
	mux.Handle("/connection/", g.Handler())
	mux.Handle(api.Prefix, api.New(h, nil))
	address := serve(t, mux)
	t.Cleanup(func() {
		ctx, cancel := context.WithCancel(context.Background())
		cancel()
		_ = g.Shutdown(ctx)
		must(t, h.Close())
	})
	return address
}

// serve serves HTTP on loopback until the test ends.
func serve(t testing.TB, h http.Handler) string {
	t.Helper()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	must(t, err)
	s := &http.Server{Handler: h, ReadHeaderTimeout: patience}
	var serving sync.WaitGroup
	serving.Go(func() { _ = s.Serve(ln) })
	t.Cleanup(func() {
		_ = s.Close()
		testwait.Return(t, serving.Wait)
	})
	return ln.Addr().String()
}

// short is a spec for a test: no longer than it has to be.
func short(s load.Spec) load.Spec {
	s.Settle, s.Warmup, s.Duration = time.Millisecond, 50*time.Millisecond, 400*time.Millisecond
	if s.Patience == 0 {
		s.Patience = 20 * time.Second
	}
	return s
}

// perfect fails the test unless all that was expected has come, and something was.
func perfect(t *testing.T, r *load.Result) {
	t.Helper()
	if d := r.Deliveries; !d.Sound() || d.Told > 0 || d.Expected == 0 || d.Received != d.Expected {
		t.Errorf("deliveries %+v", d)
	}
	p := r.Publications
	if p.Sent == 0 || p.Sent != p.Due || p.Refused != 0 {
		t.Errorf("publications %+v", p)
	}
	if r.Connects.Clients != r.Spec.Clients || r.Connects.Failed != 0 || r.Connects.Cut != 0 {
		t.Errorf("connects %+v", r.Connects)
	}
	if len(r.Problems) > 0 {
		t.Errorf("problems %q", r.Problems)
	}
	if r.Latency.Count != r.Deliveries.Received || r.Latency.P50 <= 0 || r.Latency.Max < r.Latency.P99 || r.Latency.P99 < r.Latency.P50 {
		t.Errorf("latency %+v", r.Latency)
	}
	if r.Last.Count != r.Publications.Sent || r.Last.Max != r.Latency.Max {
		t.Errorf("last %+v, of all %+v", r.Last, r.Latency)
	}
}
