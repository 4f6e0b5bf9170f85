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

// flakyBroker is a broker whose connection may be lost.
type flakyBroker struct {
	*memory.Broker
	away   bool
	closed *int
}

func (f *flakyBroker) Stats() broker.Stats { return broker.Stats{Connected: !f.away} }

func (f *flakyBroker) Close() error { *f.closed++; return f.Broker.Close() }

// If a broker goes away while its namespaces are opened, the node waits for it. If the broker refuses a namespace, the node does not wait.
func TestBrokerGoesAwayAtStart(t *testing.T) {
	opened, closed := 0, 0
	open := func(context.Context) (broker.Broker, error) {
		if opened++; opened == 1 {
			return nil, unreachable{errors.New("nobody is there")}
		}
		return &flakyBroker{Broker: memory.New(nil), away: opened == 2, closed: &closed}, nil
	}
	refusal := errors.New("the namespace is another there")
	hubOf := func(ctx context.Context, b broker.Broker) (*hub.Hub, error) {
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
