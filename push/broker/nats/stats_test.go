package nats_test

import (
	"testing"

	"github.com/sluice-push/sluice/push"
	"github.com/sluice-push/sluice/push/broker"
)

// Stats reports the stored bytes, and no pending publications once all are acknowledged.
func TestStats(t *testing.T) {
	t.Parallel()
	b := embedded(t, t.TempDir())
	t.Cleanup(func() { _ = b.Close() })
	openNamespace(t, b, "a", push.Stream, push.History{Size: 10})
	before := b.Stats()
	if before.Kind != "nats" || !before.Connected || before.Reconnects != 0 || before.Pending != 0 {
		t.Errorf("%+v", before)
	}
	for range 5 {
		if _, err := b.Publish(t.Context(), "a:x", push.Publication{Data: make([]byte, 1000)}, broker.PublishOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	if after := b.Stats(); after.Stored < before.Stored+5000 || after.Pending != 0 {
		t.Errorf("%+v after %+v", after, before)
	}
	if err := b.Close(); err != nil {
		t.Fatal(err)
	}
	if s := b.Stats(); s.Connected {
		t.Errorf("connected after Close: %+v", s)
	}
}
