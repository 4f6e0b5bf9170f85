package main_test

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/sluice-push/sluice/bench/internal/load"
	"github.com/sluice-push/sluice/bench/internal/loadtest"
	"github.com/sluice-push/sluice/bench/internal/measure"
	push "github.com/sluice-push/sluice/bench/push"
	"github.com/sluice-push/sluice/push/broker"
)

// Every server runs in every cell, for a blink.
func TestEverything(t *testing.T) {
	r := loadtest.Everything(t, push.Run, push.ServerNames(), "-conns", "20", "-idle", "15", "-stall", "1s", "-around", "200ms")
	all := len(push.ServerNames())
	if want := (8+5)*all + 4*all; len(r.Samples) != want || len(r.Targets) == 0 {
		t.Errorf("%d samples, not %d, %d targets", len(r.Samples), want, len(r.Targets))
	}
	for _, part := range []string{
		"**hundred: publications of 256 B to 20 subscribers of one channel, 10 a second**", "to 10 subscribers of 20 of 20 channels each",
		"| sluice-memory | ", "**memory-market: ", "| 15 subscribers |", "**grow: CPU", "**targets**",
		"of which 1 read nothing for 1s", "| sluice-memory | while they stall | ", "| nats | afterwards | ", "**storm: publications of 256 B to 20 subscribers of one channel, all cut at once, 1 a second**",
		"**link: a publication of 200 B", "| 1, alone | raw | ", "| 512 | link | ", "| 64 | grpc-batched | ", "| 1 | memory-alone | ",
		"| 120 at 4 | c | ", "| 120 at 4 | hub-nats | ", "| 160 at 5 | sluice | ", "| 160 at 5 | gateways | ", "**cores: ",
	} {
		if !strings.Contains(r.Tables, part) {
			t.Errorf("%q is not in:\n%s", part, r.Tables)
		}
	}
}

// All profiles are taken, and say where the CPU went.
func TestProfile(t *testing.T) {
	folder := filepath.Join(t.TempDir(), "profiles")
	var out bytes.Buffer
	args := []string{"profile", "-conns", "50", "-idle", "60", "-seconds", "1", "-broker", "memory", "-out", folder}
	if err := push.Run(args, &out); err != nil {
		t.Fatal(err)
	}
	for _, part := range []string{"the system call that writes", "collecting garbage", "CPU: 60 clients", "bytes allocated", "mutexes", "channels"} {
		if !strings.Contains(out.String(), part) {
			t.Errorf("%q is not in:\n%s", part, out.String())
		}
	}
	files, err := os.ReadDir(folder)
	if err != nil || len(files) != 6 {
		t.Errorf("%d files, %v", len(files), err)
	}
}

// What pprof prints is understood: heads, labels, functions that were inlined, units.
func TestTraces(t *testing.T) {
	const text = `File: sluice
Duration: 10s, Total samples = 100ms
-----------+-------------------------------------------------------
      40ms   internal/runtime/syscall/linux.Syscall6
             syscall.RawSyscall6
             example.org/internal/buffer.Send (inline)
             example.org/push/hub.(*chunk).serve
-----------+-------------------------------------------------------
     bytes:  256kB
      20ms   internal/runtime/syscall/linux.Syscall6
             example.org/internal/epoll.wait
-----------+-------------------------------------------------------
      10ms   runtime.scanobject
             runtime.gcBgMarkWorker.func2
-----------+-------------------------------------------------------
      30ms   runtime.mallocgc
             example.org/push/hub.(*chunk).serve
-----------+-------------------------------------------------------
         0   runtime.mallocgc
-----------+-------------------------------------------------------
     1000ms   compress/flate.deflate
             net/http/pprof.Index
-----------+-------------------------------------------------------
`
	for _, tt := range []struct {
		leaves  bool
		largest string
	}{{true, "runtime.mallocgc"}, {false, "example.org/push/hub.(*chunk).serve"}} {
		figures, largest, err := push.Breakdown(text, "ms", tt.leaves)
		if figures != [3]float64{100, 40, 10} || largest != tt.largest || err != nil {
			t.Errorf("%v, %s, %v", figures, largest, err)
		}
	}
	if _, _, err := push.Breakdown("-----------+---\n  40us f\n", "ms", true); err == nil {
		t.Error("another unit is taken")
	}
}

// The server with two threads is left out where there is one processor, unless it is asked for by name.
func TestChosen(t *testing.T) {
	for cell, want := range map[string]bool{"one10k": true, "market2000": true, "closed32": false, "memory": false, "grow": false, "stalled": false, "storm": false} {
		if got := slices.Contains(push.Chosen(cell, false), "c2"); got != want {
			t.Errorf("%s: %v", cell, got)
		}
		if got, want := slices.Contains(push.Chosen(cell, true), "c2"), cell != "stalled" && cell != "storm"; got != want {
			t.Errorf("%s, by name: %v", cell, got)
		}
	}
}

func TestMistakes(t *testing.T) {
	for args, want := range map[string]string{
		"-cells one9 -sluice x":                `nothing is called "one9"`,
		"-servers d -sluice x":                 `nothing is called "d"`,
		"-rounds 0":                            "see -help",
		"more":                                 "see -help",
		"profile more":                         "see -help",
		"profile -conns 2 -idle 1":             "see -help",
		"profile -broker kafka":                "see -help",
		"serve -server absent":                 `no server is called "absent"`,
		"serve hub -peer absent":               `no peer is called "absent"`,
		"serve gateway -peer absent":           `no peer is called "absent"`,
		"serve -server sluice -sluice /absent": "fork/exec /absent: no such file or directory",
	} {
		if err := push.Run(strings.Fields(args), new(bytes.Buffer)); err == nil || err.Error() != want {
			t.Errorf("%s: %v, want %s", args, err, want)
		}
	}
}

// A command that does not serve is an error that says what it said.
func TestNoServer(t *testing.T) {
	err := push.Run(strings.Fields("serve -server sluice -sluice /bin/false"), new(bytes.Buffer))
	if err == nil || !strings.HasPrefix(err.Error(), "sluice did not start: it does not say where it listens") {
		t.Error(err)
	}
}

// A gateway notices what is lost, comes twice or is not what was sent, and acknowledges so many at a time.
func TestArrivals(t *testing.T) {
	for name, tt := range map[string]struct {
		offsets []uint64
		change  func(*broker.Message)
		want    []int64 // acknowledged; nil: a mistake
	}{
		"all":             {offsets: []uint64{1, 2, 3, 4, 5}, want: []int64{2, 4}},
		"lost":            {offsets: []uint64{1, 2, 4}},
		"twice":           {offsets: []uint64{1, 2, 2}},
		"another channel": {offsets: []uint64{1}, change: func(m *broker.Message) { m.Channel = "n:other" }},
		"cut":             {offsets: []uint64{1}, change: func(m *broker.Message) { m.Data = m.Data[1:] }},
	} {
		t.Run(name, func(t *testing.T) {
			got, last, err := push.Arrive(2, tt.offsets, tt.change)
			if tt.want == nil {
				if err == nil {
					t.Error("no error")
				}
				return
			}
			if err != nil || !slices.Equal(got, tt.want) || last != tt.offsets[len(tt.offsets)-1] {
				t.Errorf("%d were acknowledged, the last is %d: %v", got, last, err)
			}
		})
	}
}

// A link is judged by what publications cost both processes when 512 come at a time.
func TestLinkTarget(t *testing.T) {
	if got := push.JudgeLinks(90, 70); len(got) != 1 || got[0].Met != "no" || got[0].Measured != "160 ns" {
		t.Errorf("%+v", got)
	}
	if got := push.JudgeLinks(80, 70); len(got) != 1 || got[0].Met != "yes" {
		t.Errorf("%+v", got)
	}
}

// Which targets there are in a cell, and which are met.
func TestTargets(t *testing.T) {
	one := func(v float64) measure.Spread { return measure.Spread{Median: v, Min: v, Max: v} }
	rows := []load.Summary{
		{Server: "c1", CPU: one(7)},
		{
			Server: "sluice", Rate: one(97000), CPU: one(8), Ratio: one(1.14), Delay: one(1.3), Latency: measure.Quantiles{P99: one(99)},
		},
		{Server: "nats", CPU: one(20)},
	}
	for cell, want := range map[string][]string{
		"one10k":     {"CPU at most 1.15 × the limit: yes", "last at most 1.2 × the limit: no"},
		"one15k":     {"CPU at most 1.15 × the limit: yes", "last at most 1.2 × the limit: no"},
		"hundred":    {"as fast as asked: no", "p99 below 100 ms: yes"},
		"closed1":    nil,
		"closed32":   {"at least 260 thousand/s: no"},
		"market2000": {"p99 below 20 ms: no", "at most 8 µs a delivery: yes"},
		"memory":     {"at most 3072 B a subscriber of 10000: yes"},
	} {
		var got []string
		for _, g := range push.Judge(cell, rows, 3000) {
			got = append(got, fmt.Sprintf("%s: %s", strings.TrimPrefix(g.Target, cell+": "), g.Met))
		}
		if !slices.Equal(got, want) {
			t.Errorf("%s:\n%q, want\n%q", cell, got, want)
		}
	}
}
