package demo_test

import (
	"testing"
	"time"

	"github.com/sluice-push/sluice/cmd/sluice/internal/demo"
)

// TestContinue: a feed that continues another one opens with its last prices, to the cent.
func TestContinue(t *testing.T) {
	now := time.Unix(1_700_000_000, 0)
	first, second := demo.New(1), demo.New(2)
	last := map[string]demo.Tick{}
	for range 2000 {
		for _, tick := range first.Step(now) {
			last[tick.Symbol] = tick
		}
		now = now.Add(10 * time.Millisecond)
	}
	for _, tick := range last {
		if err := second.Continue(tick.AppendJSON(nil)); err != nil {
			t.Fatal(err)
		}
	}
	for _, tick := range second.Step(now) {
		want := last[tick.Symbol]
		if tick.Price != want.Price || tick.Volume != want.Volume || max(tick.Change-want.Change, want.Change-tick.Change) > 1 {
			t.Errorf("goes on with %+v, ended with %+v", tick, want)
		}
	}
	for _, bad := range []string{"", "{", `{"symbol":"ALVOR"}`, `{"symbol":"ALVOR","price":-1,"change":0}`, `{"symbol":"ALVOR","price":1,"change":-100}`} {
		if err := second.Continue([]byte(bad)); err == nil {
			t.Errorf("%q was accepted", bad)
		}
	}
	if err := second.Continue([]byte(`{"symbol":"OTHER","price":1}`)); err != nil {
		t.Error(err)
	}
}
