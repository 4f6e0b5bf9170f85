package codecount_test

import (
	"maps"
	"sync"
	"testing"

	"github.com/sluice-push/sluice/internal/testwait"
	"github.com/sluice-push/sluice/push/internal/codecount"
)

func TestCodes(t *testing.T) {
	c := codecount.Of(3, 7)
	var wg sync.WaitGroup
	for range 4 {
		wg.Go(func() {
			for code := range uint32(10) {
				c.Add(code)
			}
		})
	}
	testwait.Return(t, wg.Wait)
	c.Add(7)
	want := map[uint32]uint64{3: 4, 7: 5, codecount.Other: 32}
	if got := c.Read(); !maps.Equal(got, want) {
		t.Errorf("%v, want %v", got, want)
	}
}

func TestNothingKnown(t *testing.T) {
	c := codecount.Of()
	c.Add(1)
	if got := c.Read(); got[codecount.Other] != 1 || len(got) != 1 {
		t.Errorf("%v", got)
	}
}
