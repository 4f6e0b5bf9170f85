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

// Options are the settings of [Feed.Run]. The zero value and nil mean the defaults.
type Options struct {
	// Channel is where ticks are published; {symbol} in it stands for the tick's symbol. Empty means quotes:all. The key of a publication is
	// always the symbol, so that a table has one row for each.
	Channel string
	// Interval is the time between two steps. Zero or less means 50 ms.
	Interval time.Duration
	// Ticks, if not nil, triggers a step with each time that it yields, and Interval is ignored. When Ticks is closed, Run returns.
	Ticks <-chan time.Time
	// Logger logs failed publications, at most every ten seconds. Nil discards the messages.
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

// Stats counts the ticks that Run has published.
type Stats struct {
	Published int64 // accepted ticks
	Failed    int64 // ticks that were not accepted and are lost
}

type counters struct{ published, failed atomic.Int64 }

// Stats returns the current counts. Any goroutine may call it at any time.
func (f *Feed) Stats() Stats {
	return Stats{Published: f.published.Load(), Failed: f.failed.Load()}
}

// Run publishes ticks until ctx ends. It calls publish with the channel, the key and the tick as JSON; publish owns the data. Calls do not
// overlap: during a slow call ticks accumulate, within the bounds of [Feed.Step]. If publish returns an error, that tick is lost. Run counts the
// error and logs it at most every ten seconds, and continues.
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
				o.Logger.Warn("demo feed failed to publish", "channel", channel, "failed", failed, "error", err)
			}
		}
	}
}
