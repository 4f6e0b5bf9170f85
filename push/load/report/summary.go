package report

import (
	"fmt"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/sluice-push/sluice/push/load"
)

// Summary is a result as text for people: what came of it as a sentence, which is one line however long, then the figures, then what is
// doubtful. Every line ends in \n.
func Summary(r *load.Result) string {
	var b strings.Builder
	fmt.Fprintf(&b, "%s\n\n", Verdict(r))
	fmt.Fprintf(&b, "%s\n%s%s\n\n", describe(&r.Spec), addresses(&r.Spec), hostLine(r.Host))
	b.WriteString(latencyTable(r))
	b.WriteString(stallTable(r))
	b.WriteString(factsOf(r).text())
	for i, p := range r.Problems {
		if i == 0 {
			b.WriteString("\nWorth knowing before these figures are believed:\n")
		}
		fmt.Fprintf(&b, "- %s\n", p)
	}
	return b.String()
}

// Verdict is the sentence with which a summary begins: who got how much of what was meant for them, and what was wrong.
func Verdict(r *load.Result) string {
	c, d := &r.Connects, &r.Deliveries
	var text string
	switch {
	case c.Clients == 0:
		return fmt.Sprintf("No client came in%s.", failures(c))
	case r.Publications.Due > 0 && r.Publications.Sent == 0:
		return fmt.Sprintf("%s connected and subscribed, but the server accepted none of %s.", plural(c.Clients, "client", "clients"),
			plural(r.Publications.Due, "publication", "publications"))
	case d.Expected == 0 && d.Sound():
		text = fmt.Sprintf("%s connected and subscribed; nothing was meant for them", plural(c.Clients, "client", "clients"))
	default:
		text = fmt.Sprintf("%s got %s of %s: %s", plural(c.Clients, "client", "clients"), thousands(d.Received),
			plural(d.Expected, "delivery", "deliveries"), wrongs(d))
	}
	if d.Told > 0 {
		text += fmt.Sprintf("; of %s more the server said that it left them out", thousands(d.Told))
	}
	if n := r.Publications.Refused; n > 0 {
		text += fmt.Sprintf("; the server refused %s", plural(n, "publication", "publications"))
	}
	if s := r.Storm; s != nil && s.Back < s.Cut {
		text += fmt.Sprintf("; %s of those that were cut did not come back", thousands(s.Cut-s.Back))
	}
	if c.Away > 0 {
		text += fmt.Sprintf("; %s of those that the network cut did not come back", thousands(c.Away))
	}
	if c.Failed > 0 {
		text += fmt.Sprintf("; %s never came in%s", plural(c.Failed, "client", "clients"), failures(c))
	}
	return text + "."
}

// Sound reports whether a result is as it should be: no delivery was lost, doubled, out of order or changed, every client came in, and came
// back from a storm or from a network that cut it, and of what was to be published the server accepted something. That it refused some,
// or told a client that it left something out, is sound: it said so.
func Sound(r *load.Result) bool {
	back := r.Storm == nil || r.Storm.Back >= r.Storm.Cut
	published := r.Publications.Due == 0 || r.Publications.Sent > 0
	return r.Deliveries.Sound() && r.Connects.Failed == 0 && r.Connects.Clients > 0 && r.Connects.Away == 0 && back && published
}

// wrongs says what was wrong with deliveries.
func wrongs(d *load.Deliveries) string {
	var parts []string
	for _, w := range []struct {
		n    uint64
		what string
	}{{d.Lost, "lost"}, {d.Duplicated, "doubled"}, {d.Disordered, "out of order"}, {d.Corrupt, "changed"}} {
		if w.n > 0 {
			parts = append(parts, thousands(w.n)+" "+w.what)
		}
	}
	if len(parts) == 0 {
		return "nothing lost, doubled, out of order or changed"
	}
	return strings.Join(parts, ", ")
}

// failures names the reason that clients met most often, when there is one.
func failures(c *load.Connects) string {
	if len(c.Reasons) == 0 {
		return ""
	}
	return ": " + reasons(c.Reasons)[0].why
}

// reason is why connections failed or ended, and how often.
type reason struct {
	why   string
	times int
}

// reasons returns them, the most frequent first.
func reasons(all map[string]int) []reason {
	var list []reason
	for why, times := range all {
		list = append(list, reason{why, times})
	}
	slices.SortFunc(list, func(a, b reason) int {
		if a.times != b.times {
			return b.times - a.times
		}
		return strings.Compare(a.why, b.why)
	})
	return list
}

func hostLine(h *load.Host) string {
	if h == nil {
		return ""
	}
	text := fmt.Sprintf("\n%s, %s", h.System, h.CPU)
	if h.Cores > 0 {
		text += ", " + plural(h.Cores, "core", "cores")
	}
	if h.Memory > 0 {
		text += ", " + binary(h.Memory)
	}
	return text + ", " + h.Toolchain
}

// latencyTable is a row for each distribution of which something was measured.
func latencyTable(r *load.Result) string {
	rows := [][]string{{"", "p50", "p90", "p99", "p99.9", "max", "mean"}}
	add := func(name string, l *load.Latency) {
		if l == nil || l.Count == 0 {
			return
		}
		row := []string{name}
		for _, v := range []float64{l.P50, l.P90, l.P99, l.P999, l.Max, l.Mean} {
			row = append(row, milliseconds(v))
		}
		rows = append(rows, row)
	}
	add("from due to delivered", &r.Latency)
	add("to the last client", &r.Last)
	add("to stalled clients", r.Stalled)
	if len(rows) == 1 {
		return ""
	}
	return table(rows) + "\n"
}

// table sets columns: the first to the left and so those that are named, the others to the right.
func table(rows [][]string, left ...int) string {
	var widths []int
	for _, row := range rows {
		for i, cell := range row {
			if i == len(widths) {
				widths = append(widths, 0)
			}
			widths[i] = max(widths[i], utf8.RuneCountInString(cell))
		}
	}
	var b strings.Builder
	for _, row := range rows {
		var line strings.Builder
		for i, cell := range row {
			gap := strings.Repeat(" ", widths[i]-utf8.RuneCountInString(cell))
			if i > 0 {
				line.WriteString("  ")
			}
			if i == 0 || slices.Contains(left, i) {
				line.WriteString(cell + gap)
			} else {
				line.WriteString(gap + cell)
			}
		}
		b.WriteString(strings.TrimRight(line.String(), " ") + "\n")
	}
	return b.String()
}

// facts are lines with a name each; a line without goes on with what was named last.
type facts [][2]string

func (f *facts) add(name, format string, args ...any) {
	*f = append(*f, [2]string{name, fmt.Sprintf(format, args...)})
}

func (f facts) text() string {
	var b strings.Builder
	for _, l := range f {
		fmt.Fprintf(&b, "%-14s%s\n", l[0], l[1])
	}
	return b.String()
}

// mostReasons is how many of the reasons why connections ended a summary names.
const mostReasons = 5

func factsOf(r *load.Result) facts {
	var f facts
	p, d, c := &r.Publications, &r.Deliveries, &r.Connects
	if p.Due > 0 || p.Sent > 0 {
		f.add("publications", "%s due, %s accepted (%s/s), %s refused, at most %s late",
			thousands(p.Due), thousands(p.Sent), significant(p.Rate), thousands(p.Refused), milliseconds(p.Late))
		f.add("deliveries", "%s, %s/s in %s s", thousands(d.Received), significant(d.PerSecond), significant(r.Seconds))
	}
	f.add("clients", "%s in %s s, %s failed, %s cut", thousands(c.Clients), significant(c.Seconds), thousands(c.Failed), thousands(c.Cut))
	if c.Resets > 0 {
		f.add("", "%s connections reset by the network, %s not back", thousands(c.Resets), plural(c.Away, "client", "clients"))
	}
	for i, why := range reasons(c.Reasons) {
		if i == mostReasons {
			f.add("", "and for %s", plural(len(c.Reasons)-mostReasons, "other reason", "other reasons"))
			break
		}
		f.add("", "%s × %s", thousands(why.times), why.why)
	}
	if s := r.Storm; s != nil {
		f.add("storm", "%s cut, %s back after %s s, all caught up after %s s", thousands(s.Cut), thousands(s.Back),
			significant(s.BackAfter), significant(s.CaughtUp))
		f.add("", "%s resumed with nothing missed, %s began afresh", thousands(s.Resumed), thousands(s.Fresh))
	}
	if r.Server == nil {
		f.add("server", "not measured: its processes are not known, or not on this host")
	}
	f.usage("server", r.Server)
	f.usage("generator", r.Generator)
	for _, u := range []*load.Usage{r.Server, r.Generator} {
		if u != nil && u.Sockets > 0 {
			f.add("sockets", "at most %s of the kernel's memory, for all connections of this host", binary(u.Sockets))
			break
		}
	}
	return f
}

func (f *facts) usage(name string, u *load.Usage) {
	if u == nil {
		return
	}
	each := ""
	if u.PerDelivery > 0 {
		each = fmt.Sprintf(", %s µs a delivery", significant(u.PerDelivery))
	}
	f.add(name, "%s s of CPU%s, in %s", significant(u.CPU), each, plural(u.Processes, "process", "processes"))
	perClient := ""
	if u.PerClient > 0 {
		perClient = fmt.Sprintf(" (%s each)", binary(u.PerClient))
	}
	f.add("", "memory %s, with clients %s%s, at most %s, at the end %s",
		binary(u.Before), binary(u.Idle), perClient, binary(u.Peak), binary(u.After))
}
