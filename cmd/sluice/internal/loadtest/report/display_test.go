package report_test

import (
	"bytes"
	"fmt"
	"os"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"pgregory.net/rapid"

	"github.com/sluice-push/sluice/cmd/sluice/internal/loadtest"
	"github.com/sluice-push/sluice/cmd/sluice/internal/loadtest/report"
)

// progressOfRun returns the progress of a run, four times a second.
func progressOfRun(wrong uint64) []loadtest.Progress {
	var steps []loadtest.Progress
	at := func(i int, phase loadtest.Phase) *loadtest.Progress {
		steps = append(steps, loadtest.Progress{Phase: phase, Elapsed: time.Duration(i) * 250 * time.Millisecond, Target: 1000})
		return &steps[len(steps)-1]
	}
	for i := range 4 {
		at(i, loadtest.Connecting).Clients = 250 * i
	}
	for i := 4; i < 8; i++ {
		p := at(i, loadtest.Settling)
		p.Clients, p.Left = 1000, time.Duration(40-i)*250*time.Millisecond
	}
	for i := 8; i < 40; i++ {
		p := at(i, loadtest.Measuring)
		n := uint64(i - 7)
		p.Clients, p.Left = 1000, time.Duration(40-i)*250*time.Millisecond
		p.Published, p.Delivered, p.Expected = 25*n, 25_000*n-10*(n%3), 25_000*n
		p.Publishing, p.Delivering = 100, 100_000-float64(n%5)*8000
		p.Recent = loadtest.Latency{Count: 100_000, P50: 1.25, P99: 2 + float64(n*n%7), Max: 12.75}
		p.Latency = loadtest.Latency{Count: p.Delivered, P50: 1.2, P99: 4.5, Max: 1312}
		p.Wrong = wrong * n
	}
	p := at(40, loadtest.Draining)
	p.Clients, p.Published, p.Delivered, p.Expected = 1000, 800, 799_000, 800_000
	p.Latency = loadtest.Latency{Count: 799_000, P50: 1.2, P99: 4.5, Max: 1312}
	return steps
}

// output returns all that a display writes for a run.
func output(spec loadtest.Spec, o *report.DisplayOptions, steps []loadtest.Progress) string {
	var out bytes.Buffer
	d := report.NewDisplay(&out, spec, o)
	for _, p := range steps {
		d.Show(p)
	}
	d.Close()
	return out.String()
}

// visible returns the text of the last screen in the output of a display.
func visible(output string) string {
	screens := strings.Split(output, "\x1b[H")
	last, _, _ := strings.Cut(screens[len(screens)-1], "\x1b[J")
	return strings.ReplaceAll(last, "\x1b[K\r\n", "\n")
}

func TestScreen(t *testing.T) {
	spec := perfect().Spec
	spec.Clients, spec.Rate = 1000, 100
	for name, tt := range map[string]struct {
		width, until int
		wrong        uint64
	}{
		"connecting": {80, 3, 0},
		"settling":   {80, 8, 0},
		"measuring":  {80, 35, 0},
		"narrow":     {32, 35, 0},
		"wide":       {160, 41, 0},
		"wrong":      {80, 40, 3},
	} {
		t.Run(name, func(t *testing.T) {
			o := &report.DisplayOptions{Width: func() int { return tt.width }}
			screen := visible(output(spec, o, progressOfRun(tt.wrong)[:tt.until]))
			golden(t, "screen-"+name, strings.ReplaceAll(screen, "\x1b", "ESC"))
		})
	}
}

func TestLines(t *testing.T) {
	golden(t, "lines", output(perfect().Spec, nil, progressOfRun(0)))
	golden(t, "lines-wrong", output(perfect().Spec, nil, progressOfRun(3)))
}

// A display enters and leaves the alternate screen once, and hides and shows the cursor once, also if it is closed twice.
func TestTerminalIsGivenBack(t *testing.T) {
	var out bytes.Buffer
	d := report.NewDisplay(&out, perfect().Spec, &report.DisplayOptions{Width: func() int { return 80 }})
	d.Close()
	if out.Len() > 0 {
		t.Errorf("a display that showed nothing writes %q", out.String())
	}
	out.Reset()
	d = report.NewDisplay(&out, perfect().Spec, &report.DisplayOptions{Width: func() int { return 80 }})
	for _, p := range progressOfRun(1) {
		d.Show(p)
	}
	d.Close()
	written := out.Len()
	d.Close()
	d.Show(progressOfRun(1)[20])
	if out.Len() != written {
		t.Errorf("after Close it writes %q", out.String()[written:])
	}
	text := out.String()
	for _, once := range []string{"\x1b[?1049h", "\x1b[?25l", "\x1b[?25h", "\x1b[?1049l"} {
		if n := strings.Count(text, once); n != 1 {
			t.Errorf("%q is written %d times", once, n)
		}
	}
	if !strings.HasPrefix(text, "\x1b[?1049h\x1b[?25l") || !strings.HasSuffix(text, "\x1b[?25h\x1b[?1049l") {
		t.Errorf("it begins with %q and ends with %q", text[:20], text[len(text)-20:])
	}
}

// For any progress the screen keeps its height and width, and each line of plain output is one line.
func TestAnyProgress(t *testing.T) {
	latency := rapid.Custom(func(t *rapid.T) loadtest.Latency {
		v := rapid.Float64Range(0, 1e9)
		return loadtest.Latency{Count: rapid.Uint64().Draw(t, "count"), P50: v.Draw(t, "p50"), P99: v.Draw(t, "p99"), Max: v.Draw(t, "max")}
	})
	phases := []loadtest.Phase{loadtest.Connecting, loadtest.Settling, loadtest.Warming, loadtest.Measuring, loadtest.Draining, loadtest.Closing}
	shapes := []loadtest.Shape{loadtest.One, loadtest.Market, loadtest.Slow, loadtest.Storm, loadtest.Idle}
	rapid.Check(t, func(t *rapid.T) {
		width := rapid.IntRange(1, 300).Draw(t, "width")
		spec := perfect().Spec
		spec.Shape = rapid.SampledFrom(shapes).Draw(t, "shape")
		spec.Rate = rapid.Float64Range(-1, 1e6).Draw(t, "rate")
		var steps []loadtest.Progress
		for range rapid.IntRange(1, 20).Draw(t, "steps") {
			steps = append(steps, loadtest.Progress{
				Phase:   rapid.SampledFrom(phases).Draw(t, "phase"),
				Elapsed: time.Duration(rapid.Int64Range(0, 1e15).Draw(t, "elapsed")),
				Left:    time.Duration(rapid.Int64Range(-1e12, 1e15).Draw(t, "left")),
				Clients: rapid.IntRange(0, 1e7).Draw(t, "clients"), Target: rapid.IntRange(0, 1e7).Draw(t, "target"),
				Published: rapid.Uint64().Draw(t, "published"), Delivered: rapid.Uint64().Draw(t, "delivered"),
				Expected: rapid.Uint64().Draw(t, "expected"), Wrong: rapid.Uint64().Draw(t, "wrong"),
				Publishing: rapid.Float64Range(0, 1e9).Draw(t, "publishing"), Delivering: rapid.Float64Range(0, 1e9).Draw(t, "delivering"),
				Recent: latency.Draw(t, "recent"), Latency: latency.Draw(t, "latency"),
			})
		}
		screen := visible(output(spec, &report.DisplayOptions{Width: func() int { return width }}, steps))
		lines := strings.Split(strings.TrimSuffix(screen, "\n"), "\n")
		if len(lines) != 15 {
			t.Fatalf("a screen of %d lines:\n%s", len(lines), screen)
		}
		for _, line := range lines {
			for _, style := range []string{"\x1b[1m", "\x1b[31m", "\x1b[0m"} {
				line = strings.ReplaceAll(line, style, "")
			}
			if n := utf8.RuneCountInString(line); n > width || strings.Contains(line, "\x1b") {
				t.Fatalf("a line of %d columns on a terminal of %d: %q", n, width, line)
			}
		}
		for line := range strings.Lines(output(spec, nil, steps)) {
			if !strings.HasSuffix(line, "\n") || strings.ContainsAny(line, "\x1b\r") {
				t.Fatalf("a line is %q", line)
			}
		}
	})
}

// A file that is no terminal has no width.
func TestWidth(t *testing.T) {
	f, err := os.Create(t.TempDir() + "/file")
	must(t, err)
	defer func() { must(t, f.Close()) }()
	null, err := os.OpenFile(os.DevNull, os.O_WRONLY, 0)
	must(t, err)
	defer func() { must(t, null.Close()) }()
	for _, f := range []*os.File{f, null} {
		if report.Width(f) != nil {
			t.Errorf("%s is taken for a terminal", f.Name())
		}
	}
}

func ExampleNewDisplay() {
	d := report.NewDisplay(os.Stdout, loadtest.Spec{Shape: loadtest.One, Clients: 10}, nil)
	defer d.Close()
	d.Show(loadtest.Progress{
		Phase: loadtest.Measuring, Elapsed: 5 * time.Second, Left: 5 * time.Second, Clients: 10, Target: 10,
		Published: 5, Publishing: 1, Delivered: 50, Expected: 50, Delivering: 10, Recent: loadtest.Latency{Count: 10, P50: 0.2, P99: 0.4},
	})
	// Output:
	// 5.0 s  measuring   left 5.0 s  clients 10/10  published 5 (1/s)  delivered 50/50 (10/s)  p50 0.2 ms  p99 0.4 ms
}

func ExampleSummary() {
	r := &loadtest.Result{
		Spec: loadtest.Spec{
			URL: "ws://127.0.0.1:8000/connection/websocket", Transport: "websocket", Protocol: "json", Shape: loadtest.One,
			Clients: 10, Rate: 1, Bytes: 256, Duration: 5 * time.Second,
		},
		Connects:     loadtest.Connects{Clients: 10, Seconds: 0.01},
		Publications: loadtest.Publications{Due: 5, Sent: 5, Rate: 1, Late: 0.1},
		Deliveries:   loadtest.Deliveries{Expected: 50, Received: 50, PerSecond: 10},
		Seconds:      5,
	}
	fmt.Print(report.Summary(r))
	// Output:
	// 10 clients got 50 of 50 deliveries: nothing lost, duplicated, out of order or corrupt.
	//
	// one: 10 clients; 256 B, 1/s, for 5s
	// ws://127.0.0.1:8000/connection/websocket (websocket, json)
	//
	// publications  5 due, 5 accepted (1/s), 0 refused, up to 0.1 ms late
	// deliveries    50, 10/s in 5 s
	// clients       10 in 0.01 s, 0 failed, 0 disconnected
	// server        not measured: its processes are unknown, or not on this host
}
