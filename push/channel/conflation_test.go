package channel_test

import (
	"fmt"
	"math/rand/v2"
	"strconv"
	"testing"

	"github.com/sluice-push/sluice/push"
	"github.com/sluice-push/sluice/push/channel"
)

// teller plays a table or value channel with one subscription, and records the fate of each entry.
type teller struct {
	random  *rand.Rand
	log     *channel.Log
	mode    push.Mode
	cursor  channel.Cursor
	counter channel.ConflationCounter
	offset  uint64

	newest     map[string]uint64 // offset of the newest entry of a key
	waiting    map[uint64]bool   // entries that were not sent, and may still be sent
	missed     int               // entries that will never be sent
	again      int               // entries that were sent twice
	sent       map[uint64]bool
	conflated  int
	sweeps     int
	short, cut int // reads that did not reach the head, and reads whose deliveries were not all taken
}

func newTeller(seed uint64, mode push.Mode) *teller {
	t := &teller{
		random: rand.New(rand.NewPCG(seed, 3)), mode: mode,
		newest: map[string]uint64{}, waiting: map[uint64]bool{}, sent: map[uint64]bool{},
	}
	t.log = channel.New(&channel.Policy{Mode: mode}, push.Position{Epoch: "e"}, 0)
	t.cursor, _ = t.log.Subscribe(nil, nil)
	t.counter, _ = t.counter.Count(0, t.cursor, t.log.Progress())
	return t
}

// publish appends an entry, and sends it straight to a subscription that is right behind.
func (t *teller) publish(keys int, straight bool) {
	t.offset += 1 + t.random.Uint64N(3)
	p := push.Publication{Offset: t.offset, Key: strconv.Itoa(t.random.IntN(keys)), Data: []byte("1")}
	if t.mode == push.Value {
		p.Key = ""
	}
	if t.random.IntN(8) == 0 {
		p.Op, p.Data = push.Remove, nil
	}
	if old := t.newest[p.Key]; t.waiting[old] {
		delete(t.waiting, old)
		t.missed++
	}
	t.newest[p.Key] = t.offset
	t.waiting[t.offset] = true
	e := t.log.Append(p)
	if !straight {
		return
	}
	if d, ok := t.log.ReadNext(t.cursor, nil, e); ok {
		t.cursor, t.counter = d.Next, channel.ConflationCounterAt(e.Ordinal)
		t.take(d)
	}
}

func (t *teller) take(d channel.Delivery) {
	if t.sent[d.Entry.Offset] {
		t.again++
	}
	t.sent[d.Entry.Offset] = true
	delete(t.waiting, d.Entry.Offset)
}

// read serves the subscription from the log, and takes a part of the deliveries.
func (t *teller) read(b channel.Budget, isWhole bool) {
	before := t.log.Progress()
	deliveries, end, status := t.log.Read(t.cursor, nil, b, nil)
	taken := len(deliveries)
	if !isWhole && taken > 0 && t.random.IntN(3) == 0 {
		taken = t.random.IntN(taken)
		t.cut++
	}
	t.cursor = channel.Commit(t.cursor, deliveries, end, taken)
	for _, d := range deliveries[:taken] {
		t.take(d)
	}
	if t.cursor.Sweeping() {
		t.sweeps++
	}
	if status == channel.More {
		t.short++
	}
	var n int
	t.counter, n = t.counter.Count(taken, t.cursor, before)
	t.conflated += n
}

// check compares the counter with the records.
func (t *teller) check(isLevel bool) error {
	switch {
	case t.conflated > t.missed:
		return fmt.Errorf("%d entries were counted as conflated, %d were", t.conflated, t.missed)
	case isLevel && len(t.waiting) > 0:
		return fmt.Errorf("%d entries still wait", len(t.waiting))
	case isLevel && t.conflated+t.again < t.missed:
		return fmt.Errorf("%d entries were counted as conflated and %d sent again, but %d are missing", t.conflated, t.again, t.missed)
	case t.missed-t.conflated > t.again+len(t.newest)+len(t.waiting):
		return fmt.Errorf("%d entries were counted as conflated, of %d, with %d rows", t.conflated, t.missed, len(t.newest))
	}
	return nil
}

// TestTally: every entry of a table or value channel is sent or counted as conflated. An entry that was sent or still may be sent is not
// counted. The count is never behind by more than the number of rows.
func TestTally(t *testing.T) {
	seeds := uint64(300)
	if testing.Short() {
		seeds = 50
	}
	for _, mode := range []push.Mode{push.Value, push.Table} {
		t.Run(mode.String(), func(t *testing.T) {
			var conflated, again, sweeps, short, cut int
			for seed := range seeds {
				w := newTeller(seed, mode)
				keys := 1 + w.random.IntN(30)
				for range 200 {
					for range w.random.IntN(2 * keys) {
						w.publish(keys, w.random.IntN(2) == 0)
					}
					w.read(channel.Budget{Entries: 1 + w.random.IntN(10), Bytes: 1 << 20}, false)
					if err := w.check(false); err != nil {
						t.Fatalf("seed %d: %v", seed, err)
					}
				}
				for range 3 { // a sweep may have to be ended first
					w.read(channel.Everything, true)
				}
				if err := w.check(true); err != nil {
					t.Fatalf("seed %d: %v", seed, err)
				}
				conflated, again = conflated+w.conflated, again+w.again
				sweeps, short, cut = sweeps+w.sweeps, short+w.short, cut+w.cut
			}
			t.Logf("%d conflated, %d sent again, %d reads in a sweep, %d short, %d cut", conflated, again, sweeps, short, cut)
			if conflated == 0 || cut == 0 || mode == push.Table && (sweeps == 0 || short == 0 || again == 0) {
				t.Error("the world is too quiet")
			}
		})
	}
}

// TestTallyStart: entries published before a subscription reaches the head for the first time are not conflated, because they were never due to
// it.
func TestTallyStart(t *testing.T) {
	log := channel.New(&channel.Policy{Mode: push.Table}, push.Position{Epoch: "e"}, 0)
	for i := range 100 {
		log.Append(push.Publication{Offset: uint64(i + 1), Key: strconv.Itoa(i % 7), Data: []byte("1")})
	}
	cursor, _ := log.Subscribe(nil, nil)
	var counter channel.ConflationCounter
	for reads := range 5 {
		deliveries, end, _ := log.Read(cursor, nil, channel.Budget{Entries: 2, Bytes: 1 << 20}, nil)
		cursor = end
		var n int
		if counter, n = counter.Count(len(deliveries), cursor, log.Progress()); n != 0 {
			t.Fatalf("read %d: %d conflated", reads, n)
		}
	}
	if counter == 0 || cursor.Sweeping() {
		t.Fatalf("the table is not filled: counter %d", counter)
	}
	for i := range 10 {
		log.Append(push.Publication{Offset: uint64(200 + i), Key: "0", Data: []byte("1")})
	}
	deliveries, end, _ := log.Read(cursor, nil, channel.Everything, nil)
	if _, n := counter.Count(len(deliveries), end, log.Progress()); len(deliveries) != 1 || n != 9 {
		t.Errorf("%d sent, %d conflated, want 1 and 9", len(deliveries), n)
	}
}
