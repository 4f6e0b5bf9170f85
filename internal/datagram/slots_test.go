package datagram_test

import (
	"testing"

	"github.com/sluice-push/sluice/internal/buffer"
	"github.com/sluice-push/sluice/internal/datagram"
)

// check fails unless there are n slots, each with memory of its own.
func checkSlots(t *testing.T, sl *datagram.Slots, pool *buffer.Pool, n int) {
	t.Helper()
	if len(sl.Packets) != n {
		t.Fatalf("%d slots, want %d", len(sl.Packets), n)
	}
	seen := make(map[*byte]bool)
	for i := range sl.Packets {
		data, b := sl.Packets[i].Data, sl.Buffer(i)
		if len(data) != pool.Size || cap(data) != pool.Size || &data[0] != &b.B[0] || seen[&data[0]] || !b.Free {
			t.Fatalf("slot %d has %d bytes, its own: %t, free: %t", i, len(data), !seen[&data[0]], b.Free)
		}
		seen[&data[0]] = true
	}
}

// The number of slots adapts to the batches. A full batch doubles it, up to a bound, and many nearly empty batches in a row halve it.
func TestSlotsAdapt(t *testing.T) {
	pool := &buffer.Pool{Size: 1000}
	sl := datagram.NewSlots(newValve(0), pool)
	for _, want := range []int{1, 2, 4, 8, 16, 32, 64, 64} {
		checkSlots(t, sl, pool, want)
		sl.Adapt(want)
	}
	for range 63 {
		sl.Adapt(8)
	}
	sl.Adapt(9) // the count of nearly empty batches begins again
	for range 63 {
		sl.Adapt(8)
	}
	checkSlots(t, sl, pool, 64)
	sl.Adapt(8)
	checkSlots(t, sl, pool, 32)
	sl.Close()
	checkSlots(t, sl, pool, 0)
}

// The bound also limits memory, and a socket without batches has one slot.
func TestSlotsBounds(t *testing.T) {
	for _, tt := range []struct {
		size   int
		singly bool
		most   int
	}{{64 << 10, false, 32}, {4 << 20, false, 1}, {1000, true, 1}} {
		v := newValve(0)
		v.singly = tt.singly
		pool := &buffer.Pool{Size: tt.size}
		sl := datagram.NewSlots(v, pool)
		for range 10 {
			sl.Adapt(len(sl.Packets))
		}
		checkSlots(t, sl, pool, tt.most)
		sl.Close()
	}
}

// A buffer that is in use is left to its user, and the slot gets another one.
func TestSlotsReplace(t *testing.T) {
	pool := &buffer.Pool{Size: 1000}
	sl := datagram.NewSlots(newValve(0), pool)
	sl.Adapt(1)
	used := sl.Buffer(1)
	used.Free = false // as the borrower does
	sl.Replace(1)
	if sl.Buffer(1) == used {
		t.Error("the slot has the same buffer")
	}
	checkSlots(t, sl, pool, 2)
	used.Release()
	if pool.Get() == used {
		t.Error("a buffer that was left to its user came back")
	}
	sl.Close()
}
