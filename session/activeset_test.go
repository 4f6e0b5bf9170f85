package session_test

import (
	"slices"
	"sync"
	"testing"

	"github.com/sluice-push/sluice/internal/testwait"
	"github.com/sluice-push/sluice/session"
)

// A member is found between Add and Remove. If all slots of a key are in use, Add returns -1.
func TestActiveSet(t *testing.T) {
	var r session.ActiveSet[int]
	if !r.IsEmpty() {
		t.Error("a new one is not empty")
	}
	const key = 1<<64 - 40 // its slots wrap around
	var slots []int
	var members []*int
	for {
		v := new(int)
		slot := r.Add(v, key)
		if slot < 0 {
			break
		}
		if slices.Contains(slots, slot) {
			t.Fatalf("slot %d is given twice", slot)
		}
		slots, members = append(slots, slot), append(members, v)
	}
	if len(slots) < 2 {
		t.Errorf("slots for %d", len(slots))
	}
	if r.Add(new(int), key+1) < 0 {
		t.Error("no slot for another key")
	}
	found := slices.Collect(r.All)
	for _, v := range members {
		if !slices.Contains(found, v) {
			t.Error("somebody is not found")
		}
	}
	for i, slot := range slots {
		r.Remove(slot)
		if slices.Contains(slices.Collect(r.All), members[i]) {
			t.Error("somebody is found after leaving")
		}
	}
	if r.IsEmpty() {
		t.Error("empty with one in it")
	}
}

// Many goroutines may add and remove members at the same time, and no slot ever has two members.
func TestActiveSetConcurrently(t *testing.T) {
	var r session.ActiveSet[sync.Mutex]
	var owners [128]sync.Mutex
	var wg sync.WaitGroup
	for key := range uint64(8) {
		wg.Go(func() {
			for range 2000 {
				slot := r.Add(new(sync.Mutex), key*3)
				if slot < 0 {
					continue
				}
				if !owners[slot].TryLock() {
					t.Errorf("slot %d has two", slot)
					return
				}
				owners[slot].Unlock()
				r.Remove(slot)
			}
		})
	}
	testwait.Return(t, wg.Wait)
	if !r.IsEmpty() {
		t.Error("somebody was left")
	}
}
