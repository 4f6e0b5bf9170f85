package main

import (
	"context"
	"errors"
	"log/slog"
	"time"

	"github.com/sluice-push/sluice/cmd/sluice/internal/demo"
	"github.com/sluice-push/sluice/push"
	"github.com/sluice-push/sluice/push/broker"
)

// demoInterval is the time between two steps of the demo's feed. It is short, so that the latency on the page is that of the delivery and not
// the wait for the next step.
const demoInterval = 10 * time.Millisecond

// demoTable is the channel with the last price of every symbol.
const demoTable = "quotes:all"

// runDemo publishes made-up prices until ctx ends. It continues from the prices that the broker still has.
func runDemo(ctx context.Context, n *node, seed uint64, log *slog.Logger) {
	feed := demo.New(seed)
	_, err := n.broker.Load(ctx, demoTable, broker.LoadOptions{}, func(p broker.Message) error {
		if p.Op != push.Set {
			return nil
		}
		return feed.Continue(p.Data)
	})
	if err != nil {
		log.Warn("demo restarted from new prices", "error", err)
	}
	feed.Run(ctx, publishDemo(ctx, n), &demo.Options{Interval: demoInterval, Logger: log})
}

// publishDemo returns a function that publishes each tick twice: to the stream of its symbol, which keeps every tick, and to the table of all
// symbols, which keeps the last one. The page shows the table, and draws its lines from the streams.
func publishDemo(ctx context.Context, n *node) func(channel, symbol string, data []byte) error {
	return func(channel, symbol string, data []byte) error {
		p := push.Publication{Key: symbol, Data: data}
		_, streamed := n.hub.Publish(ctx, "ticks:"+symbol, p, "")
		_, shown := n.hub.Publish(ctx, channel, p, "")
		return errors.Join(streamed, shown)
	}
}
