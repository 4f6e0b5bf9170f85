package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"os"
	"time"
	"unicode/utf8"

	"github.com/sluice-push/sluice/push/broker/memory"
	"github.com/sluice-push/sluice/push/broker/nats"
	"github.com/sluice-push/sluice/push/config"
	"github.com/sluice-push/sluice/push/protocol"
)

const (
	brokerPatience = 5 * time.Second // for one attempt to reach an external server
	leastWait      = 250 * time.Millisecond
	mostWait       = 10 * time.Second // between two attempts
)

// openBroker opens the broker that the configuration names. For an external server it waits, until ctx ends; whatever is wrong with
// an embedded one has to be mended first.
func openBroker(ctx context.Context, cfg *config.Config, log *slog.Logger) (nodeBroker, error) {
	if cfg.Broker.Kind == config.BrokerMemory {
		return memory.New(nil), nil
	}
	o := brokerOptions(cfg, log)
	if o.Credentials != "" {
		if _, err := os.Stat(o.Credentials); err != nil {
			return nil, fmt.Errorf("broker.credentials: %w", err)
		}
	}
	for wait := leastWait; ; wait = min(2*wait, mostWait) {
		b, err := tryBroker(ctx, o)
		if err == nil {
			return b, nil
		}
		if o.URL == "" {
			return nil, fmt.Errorf("the embedded broker in %s (setting \"data\"; --data names another folder): %w", cfg.Data, err)
		}
		pause := wait/2 + rand.N(wait/2) //nolint:gosec // spread, not secrecy
		log.Error("the broker cannot be reached; trying again", "in", pause.Round(time.Millisecond), "error", err)
		timer := time.NewTimer(pause)
		select {
		case <-timer.C:
		case <-ctx.Done():
			timer.Stop()
			return nil, ctx.Err()
		}
	}
}

func tryBroker(ctx context.Context, o *nats.Options) (*nats.Broker, error) {
	if o.URL != "" {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, brokerPatience)
		defer cancel()
	}
	return nats.New(ctx, o)
}

func brokerOptions(cfg *config.Config, log *slog.Logger) *nats.Options {
	b := &cfg.Broker
	o := &nats.Options{
		URL:         b.URL,
		Credentials: b.Credentials,
		Replicas:    b.Replicas,
		Dir:         cfg.Data,
		Listen:      b.Listen,
		Sync:        time.Duration(b.Sync),
		MaxStore:    int64(b.MaxStore),
		// Keys and tags come on top of the longest message.
		MaxPublication: int(cfg.Limits.MessageBytes) + 64<<10,
		Check:          presentable,
		Logger:         log,
	}
	if b.Sync == config.SyncAlways {
		o.Sync = nats.SyncAlways
	}
	return o
}

// presentable returns data as clients can be given it: one JSON value on one line. Publications of this node are that already;
// programs that publish into the broker themselves may write what they like, and then it becomes a JSON string.
func presentable(data []byte) ([]byte, error) {
	compact, err := protocol.CompactData(data)
	if err == nil {
		return compact, nil
	}
	if refused := new(protocol.SyntaxError); errors.As(err, &refused) && refused.IsJSON {
		return nil, err // a string would hide what it is
	}
	if !utf8.Valid(data) {
		return nil, fmt.Errorf("it is neither JSON nor text: %w", err)
	}
	return json.Marshal(string(data))
}
