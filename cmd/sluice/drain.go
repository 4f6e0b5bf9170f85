package main

import (
	"context"
	"log/slog"
	"os"
	"os/signal"
	"syscall"
	"time"

	"github.com/sluice-push/sluice/push/config"
)

// drain prepares for the end of the node, as the configuration says, for as long as the process gets no other signal.
func (n *node) drain(ctx context.Context, o config.Shutdown, log *slog.Logger) {
	if o.Delay == 0 && o.Spread == 0 {
		return
	}
	ctx, stop := signal.NotifyContext(ctx, os.Interrupt, syscall.SIGTERM)
	defer stop()
	n.leaving.Store(true)
	log.Info("draining", "clients", n.gateway.Len(), "delay", o.Delay.String(), "spread", o.Spread.String())
	delay := time.NewTimer(time.Duration(o.Delay))
	defer delay.Stop()
	select {
	case <-delay.C:
	case <-ctx.Done():
	}
	if err := n.gateway.Drain(ctx, time.Duration(o.Spread)); err != nil {
		log.Info("another signal ends the draining", "clients", n.gateway.Len())
	}
}
