package count_test

import (
	"maps"
	"strconv"
	"strings"
	"sync"
	"testing"

	"github.com/sluice-push/sluice/internal/count"
	"github.com/sluice-push/sluice/internal/testwait"
)

func TestWords(t *testing.T) {
	var w count.Words
	if all := w.All(); all != nil {
		t.Errorf("of nothing there are %v", all)
	}
	long := strings.Repeat("x", count.MostWords)
	var adding sync.WaitGroup
	for range 4 {
		adding.Go(func() {
			w.Add("refused", 2)
			w.Add(long+"y", 1)
		})
	}
	testwait.Return(t, adding.Wait)
	if got, want := w.All(), map[string]int{"refused": 8, long: 4}; !maps.Equal(got, want) {
		t.Errorf("got %v, want %v", got, want)
	}
	for i := range 100 {
		w.Add(strconv.Itoa(i), 1)
	}
	w.Add("refused", 1)
	got := w.All()
	if got[count.OtherWords] != 52 || len(got) != 51 || got["refused"] != 9 {
		t.Errorf("%d of %d others, %v", got[count.OtherWords], len(got), got)
	}
}
