package timingwheel_test

import (
	"fmt"
	"time"

	"github.com/sluice-push/sluice/timingwheel"
)

// peer is what a server keeps of one connection. A message only stores the time in lastSeen; the node stays where it is.
type peer struct {
	name     string
	lastSeen int64
	idle     timingwheel.Node[*peer]
}

// Peers that have been silent for 30 s are dropped, and a message costs one store.
func ExampleWheel() {
	const timeout = int64(30 * time.Second)
	w := timingwheel.NewWheel[*peer](100*time.Millisecond, 512)

	alice, bob := &peer{name: "alice"}, &peer{name: "bob"}
	for _, p := range []*peer{alice, bob} {
		p.idle.Value = p
		w.Schedule(&p.idle, timeout)
	}

	looks := 0
	for now := int64(0); w.Len() > 0; now += int64(time.Second) { // the loop of the server
		if now < int64(time.Minute) {
			alice.lastSeen = now // alice sends a message each second of the first minute, bob is silent
		}
		w.Advance(now, func(n *timingwheel.Node[*peer]) {
			looks++
			if end := n.Value.lastSeen + timeout; end > now {
				w.Schedule(n, end) // was active meanwhile: look again when the rest has passed
				return
			}
			fmt.Printf("%v: %s is gone\n", time.Duration(now), n.Value.name)
		})
	}
	fmt.Println("looked", looks, "times")
	// Output:
	// 30s: bob is gone
	// 1m29s: alice is gone
	// looked 4 times
}
