//go:build proof

package main_test

import (
	"os"
	"testing"
	"time"
)

// TestProofReplay replays the full recordings at all speeds, with and without faults, to clients of all transports and forms, of which a third
// is cut over and over: make proof-replay. It takes a quarter of an hour, most of it at the recorded speed.
func TestProofReplay(t *testing.T) {
	folder := os.Getenv("SLUICE_DATA")
	if folder == "" {
		t.Fatal("SLUICE_DATA has to be the folder of the full recordings")
	}
	all, one := fullTraffic(t, folder), readTraffic(t, "one", folder, bitcoin)
	for _, s := range []replayTest{
		{name: "streams", traffic: all},
		{name: "table", traffic: all, table: true},
		{name: "streams, rough", traffic: all, rough: true},
		{name: "table, rough", traffic: all, table: true, rough: true},
		// One of the recordings, because years lie between the two.
		{name: "ten times as fast, rough", traffic: one, rough: true, speed: "10"},
		{name: "as recorded, rough", traffic: one, rough: true, speed: "1"},
	} {
		s.program, s.clients, s.cutEach, s.time = plain, 70, 3, 15*time.Minute
		t.Run(s.name, s.run)
	}
}

// TestProofCluster replays a full recording to clients of a cluster in which each kind of fault happens many times.
func TestProofCluster(t *testing.T) {
	folder := os.Getenv("SLUICE_DATA")
	if folder == "" {
		t.Fatal("SLUICE_DATA has to be the folder of the full recordings")
	}
	clusterTrial{program: plain, traffic: readTraffic(t, "one", folder, coinbase), websockets: 50, events: 20, rounds: 10, speed: "0.25", time: 15 * time.Minute}.run(t)
}
