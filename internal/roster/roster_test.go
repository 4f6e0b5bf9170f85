package roster_test

import (
	"slices"
	"sync"
	"testing"

	"github.com/sluice-push/sluice/internal/roster"
)

// Who enters is found until it leaves, and who finds no place of its key is told so.
func TestRoster(t *testing.T) {
	var r roster.Roster[int]
	if !r.IsEmpty() {
		t.Error("a new one is not empty")
	}
	const key = 1<<64 - 40 // its places go around the end
	var places []int
	var who []*int
	for {
		v := new(int)
		place := r.Enter(v, key)
		if place < 0 {
			break
		}
		if slices.Contains(places, place) {
			t.Fatalf("place %d is given twice", place)
		}
		places, who = append(places, place), append(who, v)
	}
	if len(places) < 2 {
		t.Errorf("places for %d", len(places))
	}
	if r.Enter(new(int), key+1) < 0 {
		t.Error("no place for another key")
	}
	found := slices.Collect(r.All)
	for _, v := range who {
		if !slices.Contains(found, v) {
			t.Error("somebody is not found")
		}
	}
	for i, place := range places {
		r.Leave(place)
		if slices.Contains(slices.Collect(r.All), who[i]) {
			t.Error("somebody is found after leaving")
		}
	}
	if r.IsEmpty() {
		t.Error("empty with one in it")
	}
}

// Many may come and go at the same time, and two never have one place.
func TestRosterConcurrently(t *testing.T) {
	var r roster.Roster[sync.Mutex]
	var owners [128]sync.Mutex
	var wg sync.WaitGroup
	for key := range uint64(8) {
		wg.Go(func() {
			for range 2000 {
				place := r.Enter(new(sync.Mutex), key*3)
				if place < 0 {
					continue
				}
				if !owners[place].TryLock() {
					t.Errorf("place %d has two", place)
					return
				}
				owners[place].Unlock()
				r.Leave(place)
			}
		})
	}
	wg.Wait()
	if !r.IsEmpty() {
		t.Error("somebody was left")
	}
}
