package channel_test

import (
	"math/rand/v2"
	"strconv"
	"testing"

	"github.com/sluice-push/sluice/push"
	"github.com/sluice-push/sluice/push/channel"
)

// staleness plays a table under overload: in each step 20 rows change, always including row 0, and the reader may take 5. For the hottest row,
// and for the worst of the others, it returns the largest number of reads that passed while a newer version existed.
func staleness(read func(*channel.Log, channel.Cursor) ([]channel.Delivery, channel.Cursor)) (hottest, worst int) {
	const rows, changes, steps = 50, 20, 3000
	r := rand.New(rand.NewPCG(7, 7))
	log := channel.New(&channel.Policy{Mode: push.Table}, push.Position{Epoch: "e"}, 0)
	cursor, _ := log.Subscribe(nil, nil)
	var offset uint64
	var pending, longest [rows]int
	var changed [rows]bool
	for range steps {
		for i := range changes {
			row := 0
			if i > 0 {
				row = 1 + r.IntN(rows-1)
			}
			offset++
			log.Append(push.Publication{Offset: offset, Key: strconv.Itoa(row), Data: []byte("1")})
			changed[row] = true
		}
		ds, end := read(log, cursor)
		cursor = end
		for _, d := range ds {
			row, _ := strconv.Atoi(d.Entry.Key)
			changed[row], pending[row] = false, 0
		}
		for row := range rows {
			if changed[row] {
				pending[row]++
				longest[row] = max(longest[row], pending[row])
			}
		}
	}
	hottest = longest[0]
	for _, n := range longest[1:] {
		worst = max(worst, n)
	}
	return hottest, worst
}

// TestOverload: no row is stale for longer than about one sweep (law 3), and the hottest row no longer than the others. With reads in offset
// order, a planted bug, the hottest row is never reached.
func TestOverload(t *testing.T) {
	const sweep = 50 / 5 // reads
	hottest, worst := staleness(func(l *channel.Log, c channel.Cursor) ([]channel.Delivery, channel.Cursor) {
		ds, end, _ := l.Read(c, nil, channel.Budget{Entries: 5, Bytes: 1 << 20}, nil)
		return ds, end
	})
	if hottest > 2*sweep || worst > 2*sweep {
		t.Errorf("hottest row stale for %d reads, the others for up to %d; a sweep takes %d", hottest, worst, sweep)
	}
	hottest, _ = staleness(func(l *channel.Log, c channel.Cursor) ([]channel.Delivery, channel.Cursor) {
		var ds []channel.Delivery
		for _, e := range l.Since(c.Offset(), 5) {
			ds = append(ds, channel.Delivery{Entry: e, Kind: channel.Put, Offset: e.Offset})
			c = l.At(e.Offset)
		}
		return ds, c
	})
	if hottest < 20*sweep {
		t.Errorf("reading in offset order left the hottest row stale for only %d reads: this test has lost its teeth", hottest)
	}
}

// TestTooSlow: a reader whose filling is overtaken by evictions several times gets TooSlow instead of another clear.
func TestTooSlow(t *testing.T) {
	policy := &channel.Policy{Mode: push.Table, History: push.History{Size: 1}}
	log := channel.New(policy, push.Position{Epoch: "e"}, 0)
	var offset uint64
	put := func(op push.Op, key string) {
		offset++
		log.Append(push.Publication{Offset: offset, Key: key, Op: op})
	}
	for i := range 10 {
		put(push.Set, strconv.Itoa(i))
	}
	cursor, _ := log.Subscribe(nil, nil)
	clears := 0
	for range 10 {
		ds, end, status := log.Read(cursor, nil, channel.Budget{Entries: 2, Bytes: 1 << 20}, nil)
		cursor = end
		for _, d := range ds {
			if d.Kind == channel.Clear {
				clears++
			}
		}
		if status == channel.TooSlow {
			if clears != 2 {
				t.Errorf("the table was cleared %d times before the verdict, want 2", clears)
			}
			return
		}
		for range 2 { // two removals at once: the first is forgotten
			put(push.Set, "x")
			put(push.Remove, "x")
			put(push.Set, "y")
			put(push.Remove, "y")
		}
	}
	t.Error("a reader that never gets through was not called too slow")
}
