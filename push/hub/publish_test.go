package hub_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/sluice-push/sluice/internal/testwait"
	"github.com/sluice-push/sluice/push"
	"github.com/sluice-push/sluice/push/broker"
	"github.com/sluice-push/sluice/push/broker/memory"
	"github.com/sluice-push/sluice/push/hub"
)

func TestPublish(t *testing.T) {
	b := memory.New(&memory.Options{MaxPublication: 100})
	t.Cleanup(func() { must(t, b.Close()) })
	h := newHub(t, b, spaces(push.History{Size: 10}), nil)
	gone, cancel := context.WithCancel(testwait.Context(t))
	cancel()
	tests := []struct {
		name    string
		ctx     context.Context
		channel string
		p       push.Publication
		want    error
	}{
		{"well", testwait.Context(t), "stream:x", push.Publication{}, nil},
		{"removal", testwait.Context(t), "table:x", push.Publication{Key: "a", Op: push.Remove}, nil},
		{"clear", testwait.Context(t), "value:x", push.Publication{Op: push.Clear}, nil},
		{"unknown channel", testwait.Context(t), "nothing:x", push.Publication{}, push.ErrUnknownChannel},
		{"bad channel", testwait.Context(t), "stream:\n", push.Publication{}, push.ErrBadRequest},
		{"bad key", testwait.Context(t), "stream:x", push.Publication{Key: strings.Repeat("k", 256)}, push.ErrBadRequest},
		{"removal from a stream", testwait.Context(t), "stream:x", push.Publication{Op: push.Remove}, push.ErrBadRequest},
		{"clear of a stream", testwait.Context(t), "stream:x", push.Publication{Op: push.Clear}, push.ErrBadRequest},
		{"too large", testwait.Context(t), "stream:x", push.Publication{Data: make([]byte, 101)}, push.ErrLimitExceeded},
		{"too late", gone, "stream:x", push.Publication{}, push.ErrInternal},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			if at, err := h.Publish(tt.ctx, tt.channel, tt.p, ""); !errors.Is(err, tt.want) || (err == nil) != (at.Offset > 0) {
				t.Errorf("position %v, error %v", at, err)
			}
		})
	}
	first, err := h.Publish(testwait.Context(t), "stream:x", push.Publication{Data: []byte("1")}, "key")
	must(t, err)
	if again, err := h.Publish(testwait.Context(t), "stream:x", push.Publication{Data: []byte("2")}, "key"); err != nil || again != first {
		t.Errorf("repeated: %v after %v, %v", again, first, err)
	}
	if s := h.Stats(); s.Published != 5 || s.PublishErrors() != 2 {
		t.Errorf("%+v", s)
	}
	must(t, b.Close())
	if _, err := h.Publish(testwait.Context(t), "stream:x", push.Publication{}, ""); !errors.Is(err, push.ErrInternal) {
		t.Errorf("without a broker: %v", err)
	}
}

// What a broker refuses, and whether publishers are told to try again. Each is told why in words that give nothing of the broker away.
func TestPublishRefusals(t *testing.T) {
	r := newRig(t, nil)
	h := newHub(t, r, []hub.Namespace{{Namespace: broker.Namespace{Name: "stream", History: push.History{Size: 10}}}}, nil)
	for _, tt := range []struct {
		err       error
		want      *push.Error
		temporary bool
	}{
		{broker.ErrBusy, push.ErrTooManyRequests, true},
		{broker.ErrTooLarge, push.ErrLimitExceeded, false},
		{context.DeadlineExceeded, push.ErrInternal, true},
		{broker.ErrClosed, push.ErrInternal, true}, // the node ends
		{errors.New("10.0.0.1 did not answer"), push.ErrInternal, true},
	} {
		r.set(func(r *rig) { r.onPublish = fmt.Errorf("at 10.0.0.1: %w", tt.err) })
		_, err := h.Publish(testwait.Context(t), "stream:x", push.Publication{}, "")
		told, ok := errors.AsType[*push.Error](err)
		if !ok || !errors.Is(told, tt.want) || told.Temporary != tt.temporary || strings.Contains(told.Message, "10.0.0.1") {
			t.Errorf("%v becomes %v, want %v", tt.err, err, tt.want)
		}
	}
}

// Publishers that are faster than the fan-out can be are told so, before anything is stored.
func TestPublishBusy(t *testing.T) {
	r := newRig(t, &memory.Options{Queue: 1, PublishWait: -1})
	h := newHub(t, r, []hub.Namespace{{Namespace: broker.Namespace{Name: "stream", History: push.History{Size: 10}}}}, nil)
	release := r.hold()
	busy := false
	for range 5 {
		_, err := h.Publish(testwait.Context(t), "stream:x", push.Publication{}, "")
		busy = busy || errors.Is(err, push.ErrTooManyRequests)
	}
	if !busy {
		t.Error("nobody was told")
	}
	release()
	testwait.True(t, "there is room again", func() bool {
		_, err := h.Publish(testwait.Context(t), "stream:x", push.Publication{}, "")
		return err == nil
	})
}
