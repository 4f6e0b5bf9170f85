//go:build proof

package main_test

import (
	"os"
	"testing"
	"time"
)

// TestProofReplay replays the full recordings at all speeds, with and without trouble: make proof-replay. It takes a quarter of an hour, most of
// it at the recorded speed.
func TestProofReplay(t *testing.T) {
	folder := os.Getenv("SLUICE_DATA")
	if folder == "" {
		t.Fatal("SLUICE_DATA has to be the folder of the full recordings")
	}
	all, one := fullTape(t, folder), readTape(t, "one", folder, bitcoin)
	for _, s := range []showing{
		{name: "streams", tape: all},
		{name: "table", tape: all, table: true},
		{name: "streams, rough", tape: all, rough: true},
		{name: "table, rough", tape: all, table: true, rough: true},
		// One recording of these: years lie between the two.
		{name: "ten times as fast, rough", tape: one, rough: true, speed: "10"},
		{name: "as recorded, rough", tape: one, rough: true, speed: "1", time: 15 * time.Minute},
	} {
		s.program, s.websockets, s.sse = plain, 50, 20
		t.Run(s.name, s.run)
	}
}
