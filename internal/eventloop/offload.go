package eventloop

import (
	"sync/atomic"
	"time"
)

// The sessions of a group, such as those of one event loop, share a thread. A handler that blocks holds up the whole group until the watchdog has
// noticed it and another thread has taken over, about two milliseconds. A session whose handler has blocked is therefore offloaded for
// five seconds: its handlers run on a goroutine. If two sessions of a group block within a second, every session of the group is offloaded
// for five seconds, because the next one is likely to block too. Afterwards handlers run on the shared thread again, where the next one
// that blocks starts over. Times are nanoseconds of a monotonic clock.

const (
	offloadFor = 5 * time.Second
	together   = time.Second // two blocked handlers within this time say something about the whole group

	maxGap = 2 * time.Millisecond // the share of a pause between two observations that counts: for longer, no thread was running
)

// OffloadGroup is a set of sessions that share a thread. The zero value is ready for use. All methods may be called concurrently.
type OffloadGroup struct {
	blocked atomic.Int64 // when a handler blocked last, 0 for never
	until   atomic.Int64 // every session is offloaded until then
}

// Offloaded reports whether every session of the group is offloaded.
func (g *OffloadGroup) Offloaded(now int64) bool { return now < g.until.Load() }

// Blocked records that the handler of a session has blocked the group.
func (g *OffloadGroup) Blocked(now int64) {
	last := g.blocked.Swap(now)
	if last != 0 && now-last <= int64(together) {
		g.OffloadUntil(now + int64(offloadFor))
	}
}

// OffloadUntil offloads every session of the group at least until the time at.
func (g *OffloadGroup) OffloadUntil(at int64) {
	for {
		until := g.until.Load()
		if at <= until || g.until.CompareAndSwap(until, at) {
			return
		}
	}
}

// OffloadState is the part of a session that says whether it is offloaded. The zero value is not. It has no lock of its own.
type OffloadState struct{ until int64 }

// Offload offloads the session for five seconds, after its handler has blocked.
func (s *OffloadState) Offload(now int64) { s.until = now + int64(offloadFor) }

// Offloaded reports whether the session is offloaded, by itself or with its group.
func (s *OffloadState) Offloaded(g *OffloadGroup, now int64) bool {
	return now < s.until || g.Offloaded(now)
}

// StallDetector measures how long a sequence number has stood still. It belongs to one goroutine at a time, the one that observes. The zero value has
// observed nothing.
type StallDetector struct {
	seq      uint64
	observed int64         // the time of the last observation
	lasted   time.Duration // how long seq has been the same
}

// Observe records the sequence number at a time, and returns for how long it has been the same. Of a pause between two observations at most two
// milliseconds count: if it was longer, the process did not run.
func (v *StallDetector) Observe(seq uint64, now int64) time.Duration {
	if seq == v.seq {
		v.lasted += min(time.Duration(now-v.observed), maxGap)
	} else {
		v.lasted = 0
	}
	v.seq, v.observed = seq, now
	return v.lasted
}
