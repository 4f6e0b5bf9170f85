package nats_test

import (
	"context"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/sluice-push/sluice/push/broker"
	"github.com/sluice-push/sluice/push/broker/nats"
	"github.com/sluice-push/sluice/push/pushtest"
)

// maxPublication is the largest publication of the brokers in tests.
const maxPublication = 1 << 20

// embedded opens a broker with a server of its own in a folder.
func embedded(t *testing.T, dir string) *nats.Broker {
	t.Helper()
	return open(t, &nats.Options{Dir: dir})
}

// external opens a broker on a stand-alone server.
func external(t *testing.T, p *process) *nats.Broker {
	t.Helper()
	return open(t, &nats.Options{URL: p.url()})
}

func open(t *testing.T, o *nats.Options) *nats.Broker {
	t.Helper()
	if o.MaxPublication == 0 {
		o.MaxPublication = maxPublication
	}
	if o.PublishWait == 0 {
		o.PublishWait = time.Second
	}
	ctx, cancel := context.WithTimeout(t.Context(), pushtest.Patience)
	defer cancel()
	b, err := nats.New(ctx, o)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// TestEmbedded: a broker on an embedded server passes the suite.
func TestEmbedded(t *testing.T) {
	t.Parallel()
	pushtest.RunBroker(t, func(t *testing.T) pushtest.Harness {
		dir, copied := filepath.Join(t.TempDir(), "data"), filepath.Join(t.TempDir(), "copy")
		return pushtest.Harness{
			Broker:         embedded(t, dir),
			Durable:        true,
			MaxPublication: maxPublication,
			Reopen:         func() broker.Broker { return embedded(t, dir) },
			Recreate:       func() broker.Broker { return embedded(t, t.TempDir()) },
			Snapshot:       func() { copyFolder(t, dir, copied) },
			Rewind: func() broker.Broker {
				removeAll(t, dir)
				copyFolder(t, copied, dir)
				return embedded(t, dir)
			},
		}
	})
}

// TestExternal: a broker on a server in another process passes the suite, too. A broker cannot notice that an external store was replaced by an
// older copy while no broker was connected.
func TestExternal(t *testing.T) {
	t.Parallel()
	pushtest.RunBroker(t, func(t *testing.T) pushtest.Harness {
		p := startProcess(t, "")
		lose := func() {
			p.kill()
			removeAll(t, p.store)
			p.start()
		}
		return pushtest.Harness{
			Broker:         external(t, p),
			Durable:        true,
			MaxPublication: maxPublication,
			Reopen:         func() broker.Broker { return external(t, p) },
			Recreate: func() broker.Broker {
				lose()
				return external(t, p)
			},
			Cut:     p.proxy.cut,
			Replace: lose,
			Crash: func() broker.Broker {
				p.kill()
				p.start()
				return external(t, p)
			},
		}
	})
}

// copyFolder copies a folder as cp -a does.
func copyFolder(t *testing.T, from, to string) {
	t.Helper()
	if err := os.CopyFS(to, os.DirFS(from)); err != nil {
		t.Fatal(err)
	}
}

func removeAll(t *testing.T, dir string) {
	t.Helper()
	if err := os.RemoveAll(dir); err != nil {
		t.Fatal(err)
	}
}
