package eventloop_test

import (
	"math/rand/v2"
	"testing"

	"github.com/sluice-push/sluice/internal/eventloop"
)

// A handle finds its value until that is removed, and nothing ever after; places are used again.
func TestTable(t *testing.T) {
	rnd := rand.New(rand.NewPCG(1, 2))
	var table eventloop.Table[int]
	there, gone := map[uint64]int{}, map[uint64]bool{}
	most, places := 0, map[uint32]bool{}
	for i := range 20_000 {
		if len(there) == 0 || rnd.IntN(2) == 0 {
			h := table.Add(i + 1)
			if _, again := there[h]; again || gone[h] {
				t.Fatalf("the handle %#x is given again", h)
			}
			there[h] = i + 1
			places[uint32(h)] = true
			most = max(most, len(there))
			continue
		}
		for h, want := range there {
			if v, ok := table.At(h); !ok || v != want {
				t.Fatalf("%#x is %d, %v; want %d", h, v, ok, want)
			}
			table.Remove(h)
			delete(there, h)
			gone[h] = true
			break
		}
	}
	for h := range gone {
		if v, ok := table.At(h); ok || v != 0 { // nor is the value that has the slot now
			t.Fatalf("%#x is %d, %v after it was removed", h, v, ok)
		}
	}
	if len(places) != most {
		t.Errorf("%d places for at most %d values", len(places), most)
	}
}

// A removed value can be collected as garbage, and a look-up allocates nothing.
func TestTableForgets(t *testing.T) {
	var table eventloop.Table[*int]
	h := table.Add(new(int))
	if n := testing.AllocsPerRun(100, func() {
		if v, ok := table.At(h); v == nil || !ok {
			t.Error("it is not there")
		}
	}); n != 0 {
		t.Errorf("%v allocations", n)
	}
	table.Remove(h)
	if v, ok := table.At(h); v != nil || ok {
		t.Errorf("%v, %v is still there", v, ok)
	}
	defer func() {
		if recover() == nil {
			t.Error("it can be removed twice")
		}
	}()
	table.Remove(h)
}
