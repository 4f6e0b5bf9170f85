// Package timingwheel implements timers for programs that have hundreds of thousands of them. They are coarse, cheap to move, and need neither a
// heap entry nor a goroutine each.
//
//	[Wheel]      the bare wheel: no goroutine, no lock, no clock; for callers that already have a loop and know the time
//	[Node]       one timer of a wheel, embedded in the object that it belongs to
//	[Timers]     After, AfterFunc, NewTimer, NewTicker and Tick of package time, over one wheel; safe for concurrent use
//	[FakeClock]  a clock for tests, which moves only when the test advances it
//
// A program that uses package time can use Timers instead. They are made once and shared:
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
// For few timers package time is the right choice. This package is for very many timers, most of which are moved or stopped before they fire:
// timeouts of connections and of requests.
//
// # Coarse, but never early
//
// Time is divided into ticks. A timer fires on the first tick at or after its instant: never early, and at most one tick later than an exact
// timer. All timers that are due in one tick are handled together. A hundred thousand timers cost at most one wake-up a tick, and none while no
// timer is due.
//
// # Lazy deadlines
//
// An idle timeout moves with each message and almost never fires. Moving a node costs little, but a store costs less. So activity only stores
// the present time and leaves the node where it is. When the node expires, the owner computes how long the silence has really been. Usually it
// has not been long enough, and the owner schedules the node again for the rest. Each owner is thus examined once a timeout, however many
// messages pass. The example of [Wheel] does this.
//
// # The algorithm
//
// A hashed wheel with unsorted lists: Varghese and Lauck, "Hashed and Hierarchical Timing Wheels" (SOSP 1987), scheme 6.
package timingwheel
