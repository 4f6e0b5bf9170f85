package pending_test

import (
	"errors"
	"fmt"
	"math"
	"slices"
	"sync"
	"sync/atomic"
	"testing"

	"go.uber.org/goleak"
	"pgregory.net/rapid"

	"github.com/sluice-push/sluice/rpc/pending"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

var errEnd = errors.New("the connection has ended")

// Whatever is added, taken and taken again: each call is had once, by its id, and the table has what a map would have. Ids are positive and go up.
func TestTableIsAMap(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		limit := rapid.IntRange(1, 100).Draw(t, "limit")
		table, model := pending.New[int](limit), map[int32]int{}
		last := rapid.SampledFrom([]int32{0, 5, math.MaxInt32 - 20}).Draw(t, "last")
		table.SetLast(last)
		var ids []int32 // all that were given out
		for call := range rapid.IntRange(0, 400).Draw(t, "steps") {
			if add := rapid.IntRange(0, 9).Draw(t, "what") < 6; add {
				id, err := table.Add(call)
				if len(model) == limit {
					if !errors.Is(err, pending.ErrFull) {
						t.Fatalf("%d calls wait, at most %d may: %v", len(model), limit, err)
					}
					continue
				}
				if _, twice := model[id]; err != nil || id <= 0 || twice || id <= last && last < math.MaxInt32-limitSpan {
					t.Fatalf("id %d after %d, %v; in use: %t", id, last, err, twice)
				}
				model[id], last = call, id
				ids = append(ids, id)
				continue
			}
			id := rapid.Int32().Draw(t, "unknown id")
			if len(ids) > 0 && rapid.IntRange(0, 9).Draw(t, "known") > 0 {
				id = rapid.SampledFrom(ids).Draw(t, "id")
			}
			want, had := model[id]
			if got, ok := table.Get(id); ok != had || got != want {
				t.Fatalf("get %d: %d, %t; want %d, %t", id, got, ok, want, had)
			}
			delete(model, id)
			if got, ok := table.Take(id); ok != had || got != want {
				t.Fatalf("take %d: %d, %t; want %d, %t", id, got, ok, want, had)
			}
		}
		if table.Len() != len(model) {
			t.Fatalf("%d calls wait, want %d", table.Len(), len(model))
		}
		left := table.Close(errEnd)
		slices.Sort(left)
		var want []int
		for _, call := range model {
			want = append(want, call)
		}
		slices.Sort(want)
		if !slices.Equal(left, want) {
			t.Fatalf("left: %v, want %v", left, want)
		}
		if _, err := table.Add(0); !errors.Is(err, errEnd) || table.Len() != 0 || table.Close(errors.New("another")) != nil {
			t.Fatalf("after the end: %v, %d calls", err, table.Len())
		}
		for _, id := range ids {
			if _, ok := table.Take(id); ok {
				t.Fatalf("%d is there after the end", id)
			}
		}
	})
}

// limitSpan is before the largest id: from there on, ids may begin anew.
const limitSpan = 1000

// Slow calls keep their ids while two turns of all ids go by.
func TestIDsBeginAnew(t *testing.T) {
	table := pending.New[string](10)
	slow := map[int32]string{}
	for i := range 5 {
		id, err := table.Add(fmt.Sprint("slow ", i))
		if err != nil {
			t.Fatal(err)
		}
		slow[id] = fmt.Sprint("slow ", i)
	}
	for range 2 {
		table.SetLast(math.MaxInt32 - 3)
		for range 20 {
			id, err := table.Add("fast")
			if _, taken := slow[id]; err != nil || taken || id <= 0 {
				t.Fatalf("id %d, %v", id, err)
			}
			if got, ok := table.Take(id); !ok || got != "fast" {
				t.Fatalf("take %d: %q, %t", id, got, ok)
			}
		}
	}
	for id, want := range slow {
		if got, ok := table.Take(id); !ok || got != want {
			t.Errorf("take %d: %q, %t", id, got, ok)
		}
	}
}

// Answers, deadlines and the end of the connection race for the calls: each call is had once.
func TestEachOnce(t *testing.T) {
	const callers, each = 8, 500
	table := pending.New[*atomic.Int32](callers * 4)
	ids := make(chan int32, callers*4)
	var had, added atomic.Int64
	take := func(c *atomic.Int32) {
		if c.Add(1) != 1 {
			t.Error("a call was had twice")
		}
		had.Add(1)
	}
	var calling, taking sync.WaitGroup
	for range 4 {
		taking.Go(func() {
			for id := range ids {
				for range 2 { // an answer, and one that comes twice
					if c, ok := table.Take(id); ok {
						take(c)
					}
				}
			}
		})
	}
	for range callers {
		calling.Go(func() {
			for range each {
				id, err := table.Add(new(atomic.Int32))
				if err != nil {
					continue // it is full, or closed
				}
				added.Add(1)
				ids <- id
				if c, ok := table.Take(id); ok { // the deadline
					take(c)
				}
			}
		})
	}
	calling.Go(func() {
		for added.Load() < callers*each/4 {
			if c, ok := table.Take(int32(added.Load())); ok {
				take(c)
			}
		}
		for _, c := range table.Close(errEnd) {
			take(c)
		}
	})
	calling.Wait()
	close(ids)
	taking.Wait()
	if had.Load() != added.Load() || table.Len() != 0 {
		t.Errorf("of %d calls %d were had, %d wait", added.Load(), had.Load(), table.Len())
	}
}

// The limit of zero is the default, and a table that was full gives its memory back.
func TestSizes(t *testing.T) {
	table := pending.New[int](0)
	var ids []int32
	for {
		id, err := table.Add(1)
		if err != nil {
			break
		}
		ids = append(ids, id)
	}
	if len(ids) != pending.DefaultLimit || table.Slots() != 2*pending.DefaultLimit {
		t.Errorf("%d calls in %d slots", len(ids), table.Slots())
	}
	for _, id := range ids {
		table.Take(id)
	}
	if table.Slots() != 0 {
		t.Errorf("an empty table has %d slots", table.Slots())
	}
	if _, ok := table.Take(1); ok {
		t.Error("an empty table has a call")
	}
	for _, limit := range []int{-1, math.MaxInt} {
		if id, err := pending.New[int](limit).Add(1); err != nil || id != 1 {
			t.Errorf("limit %d: %d, %v", limit, id, err)
		}
	}
}

func TestAllocations(t *testing.T) {
	table := pending.New[*int](100)
	call := new(int)
	if n := testing.AllocsPerRun(1000, func() {
		id, _ := table.Add(call)
		table.Take(id)
	}); n > 0 {
		t.Errorf("a call costs %v allocations", n)
	}
}

func BenchmarkCall(b *testing.B) {
	for _, waiting := range []int{0, 1000} {
		b.Run(fmt.Sprint(waiting, " others"), func(b *testing.B) {
			table := pending.New[*int](0)
			for range waiting {
				_, _ = table.Add(nil)
			}
			for b.Loop() {
				id, _ := table.Add(nil)
				table.Take(id)
			}
		})
	}
}

func ExampleTable() {
	calls := pending.New[chan string](0)
	answer := make(chan string, 1)
	id, _ := calls.Add(answer)
	// A reader of the connection has found an answer with this id, twice.
	for range 2 {
		if c, ok := calls.Take(id); ok {
			c <- "hello"
		}
	}
	fmt.Println(<-answer, calls.Len())
	// Output: hello 0
}
