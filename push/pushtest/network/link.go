package network

import (
	"math"
	"math/rand/v2"
	"time"
)

// link is one direction of a connection: the bytes that are under way, and when they may leave. It has no goroutine, clock or lock: now
// is an argument, the time since some beginning, and does not go back. The owner puts in what arrives, as much as there is room for,
// and takes out what may leave.
//
// Bytes that arrived at once and are due at once are a parcel. Parcels are due in their order, whatever jitter says, so bytes leave in
// theirs. What leaves pays for the bandwidth: paid is the time at which all that has left would have left at the bandwidth, and it may be
// ahead of now by what a burst costs, no more. So in no interval more leaves than the bandwidth carries in it and one burst (the
// generic cell rate algorithm, ITU-T I.371, with bytes for cells).
type link struct {
	way    Way
	jitter *rand.Rand

	bytes   []byte   // under way, in their order, from head on
	head    int      // what is before it has left
	parcels []parcel // of bytes, in their order
	leaving int      // taken, and not delivered yet
	due     time.Duration
	paid    time.Duration

	ending ending
	endDue time.Duration
}

// parcel is bytes that are due together.
type parcel struct {
	due time.Duration
	n   int
}

// ending is how a direction ends.
type ending uint8

const (
	going  ending = iota // it does not
	ended                // by the end of the stream
	broken               // by a reset
)

// never is a time that does not come.
const never = time.Duration(math.MaxInt64)

// grid is what due times are rounded up to, so that there is a bounded number of parcels.
const grid = time.Millisecond

// packet is the burst of a way whose bandwidth carries less in burstTime: what a packet of 1,500 bytes carries.
const (
	packet    = 1460
	burstTime = 20 * time.Millisecond
)

func newLink(w Way, jitter *rand.Rand) *link { return &link{way: w, jitter: jitter} }

// queued is how many bytes are under way that have not been taken.
func (l *link) queued() int { return len(l.bytes) - l.head }

// room is how many bytes more may be under way.
func (l *link) room() int { return max(l.way.buffer()-l.queued()-l.leaving, 0) }

// put adds what has arrived at now. It copies p. There has to be room, unless conditions have taken it away since it was asked for.
func (l *link) put(now time.Duration, p []byte) {
	if len(p) == 0 {
		return
	}
	l.bytes = append(l.bytes, p...)
	due := l.dueAt(now)
	if last := len(l.parcels) - 1; last >= 0 && l.parcels[last].due == due {
		l.parcels[last].n += len(p)
		return
	}
	l.parcels = append(l.parcels, parcel{due: due, n: len(p)})
}

// dueAt is when something is due that arrives at now.
func (l *link) dueAt(now time.Duration) time.Duration {
	w := &l.way
	if w.Delay+w.Jitter == 0 {
		return l.due // which is over, or that of what is before it
	}
	at := now + w.Delay
	if w.Jitter > 0 {
		at += time.Duration(l.jitter.Int64N(int64(w.Jitter) + 1))
	}
	l.due = max(l.due, onGrid(at))
	return l.due
}

// end says that nothing more is put in, and how the direction ends behind what is under way. A reset may follow the end of a stream.
func (l *link) end(now time.Duration, how ending) {
	if how > l.ending {
		l.ending, l.endDue = how, l.dueAt(now)
	}
}

// take moves bytes that may leave at now to dst, and returns how many. When there are none, it says when to ask again: never, when
// something has to be put in first. What was taken is under way until it is said to be delivered.
func (l *link) take(now time.Duration, dst []byte) (n int, next time.Duration) {
	ready := l.ready(now, len(dst))
	if ready == 0 {
		if len(l.parcels) == 0 {
			return 0, never
		}
		return 0, l.parcels[0].due
	}
	n = ready
	if bandwidth := l.way.Bandwidth; bandwidth > 0 {
		grain := min(ready, burst(bandwidth)/2) // less is not worth to wake up for
		if n = min(ready, l.allowed(now)); n < grain {
			return 0, l.paid + cost(grain, bandwidth) - window(bandwidth)
		}
		l.paid = max(l.paid, now) + cost(n, bandwidth)
	}
	copy(dst, l.bytes[l.head:l.head+n])
	l.drop(n)
	l.leaving += n
	return n, 0
}

// ready is how many bytes are due at now, up to so many.
func (l *link) ready(now time.Duration, most int) int {
	n := 0
	for _, p := range l.parcels {
		if p.due > now || n >= most {
			break
		}
		n += p.n
	}
	return min(n, most)
}

// allowed is how many bytes the bandwidth lets leave at now.
func (l *link) allowed(now time.Duration) int {
	free := now + window(l.way.Bandwidth) - max(l.paid, now)
	return int(max(int64(free), 0) * l.way.Bandwidth / int64(time.Second))
}

// drop takes bytes from the front.
func (l *link) drop(n int) {
	l.head += n
	for n > 0 {
		p := &l.parcels[0]
		part := min(n, p.n)
		p.n -= part
		n -= part
		if p.n == 0 {
			l.parcels = l.parcels[1:]
		}
	}
	switch rest := l.queued(); {
	case rest == 0 && cap(l.bytes) > keptBytes:
		l.bytes, l.head, l.parcels = nil, 0, nil
	case rest == 0:
		l.bytes, l.head = l.bytes[:0], 0
	case l.head > rest:
		l.bytes = l.bytes[:copy(l.bytes, l.bytes[l.head:])]
		l.head = 0
	}
}

// keptBytes is how much memory a link keeps when nothing is under way.
const keptBytes = 4 << 10

// delivered says that bytes that were taken have arrived, or are lost.
func (l *link) delivered(n int) { l.leaving -= n }

// discard drops all that is under way and was not taken, and returns how much that is.
func (l *link) discard() int {
	n := l.queued()
	l.drop(n)
	return n
}

// over says how the direction has ended at now: going while anything is before the end, and then when to ask again, never when something
// else has to happen first.
func (l *link) over(now time.Duration) (how ending, next time.Duration) {
	switch {
	case l.ending == going, l.queued()+l.leaving > 0:
		return going, never
	case l.endDue > now:
		return going, l.endDue
	}
	return l.ending, never
}

// change lets another way apply from now on. What is under way is due no later than it would be if it arrived now.
func (l *link) change(now time.Duration, w Way) {
	if w.Bandwidth != l.way.Bandwidth {
		l.paid = min(l.paid, now)
		if w.Bandwidth > 0 {
			l.paid = now + window(w.Bandwidth) // no burst at once: there may just have been one
		}
	}
	l.way = w
	latest := onGrid(now + w.Delay + w.Jitter)
	for i := range l.parcels {
		l.parcels[i].due = min(l.parcels[i].due, latest)
	}
	l.due, l.endDue = min(l.due, latest), min(l.endDue, latest)
}

// onGrid rounds a due time up.
func onGrid(at time.Duration) time.Duration { return (at + grid - 1) / grid * grid }

// burst is how many bytes may leave at once.
func burst(bandwidth int64) int {
	return int(max(bandwidth*int64(burstTime)/int64(time.Second), packet))
}

// window is how far ahead of now bytes may be paid for.
func window(bandwidth int64) time.Duration {
	return time.Duration(int64(burst(bandwidth)) * int64(time.Second) / bandwidth)
}

// cost is how long the bandwidth takes for so many bytes, at most a burst.
func cost(n int, bandwidth int64) time.Duration {
	return time.Duration((int64(n)*int64(time.Second) + bandwidth - 1) / bandwidth)
}
