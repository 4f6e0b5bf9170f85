package nats_test

import (
	"strings"
	"testing"

	"github.com/sluice-push/sluice/push"
	"github.com/sluice-push/sluice/push/broker"
)

// A control message for a node with an absurd ID, which a client may have made up, does not cost the node its connection to the server.
func TestTellNobody(t *testing.T) {
	t.Parallel()
	b := embedded(t, t.TempDir())
	t.Cleanup(func() { _ = b.Close() })
	openNamespace(t, b, "a", push.Stream, push.History{Size: 10})
	for _, length := range []int{1, 1000, 20_000} {
		if err := b.Tell(t.Context(), strings.Repeat("x", length), []byte("{}")); err != nil {
			t.Errorf("%d bytes: %v", length, err)
		}
		if _, err := b.Publish(t.Context(), "a:x", push.Publication{Data: []byte("1")}, broker.PublishOptions{}); err != nil {
			t.Errorf("after %d bytes: %v", length, err)
		}
	}
	if s := b.Stats(); !s.Connected || s.Reconnects != 0 {
		t.Errorf("%+v", s)
	}
}
