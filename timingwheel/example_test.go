package timingwheel_test

import (
	"fmt"
	"time"

	"github.com/sluice-push/sluice/timingwheel"
)

// peer is a server's state of one connection. A message only stores the time in lastSeen; the node stays where it is.
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

// Timers replace package time if many timers are moved often and a few milliseconds do not matter.
func ExampleTimers() {
	timers := timingwheel.New(nil)
	defer timers.Close()

	reply := make(chan string)
	timeout := timers.AfterFunc(time.Minute, func() { fmt.Println("no reply") })
	go func() { reply <- "pong" }()
	fmt.Println(<-reply, timeout.Stop())

	select {
	case <-reply:
	case <-timers.After(20 * time.Millisecond):
		fmt.Println("nothing else")
	}
	// Output:
	// pong true
	// nothing else
}

// A test can run code that uses Timers on a FakeClock. It advances the clock by one tick more, because timers may be that late.
func ExampleFakeClock() {
	const tick = 10 * time.Millisecond
	clock := timingwheel.NewFakeClock(time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC))
	timers := timingwheel.New(&timingwheel.Options{Tick: tick, Clock: clock})
	defer timers.Close()

	c := timers.After(time.Hour)
	clock.Advance(time.Hour - 1)
	fmt.Println("sent early:", len(c) > 0)
	clock.Advance(tick)
	fmt.Println("sent:", (<-c).Format(time.TimeOnly))
	// Output:
	// sent early: false
	// sent: 01:00:00
}

// A ticker drops ticks for a slow receiver, and ends when it is stopped.
func ExampleTimers_NewTicker() {
	clock := timingwheel.NewFakeClock(time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC))
	timers := timingwheel.New(&timingwheel.Options{Tick: time.Second, Clock: clock})
	defer timers.Close()

	heartbeat := timers.NewTicker(20 * time.Second)
	for range 2 {
		clock.Advance(time.Minute) // three ticks, of which the channel has room for one
		fmt.Println((<-heartbeat.C).Format(time.TimeOnly), len(heartbeat.C))
	}
	heartbeat.Stop()
	fmt.Println(timers.Len())
	// Output:
	// 00:00:20 0
	// 00:01:20 0
	// 0
}
