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
	clientjson "github.com/sluice-push/sluice/push/protocol/json"
)

const (
	brokerTimeout = 5 * time.Second // limit of one attempt to reach an external server
	minRetryDelay = 250 * time.Millisecond
	maxRetryDelay = 10 * time.Second // between two attempts
)

// unreachable marks an error of an external broker after which another attempt makes sense.
type unreachable struct{ error }

func (u unreachable) Unwrap() error { return u.error }

// retryUnreachable calls attempt until it returns anything but an unreachable error, or until ctx ends. The pause between attempts doubles up to
// maxRetryDelay.
func retryUnreachable(ctx context.Context, log *slog.Logger, attempt func(context.Context) error) error {
	for wait := minRetryDelay; ; wait = min(2*wait, maxRetryDelay) {
		err := attempt(ctx)
		if away := new(unreachable); !errors.As(err, away) {
			return err
		}
		pause := wait/2 + rand.N(wait/2) //nolint:gosec // spread, not secrecy
		log.Error("broker unreachable, retrying", "retry_in", pause.Round(time.Millisecond), "error", err)
		timer := time.NewTimer(pause)
		select {
		case <-timer.C:
		case <-ctx.Done():
			timer.Stop()
			return ctx.Err()
		}
	}
}

// openBroker opens the broker that the configuration names. If an external server does not answer, the error is an unreachable. Errors of an
// embedded broker are not, because a retry would not help.
func openBroker(ctx context.Context, cfg *config.Config, log *slog.Logger) (broker.Broker, error) {
	if cfg.Broker.Kind == config.BrokerMemory {
		return memory.New(&memory.Options{MaxPublication: publicationBytes(cfg)}), nil
	}
	o := brokerOptions(cfg, log)
	if o.Credentials != "" {
		if _, err := os.Stat(o.Credentials); err != nil {
			return nil, fmt.Errorf("broker.nats.credentials: %w", err)
		}
	}
	if o.URL != "" {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, brokerTimeout)
		defer cancel()
	}
	b, err := nats.New(ctx, o)
	switch {
	case err == nil:
		return b, nil
	case o.URL == "":
		return nil, fmt.Errorf("embedded broker in data folder %s: %w; setting data or --data chooses another folder", cfg.Data, err)
	}
	return nil, unreachable{err}
}

// isUnavailable reports whether an error means that the broker has gone away or is busy, and not that it refused the request.
func isUnavailable(b broker.Broker, err error) bool {
	return err != nil && (!b.Stats().Connected || errors.Is(err, broker.ErrBusy) || errors.Is(err, context.DeadlineExceeded))
}

// openHub opens a broker and a hub on it. It tries again if an external broker goes away before the hub is ready.
func openHub(
	ctx context.Context, open func(context.Context) (broker.Broker, error), log *slog.Logger, hubOf func(context.Context, broker.Broker) (*hub.Hub, error),
) (b broker.Broker, h *hub.Hub, err error) {
	err = retryUnreachable(ctx, log, func(ctx context.Context) error {
		if b, err = open(ctx); err != nil {
			return err
		}
		if h, err = hubOf(ctx, b); err == nil {
			return nil
		}
		if isUnavailable(b, err) {
			err = unreachable{err}
		}
		return errors.Join(err, b.Close())
	})
	if err != nil {
		return nil, nil, err
	}
	return b, h, nil
}

// publicationBytes returns the size of the largest publication that a broker has to store: the longest data, and 64 KiB for the key, the tags
// and the publisher's client information.
func publicationBytes(cfg *config.Config) int { return cfg.Limits.MostMessageBytes() + 64<<10 }

func brokerOptions(cfg *config.Config, log *slog.Logger) *nats.Options {
	b := &cfg.Broker.NATS
	o := &nats.Options{
		URL:            b.URL,
		Credentials:    b.Credentials,
		Replicas:       b.Replicas,
		Dir:            cfg.Data,
		Listen:         b.Listen,
		Sync:           time.Duration(b.Sync),
		MaxStore:       int64(b.MaxStore),
		MaxPublication: publicationBytes(cfg),
		Check:          jsonData,
		Logger:         log,
	}
	if b.Sync == config.SyncAlways {
		o.Sync = nats.SyncAlways
	}
	return o
}

// jsonData returns data as one JSON value on one line. Data that is JSON is compacted; other text becomes a JSON string. Only programs that
// publish directly into the broker can produce such text, since publications of this node are compact JSON already.
func jsonData(data []byte) ([]byte, error) {
	compact, err := clientjson.CompactData(data)
	if err == nil {
		return compact, nil
	}
	if refused := new(clientjson.SyntaxError); errors.As(err, &refused) && refused.IsJSON {
		return nil, err // it is JSON that cannot be delivered; wrapping it in a string would hide that
	}
	if !utf8.Valid(data) {
		return nil, fmt.Errorf("data is neither JSON nor text: %w", err)
	}
	return json.Marshal(string(data))
}
