package report

import (
	"fmt"
	"strings"
	"time"

	"github.com/sluice-push/sluice/push/load"
)

// view makes text of a run's progress. It keeps one point a second for its curves and knows no terminal.
type view struct {
	spec    load.Spec
	now     load.Progress
	settled time.Duration // elapsed time when connecting was over, 0 before
	second  time.Duration // elapsed time of the next point
	rates   curve         // deliveries a second
	tails   curve         // p99 of a second
}

// styled is a line of the screen.
type styled struct {
	text  string
	style string // escape sequence, empty for none
}

// add takes a look at the run.
func (v *view) add(p load.Progress) {
	v.now = p
	if v.settled == 0 && p.Phase != load.Connecting {
		v.settled = p.Elapsed
	}
	if p.Elapsed < v.second || p.Phase == load.Connecting {
		return
	}
	v.second = p.Elapsed - p.Elapsed%time.Second + time.Second
	v.rates.add(p.Delivering)
	v.tails.add(p.Recent.P99)
}

// line is the progress in one line.
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
		parts = append(parts, fmt.Sprintf("WRONG %s", thousands(p.Wrong)))
	}
	return strings.Join(parts, "  ")
}

// The screen's columns: names, then what they name.
const (
	nameWidth = 12
	leastBar  = 10
)

// screen is the progress as lines that fit into a width.
func (v *view) screen(width int) []styled {
	p := &v.now
	lines := []styled{
		{text: "sluice bench   " + describe(&v.spec), style: bold},
		{text: addresses(&v.spec)},
		{},
		row(string(p.Phase), v.bar(max(width-nameWidth-28, leastBar))),
		{},
		row("clients", fmt.Sprintf("%s of %s", thousands(p.Clients), thousands(p.Target))),
		row("published", fmt.Sprintf("%-28s  %s/s", thousands(p.Published), significant(p.Publishing))),
		row("delivered", fmt.Sprintf("%-28s  %s/s", thousands(p.Delivered)+" of "+thousands(p.Expected), significant(p.Delivering))),
		row("latency", latencies(&p.Recent)+"last second"),
		row("", latencies(&p.Latency)+"so far"),
		{},
		row("deliveries", v.rates.draw(max(width-nameWidth-24, leastBar), func(v float64) string { return significant(v) + "/s" })),
		row("p99", v.tails.draw(max(width-nameWidth-24, leastBar), milliseconds)),
		{},
		row("wrong", "nothing"),
	}
	if p.Wrong > 0 {
		wrong := row("wrong", plural(p.Wrong, "delivery is", "deliveries are")+" lost, doubled, out of order or changed")
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

func row(name, text string) styled {
	return styled{text: strings.TrimRight(fmt.Sprintf("%-*s%s", nameWidth, name, text), " ")}
}

// latencies is what the screen shows of a distribution.
func latencies(l *load.Latency) string {
	if l.Count == 0 {
		return fmt.Sprintf("%-45s", "-")
	}
	return fmt.Sprintf("%-15s%-15s%-15s", "p50 "+milliseconds(l.P50), "p99 "+milliseconds(l.P99), "max "+milliseconds(l.Max))
}

// bar shows how far the phase has come, and what is left.
func (v *view) bar(width int) string {
	p := &v.now
	done := 0.0
	switch p.Phase {
	case load.Connecting:
		done = share(float64(p.Clients), float64(p.Target))
	case load.Settling, load.Warming, load.Measuring: // one stretch of time
		if gone := p.Elapsed - v.settled; p.Left > 0 {
			done = share(float64(gone), float64(gone+p.Left))
		}
	case load.Draining:
		done = share(float64(p.Delivered), float64(p.Expected))
	case load.Closing:
		done = 1
	}
	full := int(done * float64(width))
	text := strings.Repeat("█", full) + strings.Repeat("░", width-full) + fmt.Sprintf(" %3d %%", int(done*100))
	if p.Left > 0 {
		text += "   " + seconds(p.Left) + " left"
	}
	return text
}

// share is a part of a whole, between 0 and 1.
func share(part, whole float64) float64 {
	if whole <= 0 {
		return 0
	}
	return min(max(part/whole, 0), 1)
}

// mostPoints is how much of the past a curve keeps: more than any terminal is wide.
const mostPoints = 1000

// curve is a value that changes from second to second.
type curve struct{ points []float64 }

func (c *curve) add(v float64) {
	if len(c.points) == mostPoints {
		c.points = append(c.points[:0], c.points[1:]...)
	}
	c.points = append(c.points, v)
}

// draw shows the newest points, one a column, from 0 to the highest of them, and says what that is.
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

// addresses says where clients connect, and through what, in a line.
func addresses(s *load.Spec) string {
	text := strings.Join(append([]string{s.URL}, s.Nodes...), ", ")
	if s.Network != "" {
		text += " through network " + s.Network
	}
	return text
}

// describe says what a run does, in a line.
func describe(s *load.Spec) string {
	text := fmt.Sprintf("%s: %s", s.Shape, plural(s.Clients, "client", "clients"))
	switch s.Shape {
	case load.Market:
		text += fmt.Sprintf(" on %s of %s channels each", thousands(s.Each), thousands(s.Channels))
		if s.Stalled > 0 {
			text += stalls(s)
		}
	case load.Slow:
		text += stalls(s)
	case load.Storm:
		text += ", all cut at once"
	case load.Idle:
		return text + ", nothing published, for " + span(s.Duration)
	case load.One:
	}
	pace := significant(s.Rate) + "/s"
	if s.Rate < 0 {
		pace = thousands(s.Window) + " at a time, as fast as all have them"
	}
	return text + fmt.Sprintf("; %s B, %s, for %s", thousands(s.Bytes), pace, span(s.Duration))
}

// stalls says which clients stop reading, and for how long.
func stalls(s *load.Spec) string {
	text := fmt.Sprintf(", of which %s stop reading", percent(s.Stalled))
	if s.StallFor > 0 {
		text += " for " + span(s.StallFor)
	}
	return text
}

// span writes how long something is meant to take.
func span(d time.Duration) string {
	text := d.String()
	if strings.HasSuffix(text, "m0s") {
		text = strings.TrimSuffix(text, "0s")
	}
	return text
}
