package report

import (
	"fmt"
	"strings"
	"time"

	"github.com/sluice-push/sluice/cmd/sluice/internal/loadtest"
)

// view formats the progress of a run as text. It keeps one point per second for its curves. It is independent of a terminal.
type view struct {
	spec    loadtest.Spec
	now     loadtest.Progress
	settled time.Duration // elapsed time at the end of connecting; 0 before
	second  time.Duration // elapsed time of the next point
	rates   curve         // deliveries per second
	p99s    curve         // 99th percentile of the latency over the last second
}

// styled is a line of the screen.
type styled struct {
	text  string
	style string // escape sequence, empty for none
}

// add updates the view with new progress.
func (v *view) add(p loadtest.Progress) {
	v.now = p
	if v.settled == 0 && p.Phase != loadtest.Connecting {
		v.settled = p.Elapsed
	}
	if p.Elapsed < v.second || p.Phase == loadtest.Connecting {
		return
	}
	v.second = p.Elapsed - p.Elapsed%time.Second + time.Second
	v.rates.add(p.Delivering)
	v.p99s.add(p.Recent.P99)
}

// line returns the progress as one line.
func (v *view) line() string {
	p := &v.now
	parts := []string{fmt.Sprintf("%6s  %-10s", seconds(p.Elapsed), p.Phase)}
	if p.Left > 0 {
		parts = append(parts, "left "+seconds(p.Left))
	}
	parts = append(parts, fmt.Sprintf("clients %s/%s", thousands(p.Clients), thousands(p.Target)))
	if p.Published > 0 {
		parts = append(parts, fmt.Sprintf("published %s (%s/s)", thousands(p.Published), significant(p.Publishing)))
		parts = append(parts, fmt.Sprintf("delivered %s/%s (%s/s)", thousands(p.Delivered), thousands(p.Expected), significant(p.Delivering)))
	}
	if p.Recent.Count > 0 {
		parts = append(parts, "p50 "+milliseconds(p.Recent.P50), "p99 "+milliseconds(p.Recent.P99))
	}
	if p.Wrong > 0 {
		parts = append(parts, fmt.Sprintf("FAILED %s", thousands(p.Wrong)))
	}
	return strings.Join(parts, "  ")
}

// The layout of the screen: a column of names, and then their values.
const (
	nameWidth   = 12
	minBarWidth = 10
)

// screen returns the progress as lines of at most width runes.
func (v *view) screen(width int) []styled {
	p := &v.now
	lines := []styled{
		{text: "sluice bench   " + describe(&v.spec), style: bold},
		{text: addresses(&v.spec)},
		{},
		row(string(p.Phase), v.bar(max(width-nameWidth-28, minBarWidth))),
		{},
		row("clients", fmt.Sprintf("%s of %s", thousands(p.Clients), thousands(p.Target))),
		row("published", fmt.Sprintf("%-28s  %s/s", thousands(p.Published), significant(p.Publishing))),
		row("delivered", fmt.Sprintf("%-28s  %s/s", thousands(p.Delivered)+" of "+thousands(p.Expected), significant(p.Delivering))),
		row("latency", latencies(&p.Recent)+"last second"),
		row("", latencies(&p.Latency)+"so far"),
		{},
		row("deliveries", v.rates.draw(max(width-nameWidth-24, minBarWidth), func(v float64) string { return significant(v) + "/s" })),
		row("p99", v.p99s.draw(max(width-nameWidth-24, minBarWidth), milliseconds)),
		{},
		row("failed", "nothing"),
	}
	if p.Wrong > 0 {
		wrong := row("failed", plural(p.Wrong, "delivery is", "deliveries are")+" lost, duplicated, out of order or corrupt")
		wrong.style = red
		lines[len(lines)-1] = wrong
	}
	for i := range lines {
		if runes := []rune(lines[i].text); len(runes) > width {
			lines[i].text = strings.TrimRight(string(runes[:width]), " ")
		}
	}
	return lines
}

// row returns a line with a name and its value.
func row(name, text string) styled {
	return styled{text: strings.TrimRight(fmt.Sprintf("%-*s%s", nameWidth, name, text), " ")}
}

// latencies formats a distribution for the screen, with a fixed width.
func latencies(l *loadtest.Latency) string {
	if l.Count == 0 {
		return fmt.Sprintf("%-45s", "-")
	}
	return fmt.Sprintf("%-15s%-15s%-15s", "p50 "+milliseconds(l.P50), "p99 "+milliseconds(l.P99), "max "+milliseconds(l.Max))
}

// bar returns a progress bar of the current phase and the time left.
func (v *view) bar(width int) string {
	p := &v.now
	done := 0.0
	switch p.Phase {
	case loadtest.Connecting:
		done = share(float64(p.Clients), float64(p.Target))
	case loadtest.Settling, loadtest.Warming, loadtest.Measuring: // these share one bar
		if gone := p.Elapsed - v.settled; p.Left > 0 {
			done = share(float64(gone), float64(gone+p.Left))
		}
	case loadtest.Draining:
		done = share(float64(p.Delivered), float64(p.Expected))
	case loadtest.Closing:
		done = 1
	}
	full := int(done * float64(width))
	text := strings.Repeat("█", full) + strings.Repeat("░", width-full) + fmt.Sprintf(" %3d %%", int(done*100))
	if p.Left > 0 {
		text += "   " + seconds(p.Left) + " left"
	}
	return text
}

// share returns part/whole, limited to 0 to 1.
func share(part, whole float64) float64 {
	if whole <= 0 {
		return 0
	}
	return min(max(part/whole, 0), 1)
}

// maxPoints is how many points a curve keeps. No terminal has more columns.
const maxPoints = 1000

// curve holds the values of a figure, one per second.
type curve struct{ points []float64 }

// add appends a point and drops the oldest one beyond maxPoints.
func (c *curve) add(v float64) {
	if len(c.points) == maxPoints {
		c.points = append(c.points[:0], c.points[1:]...)
	}
	c.points = append(c.points, v)
}

// draw returns a sparkline of the newest points, one per column, and the highest of them as text. The scale runs from 0 to that point.
func (c *curve) draw(width int, unit func(float64) string) string {
	const steps = "▁▂▃▄▅▆▇█"
	points := c.points[max(len(c.points)-width, 0):]
	highest := 0.0
	for _, v := range points {
		highest = max(highest, v)
	}
	if highest == 0 {
		return "-"
	}
	levels := []rune(steps)
	text := make([]rune, 0, width)
	for _, v := range points {
		text = append(text, levels[min(int(share(v, highest)*float64(len(levels))), len(levels)-1)])
	}
	return string(text) + "  up to " + unit(highest)
}

// addresses returns one line with the addresses, the transport, the protocol and the network of a run.
func addresses(s *loadtest.Spec) string {
	text := fmt.Sprintf("%s (%s, %s)", strings.Join(append([]string{s.URL}, s.Nodes...), ", "), s.Transport, s.Protocol)
	if s.Network != "" {
		text += " through network " + s.Network
	}
	return text
}

// describe returns a description of a run in one line.
func describe(s *loadtest.Spec) string {
	text := fmt.Sprintf("%s: %s", s.Shape, plural(s.Clients, "client", "clients"))
	switch s.Shape {
	case loadtest.Market:
		text += fmt.Sprintf(" on %s of %s channels each", thousands(s.Each), thousands(s.Channels))
		if s.Stalled > 0 {
			text += stalls(s)
		}
	case loadtest.Slow:
		text += stalls(s)
	case loadtest.Storm:
		if s.Channels > 1 {
			text += fmt.Sprintf(" on %s of %s channels each", thousands(s.Each), thousands(s.Channels))
		}
		text += ", all disconnected at once"
	case loadtest.Idle:
		return text + ", nothing published, for " + span(s.Duration)
	case loadtest.One:
	}
	pace := significant(s.Rate) + "/s"
	if s.Rate < 0 {
		pace = thousands(s.Window) + " in flight, at max rate"
	}
	return text + fmt.Sprintf("; %s B, %s, for %s", thousands(s.Bytes), pace, span(s.Duration))
}

// stalls returns a phrase on how many clients stop reading, and for how long.
func stalls(s *loadtest.Spec) string {
	text := fmt.Sprintf(", of which %s stop reading", percent(s.Stalled))
	if s.StallFor > 0 {
		text += " for " + span(s.StallFor)
	}
	return text
}

// span formats a duration of a spec.
func span(d time.Duration) string {
	text := d.String()
	if strings.HasSuffix(text, "m0s") {
		text = strings.TrimSuffix(text, "0s")
	}
	return text
}
