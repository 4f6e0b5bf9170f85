// Package timingwheel holds timers by the hundred thousand: coarse, cheap to move, and without a heap entry or a goroutine each.
//
//	[Wheel]      the bare wheel: no goroutine, no lock, no clock; for who has a loop and the time already
//	[Node]       one timer of a wheel, embedded in what it belongs to
//	[Timers]     After, AfterFunc, NewTimer, NewTicker and Tick of package time, over one wheel; safe for any goroutine
//	[FakeClock]  a clock for tests that moves when told
//
// Where package time is used, Timers take its place; they are made once, and shared:
//
//	timers := timingwheel.New(nil)
//	defer timers.Close()
//	select {
//	case answer := <-answers:
//		…
//	case <-timers.After(5 * time.Second):
//		…
//	}
//
// For few timers package time is right. These are for very many, of which most are moved or stopped before they fire: time-outs of
// connections and of requests.
//
// # Coarse, but never early
//
// Time is cut into ticks. A timer fires on the first tick at or after its instant, hence never early and at most one tick later
// than it would have. Everything that is due in one tick is handled in one go: a hundred thousand timers cost at most one wake-up a
// tick, and none while nothing is due.
//
// # Lazy deadlines
//
// An idle timeout moves with each message and almost never fires. Moving a node costs little, but a store costs less: let
// activity only write down the present time, leave the node where it is, and when it expires look how long the silence has
// really been. Usually it has not been long enough, and the owner schedules the node again for the rest. Each owner is so looked at
// once a timeout, however many messages pass. The example of [Wheel] does this.
//
// # The algorithm
//
// A hashed wheel with unsorted lists: Varghese and Lauck, "Hashed and Hierarchical Timing Wheels" (SOSP 1987), scheme 6.
package timingwheel
