package nats_test

import (
	"errors"
	"testing"

	"github.com/sluice-push/sluice/push"
	"github.com/sluice-push/sluice/push/broker"
	"github.com/sluice-push/sluice/push/broker/nats"
)

// TestMostStored: a message that NATS cannot store, whatever the configured size, is refused as too large and not as busy.
func TestMostStored(t *testing.T) {
	t.Parallel()
	b := closing(t, open(t, &nats.Options{Dir: t.TempDir(), MaxPublication: 48 << 20}))
	openNamespace(t, b, "s", push.Stream, push.History{Size: 1})
	for _, tt := range []struct {
		size int
		want error
	}{
		{32<<20 - 2<<10, nil},
		{32 << 20, broker.ErrTooLarge},
		{40 << 20, broker.ErrTooLarge},
	} {
		p := push.Publication{Data: make([]byte, tt.size)}
		if _, err := b.Publish(t.Context(), "s:1", p, broker.PublishOptions{}); !errors.Is(err, tt.want) {
			t.Errorf("%d bytes: %v, want %v", tt.size, err, tt.want)
		}
	}
	head, err := b.Head(t.Context(), broker.Partition{Namespace: "s"})
	if err != nil || head.Offset == 0 {
		t.Errorf("nothing is stored: %v %v", head, err)
	}
}
