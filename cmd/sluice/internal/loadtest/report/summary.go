package report

import (
	"fmt"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/sluice-push/sluice/cmd/sluice/internal/loadtest"
)

// Summary returns a result as text. The first line is the verdict, however long. The figures and then the problems follow. Every line ends in \n.
func Summary(r *loadtest.Result) string {
	var b strings.Builder
	fmt.Fprintf(&b, "%s\n\n", Verdict(r))
	fmt.Fprintf(&b, "%s\n%s%s\n\n", describe(&r.Spec), addresses(&r.Spec), hostLine(r.Host))
	b.WriteString(latencyTable(r))
	b.WriteString(stallTable(r))
	b.WriteString(factsOf(r).text())
	for i, p := range r.Problems {
		if i == 0 {
			b.WriteString("\nWarnings:\n")
		}
		fmt.Fprintf(&b, "- %s\n", p)
	}
	return b.String()
}

// Verdict returns the sentence that a summary begins with. It says how many clients got how many of the expected deliveries, and what was wrong.
func Verdict(r *loadtest.Result) string {
	c, d := &r.Connects, &r.Deliveries
	var text string
	switch {
	case c.Clients == 0:
		return fmt.Sprintf("No client connected%s.", failures(c))
	case r.Publications.Due > 0 && r.Publications.Sent == 0:
		return fmt.Sprintf("%s connected and subscribed, but the server accepted none of %s.", plural(c.Clients, "client", "clients"),
			plural(r.Publications.Due, "publication", "publications"))
	case d.Expected == 0 && d.Sound():
		text = fmt.Sprintf("%s connected and subscribed; no deliveries were expected", plural(c.Clients, "client", "clients"))
	default:
		text = fmt.Sprintf("%s got %s of %s: %s", plural(c.Clients, "client", "clients"), thousands(d.Received),
			plural(d.Expected, "delivery", "deliveries"), wrongs(d))
	}
	if d.Announced > 0 {
		text += fmt.Sprintf("; the server reported %s more as skipped", thousands(d.Announced))
	}
	if n := r.Publications.Refused; n > 0 {
		text += fmt.Sprintf("; the server refused %s", plural(n, "publication", "publications"))
	}
	if s := r.Storm; s != nil && s.Back < s.Cut {
		text += fmt.Sprintf("; %s of the disconnected clients did not reconnect", thousands(s.Cut-s.Back))
	}
	if c.NotRejoined > 0 {
		text += fmt.Sprintf("; %s of the clients that the network reset did not reconnect", thousands(c.NotRejoined))
	}
	if c.Failed > 0 {
		text += fmt.Sprintf("; %s failed to connect%s", plural(c.Failed, "client", "clients"), failures(c))
	}
	return text + "."
}

// Sound reports whether a run passed. No delivery may be lost, duplicated, out of order or corrupt. Every client has to be subscribed, and to
// rejoin after a storm or a reset by the network. If publications were due, the server has to accept at least one. A refused publication, or an
// announced loss, is no failure, because the server reported it.
func Sound(r *loadtest.Result) bool {
	back := r.Storm == nil || r.Storm.Back >= r.Storm.Cut
	published := r.Publications.Due == 0 || r.Publications.Sent > 0
	return r.Deliveries.Sound() && r.Connects.Failed == 0 && r.Connects.Clients > 0 && r.Connects.NotRejoined == 0 && back && published
}

// wrongs returns a phrase on what was wrong with deliveries.
func wrongs(d *loadtest.Deliveries) string {
	var parts []string
	for _, w := range []struct {
		n    uint64
		what string
	}{{d.Lost, "lost"}, {d.Duplicated, "duplicated"}, {d.Disordered, "out of order"}, {d.Corrupt, "corrupt"}} {
		if w.n > 0 {
			parts = append(parts, thousands(w.n)+" "+w.what)
		}
	}
	if len(parts) == 0 {
		return "nothing lost, duplicated, out of order or corrupt"
	}
	return strings.Join(parts, ", ")
}

// failures returns the most frequent reason of failed connections after a colon, or "" if there is none.
func failures(c *loadtest.Connects) string {
	if len(c.Reasons) == 0 {
		return ""
	}
	return ": " + reasons(c.Reasons)[0].why
}

// reason is a reason why connections failed or ended, and its number.
type reason struct {
	why   string
	times int
}

// reasons returns all reasons, the most frequent first.
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

// hostLine returns a line on the host, or "" if it is unknown.
func hostLine(h *loadtest.Host) string {
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

// latencyTable returns a table with a row for each distribution that is not empty.
func latencyTable(r *loadtest.Result) string {
	rows := [][]string{{"", "p50", "p90", "p99", "p99.9", "max", "mean"}}
	add := func(name string, l *loadtest.Latency) {
		if l == nil || l.Count == 0 {
			return
		}
		row := []string{name}
		for _, v := range []float64{l.P50, l.P90, l.P99, l.P999, l.Max, l.Mean} {
			row = append(row, milliseconds(v))
		}
		rows = append(rows, row)
	}
	add("due to delivered", &r.Latency)
	add("to the last client", &r.Last)
	add("to stalled clients", r.Stalled)
	if len(rows) == 1 {
		return ""
	}
	return table(rows) + "\n"
}

// table formats rows with aligned columns. The first column and those in left are aligned to the left, and the others to the right.
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

// facts are lines with a name each. A line without a name continues the one before it.
type facts [][2]string

// add appends a line.
func (f *facts) add(name, format string, args ...any) {
	*f = append(*f, [2]string{name, fmt.Sprintf(format, args...)})
}

// text returns the lines with aligned names.
func (f facts) text() string {
	var b strings.Builder
	for _, l := range f {
		fmt.Fprintf(&b, "%-14s%s\n", l[0], l[1])
	}
	return b.String()
}

// maxReasons is how many reasons why connections failed or ended a summary names.
const maxReasons = 5

// factsOf returns the facts of a summary below the tables.
func factsOf(r *loadtest.Result) facts {
	var f facts
	p, d, c := &r.Publications, &r.Deliveries, &r.Connects
	if p.Due > 0 || p.Sent > 0 {
		f.add("publications", "%s due, %s accepted (%s/s), %s refused, up to %s late",
			thousands(p.Due), thousands(p.Sent), significant(p.Rate), thousands(p.Refused), milliseconds(p.Late))
		f.add("deliveries", "%s, %s/s in %s s", thousands(d.Received), significant(d.PerSecond), significant(r.Seconds))
	}
	f.add("clients", "%s in %s s, %s failed, %s disconnected", thousands(c.Clients), significant(c.Seconds), thousands(c.Failed), thousands(c.Cut))
	if c.Resets > 0 {
		how := "reset by the network"
		if r.Spec.Route {
			how = "ended, and made again by a new route"
		}
		f.add("", "%s connections %s, %s not reconnected", thousands(c.Resets), how, plural(c.NotRejoined, "client", "clients"))
	}
	for i, why := range reasons(c.Reasons) {
		if i == maxReasons {
			f.add("", "and %s", plural(len(c.Reasons)-maxReasons, "other reason", "other reasons"))
			break
		}
		f.add("", "%s × %s", thousands(why.times), why.why)
	}
	if s := r.Storm; s != nil {
		f.add("storm", "%s disconnected, %s reconnected after %s s, all caught up after %s s", thousands(s.Cut), thousands(s.Back),
			significant(s.BackAfter), significant(s.CaughtUp))
		f.add("", "%s recovered without loss, %s started over", thousands(s.Resumed), thousands(s.NotResumed))
	}
	if r.Server == nil {
		f.add("server", "not measured: its processes are unknown, or not on this host")
	}
	f.usage("server", r.Server)
	f.usage("generator", r.Generator)
	for _, u := range []*loadtest.Usage{r.Server, r.Generator} {
		if u != nil && u.Sockets > 0 {
			f.add("sockets", "up to %s of kernel memory, for all connections of this host", binary(u.Sockets))
			break
		}
	}
	return f
}

// usage appends the lines for the resources of a set of processes.
func (f *facts) usage(name string, u *loadtest.Usage) {
	if u == nil {
		return
	}
	each := ""
	if u.PerDelivery > 0 {
		each = fmt.Sprintf(", %s µs per delivery", significant(u.PerDelivery))
	}
	f.add(name, "%s s of CPU%s, in %s", significant(u.CPU), each, plural(u.Processes, "process", "processes"))
	perClient := ""
	if u.PerClient > 0 {
		perClient = fmt.Sprintf(" (%s each)", binary(u.PerClient))
	}
	f.add("", "memory %s, with clients %s%s, peak %s, at the end %s",
		binary(u.Before), binary(u.Idle), perClient, binary(u.Peak), binary(u.After))
}
