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

	"github.com/sluice-push/sluice/push/broker"
	"github.com/sluice-push/sluice/push/broker/memory"
	"github.com/sluice-push/sluice/push/broker/nats"
	"github.com/sluice-push/sluice/push/config"
	"github.com/sluice-push/sluice/push/hub"
	"github.com/sluice-push/sluice/push/protocol"
)

const (
	brokerPatience = 5 * time.Second // for one attempt to reach an external server
	leastWait      = 250 * time.Millisecond
	mostWait       = 10 * time.Second // between two attempts
)

// unreachable is an error for which an external broker is asked again.
type unreachable struct{ error }

func (u unreachable) Unwrap() error { return u.error }

// persist calls attempt until it succeeds, ctx ends, or what is wrong is not that the broker cannot be reached.
func persist(ctx context.Context, log *slog.Logger, attempt func(context.Context) error) error {
	for wait := leastWait; ; wait = min(2*wait, mostWait) {
		err := attempt(ctx)
		if away := new(unreachable); !errors.As(err, away) {
			return err
		}
		pause := wait/2 + rand.N(wait/2) //nolint:gosec // spread, not secrecy
		log.Error("the broker cannot be reached; trying again", "in", pause.Round(time.Millisecond), "error", err)
		timer := time.NewTimer(pause)
		select {
		case <-timer.C:
		case <-ctx.Done():
			timer.Stop()
			return ctx.Err()
		}
	}
}

// openBroker opens the broker that the configuration names. That an external server does not answer is unreachable; whatever is wrong with an
// embedded one has to be mended first.
func openBroker(ctx context.Context, cfg *config.Config, log *slog.Logger) (nodeBroker, error) {
	if cfg.Broker.Kind == config.BrokerMemory {
		return memory.New(&memory.Options{MaxPublication: publicationBytes(cfg)}), nil
	}
	o := brokerOptions(cfg, log)
	if o.Credentials != "" {
		if _, err := os.Stat(o.Credentials); err != nil {
			return nil, fmt.Errorf("broker.credentials: %w", err)
		}
	}
	if o.URL != "" {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, brokerPatience)
		defer cancel()
	}
	b, err := nats.New(ctx, o)
	switch {
	case err == nil:
		return b, nil
	case o.URL == "":
		return nil, fmt.Errorf("the embedded broker in %s (setting \"data\"; --data names another folder): %w", cfg.Data, err)
	}
	return nil, unreachable{err}
}

// isAway reports whether an error of a broker is that it went away, rather than that it refused.
func isAway(b nodeBroker, err error) bool {
	return err != nil && (!b.Stats().Connected || errors.Is(err, broker.ErrBusy) || errors.Is(err, context.DeadlineExceeded))
}

// openHub opens a hub with its broker. An external broker may go away at any time until the hub is there.
func openHub(
	ctx context.Context, open func(context.Context) (nodeBroker, error), log *slog.Logger, hubOf func(context.Context, nodeBroker) (*hub.Hub, error),
) (b nodeBroker, h *hub.Hub, err error) {
	err = persist(ctx, log, func(ctx context.Context) error {
		if b, err = open(ctx); err != nil {
			return err
		}
		if h, err = hubOf(ctx, b); err == nil {
			return nil
		}
		if isAway(b, err) {
			err = unreachable{err}
		}
		return errors.Join(err, b.Close())
	})
	if err != nil {
		return nil, nil, err
	}
	return b, h, nil
}

// publicationBytes is the largest publication that a broker has to store: keys, tags and who published come on top of the longest data.
func publicationBytes(cfg *config.Config) int { return int(cfg.Limits.MessageBytes) + 64<<10 }

func brokerOptions(cfg *config.Config, log *slog.Logger) *nats.Options {
	b := &cfg.Broker
	o := &nats.Options{
		URL:            b.URL,
		Credentials:    b.Credentials,
		Replicas:       b.Replicas,
		Dir:            cfg.Data,
		Listen:         b.Listen,
		Sync:           time.Duration(b.Sync),
		MaxStore:       int64(b.MaxStore),
		MaxPublication: publicationBytes(cfg),
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
