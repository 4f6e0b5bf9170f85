package main

import (
	"fmt"
	"strings"
	"time"
)

// String returns the result as a table in Markdown, followed by the errors.
func (o *result) String() string {
	var b strings.Builder
	maxLag := o.maxLag.Round(time.Millisecond)
	fmt.Fprintf(&b, "%d changes in %.0f s, up to %v late; %d check points\n\n", o.changes, o.took.Seconds(), maxLag, o.points)
	b.WriteString("| client | publications, of changes | as deltas | MB received | conflated | stalest row | caught up after at most | compared | |\n" +
		"| --- | --- | --- | --- | --- | --- | --- | --- | --- |\n")
	for _, f := range o.results {
		verdict := "exact"
		if len(f.wrong) > 0 {
			verdict = "WRONG"
		}
		if f.resubscribed > 0 {
			verdict += fmt.Sprintf(", %d × started over", f.resubscribed)
		}
		fmt.Fprintf(&b, "| %s | %d of %d | %d | %.2f | %.0f %% | %.2f s | %.2f s | %d | %s |\n", f.client.name(), f.received, f.published, f.deltas,
			float64(f.client.bytes.Load())/1e6, 100*f.conflated(), f.maxStaleness.Seconds(), f.caughtUp.Seconds(), f.checks, verdict)
	}
	for _, f := range o.results {
		for _, wrong := range f.wrong {
			fmt.Fprintf(&b, "\n%s: %s", f.client.name(), wrong)
		}
	}
	return strings.TrimRight(b.String(), "\n") + "\n"
}

// conflated returns the share of the published changes that the client was not sent, because newer ones replaced them.
func (f *clientResult) conflated() float64 {
	if f.published == 0 {
		return 0
	}
	return max(0, 1-float64(f.newChanges)/float64(f.published))
}
