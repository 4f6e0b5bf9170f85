package link

import (
	"fmt"
	"testing"

	"pgregory.net/rapid"

	"github.com/sluice-push/sluice/push"
	"github.com/sluice-push/sluice/push/broker"
	"github.com/sluice-push/sluice/push/link/wire"
)

// reader is what a gateway knows that takes from a queue: a model of package push/broker/link.
type reader struct {
	t     *rapid.T
	queue *queue
	spare []item

	since  map[string]uint64 // above this offset it gets everything of a channel that it wants
	got    []uint64          // since the last Reset
	upTo   uint64            // everything wanted up to here is accounted for
	paused bool
}

// take takes once. It reports false if there was nothing.
func (r *reader) take(all []broker.Message) bool {
	items, upTo, skipped := r.queue.take(r.spare, true)
	if r.paused && (upTo > 0 || len(items) > 0 && items[0].kind != wire.Reset) {
		r.t.Fatalf("it was paused, and got %d items, up to %d", len(items), upTo)
	}
	for _, it := range items {
		switch it.kind {
		case wire.Reset:
			r.got, r.upTo, r.paused = nil, it.start.Offset, false
		case wire.Gap:
		default:
			r.expect(all, it.message.Offset-1)
			r.got = append(r.got, it.message.Offset)
			r.upTo = it.message.Offset
		}
	}
	r.spare = items
	switch {
	case skipped:
		r.upTo, r.paused = upTo, true
	case upTo > 0:
		r.expect(all, upTo)
		r.upTo = upTo
	}
	return len(items) > 0 || upTo > 0
}

// expect fails if something that is wanted lies between what is accounted for and an offset: the queue has left it out.
func (r *reader) expect(all []broker.Message, offset uint64) {
	if offset < r.upTo {
		r.t.Fatalf("%d came after %d", offset, r.upTo)
	}
	for _, m := range all {
		if since, ok := r.since[m.Channel]; ok && m.Offset > max(r.upTo, since) && m.Offset <= offset {
			r.t.Fatalf("offset %d of %s was left out: it was told up to %d before, and now up to %d", m.Offset, m.Channel, r.upTo, offset)
		}
	}
}

// Whatever is published, wanted, taken or reset: a gateway gets everything that it wants in order, or is told up to where it has to load.
func TestQueue(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		const limit = 5 * messageBytes
		q := newQueue(limit)
		r := &reader{t: t, queue: q, since: map[string]uint64{}, paused: true}
		head := rapid.Uint64Range(0, 5).Draw(t, "start")
		q.begin(push.Position{Epoch: "e", Offset: head})
		r.upTo = head
		var all []broker.Message
		channel := func() string { return fmt.Sprint("n:", rapid.IntRange(0, 3).Draw(t, "channel")) }
		t.Repeat(map[string]func(*rapid.T){
			"publish": func(t *rapid.T) {
				var batch []broker.Message
				for range rapid.IntRange(1, 8).Draw(t, "messages") {
					head += uint64(rapid.IntRange(1, 3).Draw(t, "step")) //nolint:gosec // a small number
					batch = append(batch, broker.Message{Channel: channel(), Publication: push.Publication{Offset: head}})
				}
				all = append(all, batch...)
				q.Deliver(batch)
			},
			"want": func(t *rapid.T) {
				c := channel()
				if at := q.change([]string{c}, nil, false); r.since[c] == 0 {
					r.since[c] = at
				}
				if !q.wants(c) {
					t.Fatal("it does not want what it wants")
				}
			},
			"unwant": func(*rapid.T) {
				c := channel()
				q.change(nil, []string{c}, false)
				delete(r.since, c)
			},
			"resume": func(*rapid.T) {
				q.change(nil, nil, true)
				r.paused = false
			},
			"reset": func(t *rapid.T) {
				if rapid.IntRange(0, 5).Draw(t, "dice") == 0 {
					q.Reset(push.Position{Epoch: "f", Offset: head})
					r.paused = false
					r.upTo = head // what it has not taken is void
				}
			},
			"advance": func(*rapid.T) {
				head++
				q.Advance(head)
			},
			"take": func(*rapid.T) { r.take(all) },
			"":     func(*rapid.T) { wantBound(t, q, limit) },
		})
		q.change(nil, nil, true)
		for r.paused = false; r.take(all); {
			if r.paused { // it has loaded
				q.change(nil, nil, true)
				r.paused = false
			}
		}
		if r.upTo != head {
			t.Fatalf("it was told up to %d at last, the head is %d", r.upTo, head)
		}
	})
}

func wantBound(t *rapid.T, q *queue, limit int) {
	if q.bytes > limit {
		t.Fatalf("%d bytes wait, the limit is %d", q.bytes, limit)
	}
}

// One message may be larger than the whole queue.
func TestQueueLargeMessage(t *testing.T) {
	q := newQueue(10)
	q.change([]string{"n:a"}, nil, true)
	q.Deliver([]broker.Message{{Channel: "n:a", Publication: push.Publication{Offset: 1, Data: make([]byte, 1000)}}})
	if items, upTo, skipped := q.take(nil, true); len(items) != 1 || upTo != 1 || skipped {
		t.Errorf("%d items up to %d, skipped %t", len(items), upTo, skipped)
	}
}

// The sender is not woken for what is not wanted, once it knows that it would have no more to say than an offset; but it is for what is wanted.
func TestQueueWakes(t *testing.T) {
	q := newQueue(1 << 20)
	q.change([]string{"n:a"}, nil, true)
	woken := func() bool {
		select {
		case <-q.wake:
			return true
		default:
			return false
		}
	}
	publish := func(channel string, offset uint64) {
		q.Deliver([]broker.Message{{Channel: channel, Publication: push.Publication{Offset: offset}}})
	}
	woken()
	publish("n:b", 1)
	if !woken() {
		t.Error("it does not learn how far the partition is")
	}
	if items, upTo, _ := q.take(nil, false); len(items) > 0 || upTo > 0 {
		t.Errorf("it got %d items up to %d, and did not ask how far the partition is", len(items), upTo)
	}
	publish("n:b", 2)
	if woken() {
		t.Error("it was woken for an offset")
	}
	publish("n:a", 3)
	if !woken() {
		t.Error("it was not woken for a message")
	}
}

// When the last event is no Batch, the gateway still learns how far the partition is.
func TestOffsetAfterGap(t *testing.T) {
	q := newQueue(1 << 20)
	q.change(nil, nil, true)
	q.Gap("n:a", 5)
	q.Deliver([]broker.Message{{Channel: "n:b", Publication: push.Publication{Offset: 7}}})
	items, upTo, _ := q.take(nil, true)
	var d wire.Decoder
	var events []wire.Event
	_, err := sendItems(items, upTo, nil, func(body []byte) error {
		e, err := d.Event(body, nil)
		events = append(events, e)
		return err
	})
	if err != nil || len(events) != 2 || events[0].Kind != wire.Gap || events[1].Kind != wire.Batch || events[1].Offset != 7 {
		t.Errorf("%+v, %v", events, err)
	}
}

// A new epoch may begin before the stream knows its start, which is void then.
func TestResetBeforeBegin(t *testing.T) {
	q := newQueue(1 << 20)
	q.Reset(push.Position{Epoch: "new", Offset: 1})
	q.begin(push.Position{Epoch: "old", Offset: 100})
	if at := q.change([]string{"n:a"}, nil, false); at != 1 {
		t.Errorf("it is at %d, the new epoch began at 1", at)
	}
}
