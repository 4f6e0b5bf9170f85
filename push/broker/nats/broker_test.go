package nats_test

import (
	"context"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/sluice-push/sluice/push/broker"
	"github.com/sluice-push/sluice/push/broker/nats"
	"github.com/sluice-push/sluice/push/pushtest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// maxPublication is what brokers of tests take.
const maxPublication = 1 << 20

// embedded opens a broker with a server of its own in a folder.
func embedded(t *testing.T, dir string) broker.Broker {
	t.Helper()
	return open(t, &nats.Options{Dir: dir})
}

func open(t *testing.T, o *nats.Options) *nats.Broker {
	t.Helper()
	o.MaxPublication = maxPublication
	o.PublishWait = 50 * time.Millisecond
	ctx, cancel := context.WithTimeout(t.Context(), pushtest.Patience)
	defer cancel()
	b, err := nats.New(ctx, o)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// TestEmbedded: the embedded server does what a broker has to do.
func TestEmbedded(t *testing.T) {
	pushtest.RunBroker(t, func(t *testing.T) pushtest.Harness {
		dir := t.TempDir()
		return pushtest.Harness{
			Broker:         embedded(t, dir),
			Durable:        true,
			MaxPublication: maxPublication,
			Reopen:         func() broker.Broker { return embedded(t, dir) },
			Recreate:       func() broker.Broker { return embedded(t, t.TempDir()) },
		}
	})
}
