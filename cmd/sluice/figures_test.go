package main_test

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/sluice-push/sluice/push"
	"github.com/sluice-push/sluice/push/broker"
	"github.com/sluice-push/sluice/push/broker/nats"
	"github.com/sluice-push/sluice/push/config"
)

// The benchmarks in these files measure the command as users run it: in its own process, built without the race detector, with clients in the
// process of the test. docs/benchmarks.md has the results. By default the benchmarks are short and only show that they work. The variable
// figuresVariable selects full figures, which take some minutes and need an idle machine: make figures.
const figuresVariable = "SLUICE_FIGURES"

// sized returns small, or full if full figures are requested.
func sized[T any](small, full T) T {
	if os.Getenv(figuresVariable) == "full" {
		return full
	}
	return small
}

// figureKinds returns the brokers that the benchmarks compare.
func figureKinds() []string { return []string{"memory", "nats"} }

// figureKey is the API key of these nodes.
const figureKey = "the key of the figures"

// figureConfig returns the configuration of a node with one of these brokers, with or without presence.
func figureConfig(kind string, presence bool) string {
	allow := "subscribe: [anonymous], publish: [api], history: [api], presence: []"
	if presence {
		allow = "subscribe: [anonymous], publish: [api], history: [api], presence: [api]"
	}
	return fmt.Sprintf(`
broker: {kind: %s}
auth: {anonymous: true}
api: {keys: [{name: figures, hash: %q, scopes: [publish, read]}]}
ping: {interval: 60s, timeout: 50s}
namespaces:
  - {name: ticks, mode: stream, history: {size: 1000, age: 1h}, allow: {%s}}
  - {name: rows, mode: table, allow: {%s}}
`, kind, config.HashKey(figureKey), allow, allow)
}

// figureNode starts a node on a data folder and waits until it is ready. It returns how long that took.
func figureNode(b *testing.B, config, folder string) (*process, time.Duration) {
	b.Helper()
	path, err := plain()
	if err != nil {
		b.Fatal(err)
	}
	file := filepath.Join(b.TempDir(), "sluice.yaml")
	if err := os.WriteFile(file, []byte(config), 0o600); err != nil {
		b.Fatal(err)
	}
	began := time.Now()
	p := startProgram(b, path, "--config", file, "--data", folder)
	if !answers("http://"+p.internal+"/health/ready", http.StatusOK, "ready") {
		b.Fatal("the node is not ready when it says where it listens")
	}
	return p, time.Since(began)
}

// finish shuts down a node.
func (p *process) finish() {
	p.t.Helper()
	if code := p.terminate(); code != 0 {
		p.t.Fatalf("exit code %d", code)
	}
}

func milliseconds(d time.Duration) float64 { return float64(d) / float64(time.Millisecond) }

func mebibytes(bytes int64) float64 { return float64(bytes) / (1 << 20) }

// BenchmarkFiguresIdle measures a node without clients: its start on an empty folder until it is ready, and its use of resources afterwards.
func BenchmarkFiguresIdle(b *testing.B) {
	for _, kind := range figureKinds() {
		b.Run(kind, func(b *testing.B) {
			var took time.Duration
			var resident int64
			goroutines := 0
			for b.Loop() {
				p, ready := figureNode(b, figureConfig(kind, false), b.TempDir())
				took += ready
				resident += p.resident()
				goroutines = p.goroutines()
				p.finish()
			}
			b.ReportMetric(milliseconds(took)/float64(b.N), "ms-to-ready")
			b.ReportMetric(mebibytes(resident)/float64(b.N), "MiB-resident")
			b.ReportMetric(float64(goroutines), "goroutines")
			b.ReportMetric(0, "ns/op")
		})
	}
}

// goroutines returns the number of the node's goroutines.
func (p *process) goroutines() int {
	p.t.Helper()
	resp, err := http.Get("http://" + p.internal + "/debug/pprof/goroutine?debug=1")
	if err != nil {
		p.t.Fatal(err)
	}
	defer func() { _ = resp.Body.Close() }()
	text, err := io.ReadAll(resp.Body)
	if err != nil {
		p.t.Fatal(err)
	}
	_, total, _ := strings.Cut(string(text), "total ")
	total, _, _ = strings.Cut(total, "\n")
	n, err := strconv.Atoi(total)
	if err != nil {
		p.t.Fatalf("%v: %.100s", err, text)
	}
	return n
}

// BenchmarkFiguresTable measures how long a table channel takes to be available after a restart. One client subscribes as soon as the node is
// ready, and gets all rows. A second figure is how long the broker takes to load them.
func BenchmarkFiguresTable(b *testing.B) {
	rows := sized(500, 10_000)
	folder := b.TempDir()
	p, _ := figureNode(b, figureConfig("nats", false), folder)
	caller := newCaller(b, p.public, sized(8, 64))
	want := map[string]string{}
	for i := range rows {
		want[fmt.Sprintf("row%d", i)] = fmt.Sprintf(`{"row":%d,"pad":"%0100d"}`, i, i)
	}
	caller.each(rows, func(i int) string {
		key := fmt.Sprintf("row%d", i)
		return fmt.Sprintf(`{"channel":"rows:all","key":%q,"data":%s}`, key, want[key])
	})
	caller.close()
	p.finish()
	var ready, filled, loaded time.Duration
	for b.Loop() {
		p, took := figureNode(b, figureConfig("nats", false), folder)
		ready += took
		began := time.Now()
		client := newFeedClient("the client", p.public, overWebSocket, map[string]*expectation{"rows:all": {rows: want}})
		ctx, cancel := context.WithTimeout(context.Background(), feedTime)
		go client.run(ctx)
		select {
		case <-client.complete:
		case <-client.ended:
			b.Fatalf("the client does not have the rows: %v", client.err)
		}
		filled += time.Since(began)
		cancel()
		<-client.ended
		p.finish()
		loaded += loadRows(b, folder, rows)
	}
	n := float64(b.N)
	b.ReportMetric(milliseconds(ready)/n, "ms-to-ready")
	b.ReportMetric(milliseconds(filled)/n, "ms-to-all-rows")
	b.ReportMetric(milliseconds(loaded)/n, "ms-of-load")
	b.ReportMetric(0, "ns/op")
}

// loadRows returns how long the broker alone takes to load the table.
func loadRows(b *testing.B, folder string, rows int) time.Duration {
	b.Helper()
	j, err := nats.New(b.Context(), &nats.Options{Dir: folder})
	if err != nil {
		b.Fatal(err)
	}
	defer func() { _ = j.Close() }()
	if err := j.Open(b.Context(), rowsNamespace()); err != nil {
		b.Fatal(err)
	}
	began, n := time.Now(), 0
	_, err = j.Load(b.Context(), "rows:all", broker.LoadOptions{}, func(broker.Message) error {
		n++
		return nil
	})
	if err != nil || n != rows {
		b.Fatalf("%d rows were loaded, want %d: %v", n, rows, err)
	}
	return time.Since(began)
}

// rowsNamespace returns the namespace that a node makes of figureConfig.
func rowsNamespace() broker.Namespace {
	return broker.Namespace{
		Name: "rows", Mode: push.Table, History: push.History{Size: 100, Age: 5 * time.Minute}, Partitions: 1, Durable: true,
	}
}
