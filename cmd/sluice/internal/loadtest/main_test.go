package loadtest_test

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

	"github.com/sluice-push/sluice/cmd/sluice/internal/loadtest"
	"github.com/sluice-push/sluice/internal/testwait"
	"github.com/sluice-push/sluice/push"
	"github.com/sluice-push/sluice/push/api"
	"github.com/sluice-push/sluice/push/broker"
	"github.com/sluice-push/sluice/push/broker/memory"
	"github.com/sluice-push/sluice/push/gateway"
	"github.com/sluice-push/sluice/push/gateway/httpstream"
	"github.com/sluice-push/sluice/push/gateway/sse"
	wsclients "github.com/sluice-push/sluice/push/gateway/websocket"
	"github.com/sluice-push/sluice/push/hub"
)

// asWorker is an environment variable that makes the test binary a client process. Its value says what the process does.
const asWorker = "SLUICE_LOAD_TEST"

func TestMain(m *testing.M) {
	switch os.Getenv(asWorker) {
	case "work":
		if err := loadtest.Work(context.Background(), os.Stdin, os.Stdout); err != nil {
			os.Exit(1)
		}
	case "die":
		_, _ = os.Stderr.WriteString("it was told to die\n")
		os.Exit(3)
	default:
		goleak.VerifyTestMain(m)
	}
}

// self returns a function for Options.Worker that makes a command of the test binary. how is the value of asWorker.
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

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// newNode starts a node whose streams keep so many publications, and returns its address.
func newNode(t testing.TB, history int) string {
	t.Helper()
	return newCluster(t, history, 1)[0]
}

// newCluster starts nodes that share one broker, and returns their addresses.
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
	g := gateway.New(h, nil, wsclients.New, sse.New, httpstream.New)
	mux := http.NewServeMux()
	mux.Handle("/", g.Handler())
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

// serve serves HTTP on a loopback address, which it returns, until the test ends.
func serve(t testing.TB, h http.Handler) string {
	t.Helper()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	must(t, err)
	s := &http.Server{Handler: h, ReadHeaderTimeout: testwait.Bound}
	var serving sync.WaitGroup
	serving.Go(func() { _ = s.Serve(ln) })
	t.Cleanup(func() {
		_ = s.Close()
		testwait.Return(t, serving.Wait)
	})
	return ln.Addr().String()
}

// short returns a spec whose times are short enough for a test.
func short(s loadtest.Spec) loadtest.Spec {
	s.Settle, s.Warmup, s.Duration = time.Millisecond, 50*time.Millisecond, 400*time.Millisecond
	if s.Patience == 0 {
		s.Patience = 20 * time.Second
	}
	return s
}

// perfect fails the test unless all expected deliveries have come, at least one was expected, and the result has no problems.
func perfect(t *testing.T, r *loadtest.Result) {
	t.Helper()
	if d := r.Deliveries; !d.Sound() || d.Announced > 0 || d.Expected == 0 || d.Received != d.Expected {
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
