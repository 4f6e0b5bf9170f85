package main

import (
	"fmt"
	"strings"
	"time"
)

// String is the outcome as a table in Markdown, and what was wrong.
func (o *outcome) String() string {
	var b strings.Builder
	late := o.late.Round(time.Millisecond)
	fmt.Fprintf(&b, "%d changes in %.0f s, at most %v late; %d check points\n\n", o.changes, o.took.Seconds(), late, o.points)
	b.WriteString("| client | publications, of changes | as differences | MB received | conflated | stalest row | caught up after at most | compared | |\n" +
		"| --- | --- | --- | --- | --- | --- | --- | --- | --- |\n")
	for _, f := range o.findings {
		verdict := "exact"
		if len(f.wrong) > 0 {
			verdict = "WRONG"
		}
		if f.again > 0 {
			verdict += fmt.Sprintf(", %d × begun afresh", f.again)
		}
		fmt.Fprintf(&b, "| %s | %d of %d | %d | %.2f | %.0f %% | %.2f s | %.2f s | %d | %s |\n", f.client.name(), f.received, f.published, f.differences,
			float64(f.client.bytes.Load())/1e6, 100*f.conflated(), f.stalest.Seconds(), f.caughtUp.Seconds(), f.checks, verdict)
	}
	for _, f := range o.findings {
		for _, wrong := range f.wrong {
			fmt.Fprintf(&b, "\n%s: %s", f.client.name(), wrong)
		}
	}
	return strings.TrimRight(b.String(), "\n") + "\n"
}

// conflated is the share of what was published that the client was not sent, since something newer took its place.
func (f *finding) conflated() float64 {
	if f.published == 0 {
		return 0
	}
	return max(0, 1-float64(f.news)/float64(f.published))
}
