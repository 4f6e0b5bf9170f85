package demo

import (
	"context"
	"log/slog"
	"strings"
	"sync/atomic"
	"time"
)

const (
	defaultChannel  = "quotes:all"
	defaultInterval = 50 * time.Millisecond

	warnEvery = 10 * time.Second
)

// Options adjust [Feed.Run]. The zero value, and nil, mean the defaults.
type Options struct {
	// Channel is where ticks go; {symbol} in it stands for the tick's symbol. Empty means quotes:all. The key is the symbol in
	// any case, so that a table has one row for each.
	Channel string
	// Interval is the time between two steps, zero or less means 50 ms.
	Interval time.Duration
	// Ticks, when not nil, makes a step for every time that it yields, instead of Interval. When it is closed, Run ends.
	Ticks <-chan time.Time
	// Logger is told when publishing fails, at most every ten seconds. Nil discards.
	Logger *slog.Logger
}

func (o *Options) withDefaults() Options {
	var out Options
	if o != nil {
		out = *o
	}
	if out.Channel == "" {
		out.Channel = defaultChannel
	}
	if out.Interval <= 0 {
		out.Interval = defaultInterval
	}
	if out.Logger == nil {
		out.Logger = slog.New(slog.DiscardHandler)
	}
	return out
}

// Stats counts what Run published.
type Stats struct {
	Published int64 // ticks that were accepted
	Failed    int64 // ticks that were not, and are lost
}

type counters struct{ published, failed atomic.Int64 }

// Stats returns the counts up to now. It may be called at any time by any goroutine.
func (f *Feed) Stats() Stats {
	return Stats{Published: f.published.Load(), Failed: f.failed.Load()}
}

// Run publishes ticks until ctx ends: channel, key and the tick as JSON, which belongs to publish and is not touched again. One
// call at a time is made; while it takes its time, ticks gather as [Feed.Step] says. An error of publish loses that tick: it is
// counted, logged now and then, and never ends the feed.
func (f *Feed) Run(ctx context.Context, publish func(channel, key string, data []byte) error, opts *Options) {
	o := opts.withDefaults()
	ticks := o.Ticks
	if ticks == nil {
		t := time.NewTicker(o.Interval)
		defer t.Stop()
		ticks = t.C
	}
	var warned time.Time
	for {
		var now time.Time
		select {
		case <-ctx.Done():
			return
		case t, open := <-ticks:
			if !open {
				return
			}
			now = t
		}
		for _, t := range f.Step(now) {
			if ctx.Err() != nil {
				return
			}
			channel := strings.ReplaceAll(o.Channel, "{symbol}", t.Symbol)
			err := publish(channel, t.Symbol, t.AppendJSON(nil))
			if err == nil {
				f.published.Add(1)
				continue
			}
			failed := f.failed.Add(1)
			if warned.IsZero() || now.Sub(warned) >= warnEvery {
				warned = now
				o.Logger.Warn("demo feed cannot publish", "channel", channel, "failed", failed, "error", err)
			}
		}
	}
}
