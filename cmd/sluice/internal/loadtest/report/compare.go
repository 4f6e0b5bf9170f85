package report

import (
	"fmt"
	"math"
	"reflect"
	"slices"
	"strings"
	"time"

	"github.com/sluice-push/sluice/cmd/sluice/internal/loadtest"
)

// Compare returns a comparison of two results as text. The text says what was wrong with each run and how their specs and hosts differ. It lists
// the figures of both, with the ratio of b to a.
//
// A difference is called better or worse only from 5 % on, and only if enough deliveries were measured. Times are judged only if neither host did
// other work. Two single runs do not justify more. Compare does not change the results.
func Compare(a, b loadtest.Result) string {
	var t strings.Builder
	for _, side := range []struct {
		name string
		r    *loadtest.Result
	}{{"A", &a}, {"B", &b}} {
		fmt.Fprintf(&t, "%s  %s  %s\n   %s\n", side.name, side.r.Began.UTC().Format(time.DateTime), side.r.Version, Verdict(side.r))
		if !Sound(side.r) {
			fmt.Fprintf(&t, "   The run failed.\n")
		}
		for _, p := range side.r.Problems {
			fmt.Fprintf(&t, "   - %s\n", p)
		}
	}
	if rows := differences(&a.Spec, &b.Spec); len(rows) > 0 {
		warning := "The runs have different settings, which may explain differences below:"
		if !slices.ContainsFunc(rows, func(row []string) bool { return !strings.HasSuffix(row[0], "url") }) {
			warning = "The runs used different servers:"
		}
		t.WriteString("\n" + warning + "\n" + table(rows, 1, 2))
	}
	if rows := hostDifferences(a.Host, b.Host); len(rows) > 0 {
		t.WriteString("\nThe runs used different hosts, so their times are not comparable:\n" + table(rows, 1, 2))
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
			t.WriteString("A host was busy with other work, so times are not judged.\n")
		}
		fmt.Fprintf(&t, "One run each: differences below %s are not judged. Alternate several runs for better figures.\n", percent(minDifference))
	}
	return t.String()
}

// differences returns a table of the fields in which two specs differ, by their JSON names.
func differences(a, b *loadtest.Spec) [][]string {
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

// hostDifferences returns a table of the facts in which two hosts differ.
func hostDifferences(a, b *loadtest.Host) [][]string {
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

// figure is a figure of two results.
type figure struct {
	name      string
	a, b      float64
	unit      func(float64) string
	direction int // 1: more is better; -1: less is better; 0: neither

	tooFew bool // too few deliveries for an opinion
	timed  bool // the figure is a time, or depends on one
	noisy  bool // the figure is timed, and a host did other work
}

// isNoisy reports whether a host did other work before the run, or lost much CPU time to other virtual machines during it.
func isNoisy(h *loadtest.Host) bool {
	return h != nil && (h.Stolen > maxStolen || h.Load > maxLoad*float64(h.Cores))
}

// The conditions of an opinion.
const (
	minDifference = 0.05 // the minimum relative difference
	minBeyond     = 10   // the minimum number of deliveries beyond a percentile
)

// ratio formats b/a.
func (f *figure) ratio() string {
	if f.a <= 0 || f.b < 0 { // memory per client is negative if the process shrank
		return "-"
	}
	return "× " + fmt.Sprintf("%.2f", f.b/f.a)
}

// opinion returns whether b is better than a.
func (f *figure) opinion() string {
	switch {
	case f.tooFew:
		return "too few to judge"
	case f.direction == 0, f.noisy:
		return ""
	case math.Abs(f.b-f.a) < minDifference*max(math.Abs(f.a), math.Abs(f.b)):
		return "about the same"
	case (f.b > f.a) == (f.direction > 0):
		return "better"
	}
	return "worse"
}

// figuresOf returns the figures of two results that can be compared.
func figuresOf(a, b *loadtest.Result) []figure {
	perSecond := func(v float64) string { return significant(v) + "/s" }
	inSeconds := func(v float64) string { return significant(v) + " s" }
	number := func(v float64) string { return thousands(int64(v)) }
	var all []figure
	add := func(name string, va, vb float64, unit func(float64) string, direction int) {
		all = append(all, figure{name: name, a: va, b: vb, unit: unit, direction: direction})
	}
	addTime := func(name string, va, vb float64, unit func(float64) string, direction int) {
		all = append(all, figure{name: name, a: va, b: vb, unit: unit, direction: direction, timed: true})
	}
	add("deliveries failed", wrong(a), wrong(b), number, -1)
	add("clients failed", float64(a.Connects.Failed), float64(b.Connects.Failed), number, -1)
	add("disconnects", float64(a.Connects.Cut), float64(b.Connects.Cut), number, -1)
	add("publications refused", float64(a.Publications.Refused), float64(b.Publications.Refused), number, -1)
	add("deliveries skipped", float64(a.Deliveries.Announced), float64(b.Deliveries.Announced), number, -1)
	addTime("connecting", a.Connects.Seconds, b.Connects.Seconds, inSeconds, -1)
	more := 1
	if a.Spec.Rate != b.Spec.Rate || a.Spec.Clients != b.Spec.Clients {
		more = 0 // the specs ask for different amounts
	}
	addTime("publications", a.Publications.Rate, b.Publications.Rate, perSecond, more)
	addTime("deliveries", a.Deliveries.PerSecond, b.Deliveries.PerSecond, perSecond, more)
	all = append(all, latencyFigures("latency", &a.Latency, &b.Latency)...)
	all = append(all, latencyFigures("last client", &a.Last, &b.Last)...)
	if a.Storm != nil && b.Storm != nil {
		addTime("storm: reconnected", a.Storm.BackAfter, b.Storm.BackAfter, inSeconds, -1)
		addTime("storm: caught up", a.Storm.CaughtUp, b.Storm.CaughtUp, inSeconds, -1)
		add("storm: started over", float64(a.Storm.NotResumed), float64(b.Storm.NotResumed), number, -1)
	}
	all = append(all, usageFigures("server", a.Server, b.Server, -1)...)
	return append(all, usageFigures("generator", a.Generator, b.Generator, 0)...) // no opinion: the test is of the server
}

// wrong returns how many deliveries were lost, duplicated, out of order or corrupt.
func wrong(r *loadtest.Result) float64 {
	d := &r.Deliveries
	return float64(d.Lost + d.Duplicated + d.Disordered + d.Corrupt)
}

// latencyFigures returns the figures of a distribution. High percentiles need many deliveries for an opinion. The maximum gets none, because it
// depends on a single delivery.
func latencyFigures(name string, a, b *loadtest.Latency) []figure {
	least := min(a.Count, b.Count)
	of := func(what string, va, vb float64, needs uint64) figure {
		return figure{name: name + " " + what, a: va, b: vb, unit: milliseconds, direction: -1, tooFew: least < needs, timed: true}
	}
	highest := of("max", a.Max, b.Max, 0)
	highest.direction = 0
	return []figure{
		of("p50", a.P50, b.P50, 2*minBeyond),
		of("p90", a.P90, b.P90, 10*minBeyond),
		of("p99", a.P99, b.P99, 100*minBeyond),
		of("p99.9", a.P999, b.P999, 1000*minBeyond),
		highest,
	}
}

// usageFigures returns the figures of two usages, and none if one is unknown.
func usageFigures(name string, a, b *loadtest.Usage, direction int) []figure {
	if a == nil || b == nil {
		return nil
	}
	bytes := func(v float64) string { return binary(int64(v)) }
	return []figure{
		{name: name + ": CPU", a: a.CPU, b: b.CPU, unit: func(v float64) string { return significant(v) + " s" }, direction: direction, timed: true},
		{
			name: name + ": CPU per delivery", a: a.PerDelivery, b: b.PerDelivery, direction: direction, timed: true,
			unit: func(v float64) string { return significant(v) + " µs" },
		},
		{name: name + ": memory per client", a: float64(a.PerClient), b: float64(b.PerClient), unit: bytes, direction: direction},
		{name: name + ": memory peak", a: float64(a.Peak), b: float64(b.Peak), unit: bytes, direction: direction},
	}
}
