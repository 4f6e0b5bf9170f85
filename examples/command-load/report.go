package main

import (
	"fmt"
	"time"

	"github.com/sluice-push/sluice/examples/internal/latency"
	"github.com/sluice-push/sluice/examples/internal/run"
)

// report says how it goes, at an interval, until stop is closed.
func (l *load) report(interval time.Duration, stop <-chan struct{}) {
	ticker := time.NewTicker(interval)
	defer ticker.Stop()
	before, at := l.latency.Read(), l.now()
	for {
		select {
		case <-stop:
			return
		case <-ticker.C:
		}
		after, now := l.latency.Read(), l.now()
		text := l.line(after.Since(before), time.Duration(now-at))
		if l.pool != nil {
			text += fmt.Sprintf(", %d of %d connected", l.pool.Len(), l.clients)
		}
		run.Say("%s", text)
		before, at = after, now
	}
}

// line is one line of the report: what was counted in a time.
func (l *load) line(r *latency.Reading, d time.Duration) string {
	text := fmt.Sprintf("%.0f messages/s, p50 %s, p99 %s, answered %d", float64(r.Total)/d.Seconds(),
		latency.Short(r.Quantile(0.5)), latency.Short(r.Quantile(0.99)), l.answered.Load())
	if l.messages > 0 {
		text += fmt.Sprintf(" of %d", l.messages*uint64(l.clients))
	}
	if l.pool != nil {
		text += fmt.Sprintf(", %d reconnects, %d sent again", l.reconnects.Load(), l.again.Load())
	}
	return text
}
