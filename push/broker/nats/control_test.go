package nats_test

import (
	"errors"
	"strings"
	"testing"
	"time"

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

// A name that is too long for the server, which a gateway may have made up, is refused. It does not cost the node its connection to the server.
func TestLongNames(t *testing.T) {
	t.Parallel()
	b := embedded(t, t.TempDir())
	t.Cleanup(func() { _ = b.Close() })
	openNamespace(t, b, "a", push.Stream, push.History{Size: 10})
	ctx := t.Context()
	long := strings.Repeat("x", 100_000)
	for name, call := range map[string]func() error{
		"put a lease":  func() error { return b.PutLease(ctx, broker.Lease{Key: long}, time.Minute) },
		"drop a lease": func() error { return b.DropLease(ctx, long) },
		"listen": func() error {
			_, err := b.Listen(ctx, long, func([]byte) {})
			return err
		},
	} {
		if err := call(); !errors.Is(err, broker.ErrTooLarge) || len(err.Error()) > 1000 {
			t.Errorf("%s: %.200v", name, err)
		}
		if _, err := b.Publish(ctx, "a:x", push.Publication{Data: []byte("1")}, broker.PublishOptions{}); err != nil {
			t.Fatalf("%s, then publish: %v", name, err)
		}
	}
	if found, err := b.ListLeases(ctx, long); err != nil || len(found) > 0 {
		t.Errorf("%d leases are listed, %v", len(found), err)
	}
	fits := "member/" + strings.Repeat("c", 255) + "\x00" + strings.Repeat("n", 255) + "\x00http://" + strings.Repeat("h", 1800)
	if err := b.PutLease(ctx, broker.Lease{Key: fits}, time.Minute); err != nil {
		t.Error(err)
	}
	if found, err := b.ListLeases(ctx, "member/"); err != nil || len(found) != 1 || found[0].Key != fits {
		t.Errorf("%d leases are listed, %v", len(found), err)
	}
	if s := b.Stats(); !s.Connected || s.Reconnects != 0 {
		t.Errorf("%+v", s)
	}
}
