package main

import (
	"context"
	"errors"
	"log/slog"
	"time"

	"github.com/sluice-push/sluice/internal/demo"
	"github.com/sluice-push/sluice/push"
)

// demoInterval is the time between two steps of the demo's feed: short, so that the latency its page shows is the way of a price and not
// its waiting for the next step.
const demoInterval = 10 * time.Millisecond

// demoTable is the channel with the last price of every symbol.
const demoTable = "quotes:all"

// runDemo publishes made-up prices until ctx ends. They go on from those that the broker still has.
func runDemo(ctx context.Context, n *node, seed uint64, log *slog.Logger) {
	feed := demo.New(seed)
	_, err := n.broker.Load(ctx, demoTable, func(p push.Publication) error {
		if p.Op != push.Set {
			return nil
		}
		return feed.Continue(p.Data)
	})
	if err != nil {
		log.Warn("the demo begins anew", "error", err)
	}
	feed.Run(ctx, publishDemo(ctx, n), &demo.Options{Interval: demoInterval, Logger: log})
}

// publishDemo publishes each tick twice: to the stream of its symbol, which has every one of them, and to the table of all symbols, which
// has the last. The page shows the table, and fills its lines from the streams.
func publishDemo(ctx context.Context, n *node) func(channel, symbol string, data []byte) error {
	return func(channel, symbol string, data []byte) error {
		p := push.Publication{Key: symbol, Data: data}
		_, streamed := n.hub.Publish(ctx, "ticks:"+symbol, p, "")
		_, shown := n.hub.Publish(ctx, channel, p, "")
		return errors.Join(streamed, shown)
	}
}
