package roster_test

import (
	"slices"
	"sync"
	"testing"

	"github.com/sluice-push/sluice/internal/roster"
	"github.com/sluice-push/sluice/internal/testwait"
)

// Who enters is found until it leaves, and who finds no slot of its key is told so.
func TestRoster(t *testing.T) {
	var r roster.Roster[int]
	if !r.IsEmpty() {
		t.Error("a new one is not empty")
	}
	const key = 1<<64 - 40 // its slots go around the end
	var slots []int
	var who []*int
	for {
		v := new(int)
		slot := r.Enter(v, key)
		if slot < 0 {
			break
		}
		if slices.Contains(slots, slot) {
			t.Fatalf("slot %d is given twice", slot)
		}
		slots, who = append(slots, slot), append(who, v)
	}
	if len(slots) < 2 {
		t.Errorf("slots for %d", len(slots))
	}
	if r.Enter(new(int), key+1) < 0 {
		t.Error("no slot for another key")
	}
	found := slices.Collect(r.All)
	for _, v := range who {
		if !slices.Contains(found, v) {
			t.Error("somebody is not found")
		}
	}
	for i, slot := range slots {
		r.Leave(slot)
		if slices.Contains(slices.Collect(r.All), who[i]) {
			t.Error("somebody is found after leaving")
		}
	}
	if r.IsEmpty() {
		t.Error("empty with one in it")
	}
}

// Many may come and go at the same time, and two never have one slot.
func TestRosterConcurrently(t *testing.T) {
	var r roster.Roster[sync.Mutex]
	var owners [128]sync.Mutex
	var wg sync.WaitGroup
	for key := range uint64(8) {
		wg.Go(func() {
			for range 2000 {
				slot := r.Enter(new(sync.Mutex), key*3)
				if slot < 0 {
					continue
				}
				if !owners[slot].TryLock() {
					t.Errorf("slot %d has two", slot)
					return
				}
				owners[slot].Unlock()
				r.Leave(slot)
			}
		})
	}
	testwait.Return(t, wg.Wait)
	if !r.IsEmpty() {
		t.Error("somebody was left")
	}
}
