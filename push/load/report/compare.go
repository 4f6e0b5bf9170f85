package report

import (
	"fmt"
	"math"
	"reflect"
	"slices"
	"strings"
	"time"

	"github.com/sluice-push/sluice/push/load"
)

// Compare sets two results side by side, as text for people: what was wrong with either, what the runs were asked for differently, and
// the figures, with how much b is of a. A difference is called better or worse only from 5 % on, and only of figures that enough was
// measured for; of times only when neither host did other things as well. Two single runs say no more than that. Neither result is changed.
func Compare(a, b load.Result) string {
	var t strings.Builder
	for _, side := range []struct {
		name string
		r    *load.Result
	}{{"A", &a}, {"B", &b}} {
		fmt.Fprintf(&t, "%s  %s  %s\n   %s\n", side.name, side.r.Began.UTC().Format(time.DateTime), side.r.Version, Verdict(side.r))
		if !Sound(side.r) {
			fmt.Fprintf(&t, "   Its figures are those of a run that failed.\n")
		}
		for _, p := range side.r.Problems {
			fmt.Fprintf(&t, "   - %s\n", p)
		}
	}
	if rows := differences(&a.Spec, &b.Spec); len(rows) > 0 {
		warning := "The runs were asked for different things, and what differs below may come from that:"
		if !slices.ContainsFunc(rows, func(row []string) bool { return !strings.HasSuffix(row[0], "url") }) {
			warning = "The runs were against different servers:"
		}
		t.WriteString("\n" + warning + "\n" + table(rows, 1, 2))
	}
	if rows := hostDifferences(a.Host, b.Host); len(rows) > 0 {
		t.WriteString("\nThe runs were on different hosts, so their times say little about each other:\n" + table(rows, 1, 2))
	}
	rows := [][]string{{"", "A", "B", "B/A", ""}}
	noisy := isNoisy(a.Host) || isNoisy(b.Host)
	for _, f := range figuresOf(&a, &b) {
		f.noisy = noisy && f.timed
		if f.a != 0 || f.b != 0 {
			rows = append(rows, []string{f.name, f.unit(f.a), f.unit(f.b), f.ratio(), f.opinion()})
		}
	}
	if len(rows) > 1 {
		t.WriteString("\n" + table(rows, 4))
		t.WriteString("\n")
		if noisy {
			t.WriteString("A host did other things as well, so nothing is said about times.\n")
		}
		fmt.Fprintf(&t, "One run each: below %s no difference is claimed. Several runs, taken in turns, say more.\n", percent(claim))
	}
	return t.String()
}

// differences is a table of the fields of two specs that are not equal, by their names in JSON.
func differences(a, b *load.Spec) [][]string {
	var rows [][]string
	va, vb := reflect.ValueOf(a).Elem(), reflect.ValueOf(b).Elem()
	for i := range va.NumField() {
		name, _, _ := strings.Cut(va.Type().Field(i).Tag.Get("json"), ",")
		if name == "-" || reflect.DeepEqual(va.Field(i).Interface(), vb.Field(i).Interface()) {
			continue
		}
		name = strings.TrimSuffix(name, "_ns")
		rows = append(rows, []string{"  " + name, fmt.Sprint(va.Field(i)), "→ " + fmt.Sprint(vb.Field(i))})
	}
	return rows
}

// hostDifferences is the same of what makes a host fast or slow.
func hostDifferences(a, b *load.Host) [][]string {
	if a == nil || b == nil {
		return nil
	}
	var rows [][]string
	for _, f := range []struct{ name, a, b string }{
		{"name", a.Name, b.Name},
		{"system", a.System, b.System},
		{"cpu", a.CPU, b.CPU},
		{"cores", fmt.Sprint(a.Cores), fmt.Sprint(b.Cores)},
		{"memory", binary(a.Memory), binary(b.Memory)},
		{"toolchain", a.Toolchain, b.Toolchain},
	} {
		if f.a != f.b {
			rows = append(rows, []string{"  " + f.name, f.a, "→ " + f.b})
		}
	}
	return rows
}

// figure is one that two results have.
type figure struct {
	name string
	a, b float64
	unit func(float64) string
	good int // 1: the more, the better; -1: the less; 0: neither

	few   bool // too little was measured for an opinion
	timed bool // a time, or depends on times
	noisy bool // and these are not to be trusted
}

// isNoisy reports whether a host did other things than the run.
func isNoisy(h *load.Host) bool {
	return h != nil && (h.Stolen > muchStolen || h.Load > muchLoad*float64(h.Cores))
}

// What a claim needs.
const (
	claim = 0.05 // the least difference that is called one
	tail  = 10   // how many deliveries have to be beyond a percentile
)

// ratio is how much b is of a.
func (f *figure) ratio() string {
	if f.a <= 0 || f.b < 0 { // memory may have become less
		return "-"
	}
	return "× " + fmt.Sprintf("%.2f", f.b/f.a)
}

// opinion says whether b is better.
func (f *figure) opinion() string {
	switch {
	case f.few:
		return "too few for an opinion"
	case f.good == 0, f.noisy:
		return ""
	case math.Abs(f.b-f.a) < claim*max(math.Abs(f.a), math.Abs(f.b)):
		return "about the same"
	case (f.b > f.a) == (f.good > 0):
		return "better"
	}
	return "worse"
}

// figuresOf are the figures of two results that can be compared.
func figuresOf(a, b *load.Result) []figure {
	perSecond := func(v float64) string { return significant(v) + "/s" }
	inSeconds := func(v float64) string { return significant(v) + " s" }
	number := func(v float64) string { return thousands(int64(v)) }
	var all []figure
	add := func(name string, va, vb float64, unit func(float64) string, good int) {
		all = append(all, figure{name: name, a: va, b: vb, unit: unit, good: good})
	}
	addTime := func(name string, va, vb float64, unit func(float64) string, good int) {
		all = append(all, figure{name: name, a: va, b: vb, unit: unit, good: good, timed: true})
	}
	add("deliveries wrong", wrong(a), wrong(b), number, -1)
	add("clients failed", float64(a.Connects.Failed), float64(b.Connects.Failed), number, -1)
	add("connections cut", float64(a.Connects.Cut), float64(b.Connects.Cut), number, -1)
	add("publications refused", float64(a.Publications.Refused), float64(b.Publications.Refused), number, -1)
	add("deliveries left out", float64(a.Deliveries.Told), float64(b.Deliveries.Told), number, -1)
	addTime("connecting", a.Connects.Seconds, b.Connects.Seconds, inSeconds, -1)
	more := 1
	if a.Spec.Rate != b.Spec.Rate || a.Spec.Clients != b.Spec.Clients {
		more = 0 // who was asked for more has more
	}
	addTime("publications", a.Publications.Rate, b.Publications.Rate, perSecond, more)
	addTime("deliveries", a.Deliveries.PerSecond, b.Deliveries.PerSecond, perSecond, more)
	all = append(all, latencyFigures("latency", &a.Latency, &b.Latency)...)
	all = append(all, latencyFigures("last client", &a.Last, &b.Last)...)
	if a.Storm != nil && b.Storm != nil {
		addTime("storm: back", a.Storm.BackAfter, b.Storm.BackAfter, inSeconds, -1)
		addTime("storm: caught up", a.Storm.CaughtUp, b.Storm.CaughtUp, inSeconds, -1)
		add("storm: began afresh", float64(a.Storm.Fresh), float64(b.Storm.Fresh), number, -1)
	}
	all = append(all, usageFigures("server", a.Server, b.Server, -1)...)
	return append(all, usageFigures("generator", a.Generator, b.Generator, 0)...) // which is not what is on trial
}

// wrong is how many deliveries were not as they should be.
func wrong(r *load.Result) float64 {
	d := &r.Deliveries
	return float64(d.Lost + d.Duplicated + d.Disordered + d.Corrupt)
}

// latencyFigures are those of a distribution. Its far end is a matter of few deliveries, and the highest one of luck.
func latencyFigures(name string, a, b *load.Latency) []figure {
	least := min(a.Count, b.Count)
	of := func(what string, va, vb float64, needs uint64) figure {
		return figure{name: name + " " + what, a: va, b: vb, unit: milliseconds, good: -1, few: least < needs, timed: true}
	}
	highest := of("max", a.Max, b.Max, 0)
	highest.good = 0
	return []figure{
		of("p50", a.P50, b.P50, 2*tail),
		of("p90", a.P90, b.P90, 10*tail),
		of("p99", a.P99, b.P99, 100*tail),
		of("p99.9", a.P999, b.P999, 1000*tail),
		highest,
	}
}

// usageFigures are those of processes.
func usageFigures(name string, a, b *load.Usage, good int) []figure {
	if a == nil || b == nil {
		return nil
	}
	bytes := func(v float64) string { return binary(int64(v)) }
	return []figure{
		{name: name + ": CPU", a: a.CPU, b: b.CPU, unit: func(v float64) string { return significant(v) + " s" }, good: good, timed: true},
		{
			name: name + ": CPU a delivery", a: a.PerDelivery, b: b.PerDelivery, good: good, timed: true,
			unit: func(v float64) string { return significant(v) + " µs" },
		},
		{name: name + ": memory a client", a: float64(a.PerClient), b: float64(b.PerClient), unit: bytes, good: good},
		{name: name + ": memory at most", a: float64(a.Peak), b: float64(b.Peak), unit: bytes, good: good},
	}
}
