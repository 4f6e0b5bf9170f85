// Command transports compares what the transports of the command sluice cost, with each form of the client protocol that they carry: CPU and bytes
// for a delivery, memory of the process and the kernel for a client, and latency. In each round a fresh node with the memory broker serves each of
// them in turn, with the load of sluice bench, which verifies every delivery. The medians of the rounds are shown.
//
//	go run ./transports
//	go run ./transports -before main~10 -transports websocket/json,grpc/protobuf -rounds 5
//
// Linux is needed. The machine should have nothing else to do.
package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/sluice-push/sluice/bench/internal/node"
	"github.com/sluice-push/sluice/bench/internal/program"
	"github.com/sluice-push/sluice/bench/internal/report"
)

// all are the transports, each with a form of the protocol.
const all = "websocket/json,websocket/protobuf,http_stream/json,http_stream/protobuf,sse/json,grpc/protobuf,tcp/protobuf"

// loads are what sluice bench does, by name.
var loads = map[string][]string{
	"market": {"--shape", "market", "--clients", "5000", "--channels", "2000", "--each", "20", "--rate", "2000"},
	"one":    {"--shape", "one", "--clients", "5000", "--rate", "10"},
}

const config = `
broker: {kind: memory}
limits: {commands_per_session: 0, commands_per_address: 0}
namespaces:
  - {name: ticks, mode: stream, history: {size: 100}, allow: {subscribe: [anonymous], publish: [api], history: [], presence: []}}
`

// tcpConfig is what the transport tcp needs besides. Commands of commits before it do not know it.
const tcpConfig = `tcp: {listen: "127.0.0.1:0"}
`

func main() { program.Main("transports", run) }

func run(ctx context.Context, args []string, stdout io.Writer) error {
	flags := flag.NewFlagSet("transports", flag.ContinueOnError)
	names := flags.String("transports", all, "which transports, each with a form")
	which := flags.String("loads", "market,one", "which loads")
	rounds := flags.Int("rounds", 5, "how often each is measured")
	length := flags.Duration("duration", 5*time.Second, "how long it is measured")
	path := flags.String("sluice", "", "the command sluice; built from this repository when empty")
	before := flags.String("before", "", "the command sluice of another commit, which serves websocket/json as well")
	if err := flags.Parse(args); err != nil {
		return err
	}
	binary, remove, err := node.Build(ctx, *path)
	if err != nil {
		return err
	}
	defer remove()
	c := &comparison{bench: binary, length: *length}
	for name := range strings.SplitSeq(*names, ",") {
		c.cells = append(c.cells, cell{name: name, server: binary})
	}
	if *before != "" {
		c.cells = append(c.cells, cell{name: "websocket/json", server: *before, note: ", before"})
	}
	_, _ = fmt.Fprintf(stdout, "%v\n", report.ThisMachine("go run ./transports "+strings.Join(args, " "), nil))
	for name := range strings.SplitSeq(*which, ",") {
		load, ok := loads[name]
		if !ok {
			return fmt.Errorf("there is no load %q, only market and one", name)
		}
		results, err := c.measure(ctx, load, *rounds)
		if err != nil {
			return err
		}
		if err := table(name+": "+strings.Join(load, " "), c.cells, results).Markdown(stdout); err != nil {
			return err
		}
	}
	return nil
}

// cell is what is measured: a transport with a form, and the command that serves it.
type cell struct{ name, server, note string }

// comparison measures cells in turn.
type comparison struct {
	bench  string // the command whose clients are used
	length time.Duration
	cells  []cell
}

// result is what the report of sluice bench says of a run, and the metrics of the node.
type result struct {
	Deliveries struct{ Received, Lost, Duplicated, Disordered, Corrupt int }
	Latency    struct {
		P50 float64 `json:"p50_ms"`
		P99 float64 `json:"p99_ms"`
	}
	Server struct {
		CPU    float64 `json:"cpu_us_per_delivery"`
		Memory float64 `json:"rss_per_client"`
		Kernel float64 `json:"socket_bytes"`
	}
	Connects struct{ Clients float64 }
	bytes    float64 // sent for a delivery, replies included
}

// measure returns the results of all rounds, by cell.
func (c *comparison) measure(ctx context.Context, load []string, rounds int) ([][]result, error) {
	results := make([][]result, len(c.cells))
	for range rounds {
		for i, cell := range c.cells {
			r, err := c.one(ctx, cell, load)
			if err != nil {
				return nil, fmt.Errorf("%s%s: %w", cell.name, cell.note, err)
			}
			results[i] = append(results[i], r)
		}
	}
	return results, nil
}

func (c *comparison) one(ctx context.Context, cell cell, load []string) (r result, err error) {
	transport, form, _ := strings.Cut(cell.name, "/")
	conf := config
	if transport == "tcp" {
		conf += tcpConfig
	}
	n, err := node.Start(cell.server, conf, "--insecure")
	if err != nil {
		return r, err
	}
	defer n.Stop()
	folder, err := os.MkdirTemp("", "sluice-bench-")
	if err != nil {
		return r, err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(folder)) }()
	file := filepath.Join(folder, "result.json")
	url := "http://" + n.Public
	if transport == "tcp" {
		url = "tcp://" + n.TCP
	}
	args := append([]string{
		"bench", "--url", url, "--publish-url", "http://" + n.Public + "/api/publish", "--server-pid", strconv.Itoa(n.PID()),
		"--transport", transport, "--protocol", form, "--duration", c.length.String(), "--json", file,
	}, load...)
	if out, err := exec.CommandContext(ctx, c.bench, args...).CombinedOutput(); err != nil {
		return r, fmt.Errorf("sluice bench: %w\n%s\n%s", err, out, n.Said())
	}
	text, err := os.ReadFile(file)
	if err == nil {
		err = json.Unmarshal(text, &r)
	}
	if err != nil {
		return r, err
	}
	page, err := n.Get("/metrics")
	if err != nil {
		return r, err
	}
	r.bytes = sum(page, "sluice_sent_bytes_total") / sum(page, "sluice_deliveries_total")
	return r, nil
}

// sum returns the sum of a metric over its labels, from a page in text format.
func sum(page []byte, name string) (sum float64) {
	for line := range bytes.Lines(page) {
		rest, ok := bytes.CutPrefix(line, []byte(name))
		if !ok || len(rest) == 0 || rest[0] != '{' && rest[0] != ' ' {
			continue
		}
		fields := bytes.Fields(rest[bytes.LastIndexByte(rest, '}')+1:])
		if len(fields) == 0 {
			continue
		}
		if v, err := strconv.ParseFloat(string(fields[0]), 64); err == nil {
			sum += v
		}
	}
	return sum
}

// table shows the medians of the rounds.
func table(title string, cells []cell, results [][]result) *report.Table {
	t := &report.Table{
		Title: title,
		Head:  []string{"transport", "CPU µs a delivery", "× WebSocket JSON", "bytes a delivery", "process KB a client", "kernel KB a client", "p50 ms", "p99 ms"},
		Note:  "Medians. Bytes are what the node sent, with the replies to connecting and subscribing. No delivery was lost, doubled, out of order or changed.",
	}
	cpu := func(r result) float64 { return r.Server.CPU }
	var base float64
	for i, c := range cells {
		if c.name == "websocket/json" && c.note == "" {
			base = median(results[i], cpu)
		}
	}
	for i, c := range cells {
		rs := results[i]
		times := "–"
		if base > 0 {
			times = fmt.Sprintf("%.2f", median(rs, cpu)/base)
		}
		t.Add(c.name+c.note, fmt.Sprintf("%.2f", median(rs, cpu)), times,
			fmt.Sprintf("%.0f", median(rs, func(r result) float64 { return r.bytes })),
			fmt.Sprintf("%.1f", median(rs, func(r result) float64 { return r.Server.Memory / 1000 })),
			fmt.Sprintf("%.1f", median(rs, func(r result) float64 { return r.Server.Kernel / max(r.Connects.Clients, 1) / 1000 })),
			fmt.Sprintf("%.1f", median(rs, func(r result) float64 { return r.Latency.P50 })),
			fmt.Sprintf("%.1f", median(rs, func(r result) float64 { return r.Latency.P99 })))
	}
	return t
}

// median returns the median of a figure.
func median(rs []result, figure func(result) float64) float64 {
	values := make([]float64, 0, len(rs))
	for _, r := range rs {
		values = append(values, figure(r))
	}
	slices.Sort(values)
	if len(values) == 0 {
		return 0
	}
	return (values[(len(values)-1)/2] + values[len(values)/2]) / 2
}
