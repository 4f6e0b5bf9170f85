package main

import (
	"context"
	"errors"
	"log/slog"
	"testing"

	"github.com/sluice-push/sluice/push/broker"
	"github.com/sluice-push/sluice/push/broker/memory"
	"github.com/sluice-push/sluice/push/hub"
)

// fickle is a broker that may not be there any more.
type fickle struct {
	*memory.Broker
	away   bool
	closed *int
}

func (f *fickle) Stats() broker.Stats { return broker.Stats{Connected: !f.away} }

func (f *fickle) Close() error { *f.closed++; return f.Broker.Close() }

// A broker that goes away while its namespaces are opened is waited for like one that was never there; one that refuses is not.
func TestBrokerGoesAwayAtStart(t *testing.T) {
	opened, closed := 0, 0
	open := func(context.Context) (nodeBroker, error) {
		if opened++; opened == 1 {
			return nil, unreachable{errors.New("nobody is there")}
		}
		return &fickle{Broker: memory.New(nil), away: opened == 2, closed: &closed}, nil
	}
	refusal := errors.New("the namespace is another there")
	hubOf := func(ctx context.Context, b nodeBroker) (*hub.Hub, error) {
		switch opened {
		case 2:
			return nil, errors.New("the connection was lost")
		case 3:
			return nil, broker.ErrBusy
		case 5:
			return nil, refusal
		}
		return hub.New(ctx, b, nil, nil)
	}
	log := slog.New(slog.DiscardHandler)
	b, h, err := openHub(t.Context(), open, log, hubOf)
	if err != nil || opened != 4 || closed != 2 {
		t.Fatalf("%v after %d attempts, %d brokers were closed", err, opened, closed)
	}
	if err := errors.Join(h.Close(), b.Close()); err != nil {
		t.Error(err)
	}
	if _, _, err := openHub(t.Context(), open, log, hubOf); !errors.Is(err, refusal) || opened != 5 || closed != 4 {
		t.Errorf("%v after %d attempts, %d brokers were closed", err, opened, closed)
	}
	opened = 0
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, _, err := openHub(ctx, open, log, hubOf); !errors.Is(err, context.Canceled) || opened != 1 {
		t.Errorf("%v after %d attempts", err, opened)
	}
}
