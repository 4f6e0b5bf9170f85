package network

import (
	"math"
	"math/rand/v2"
	"time"
)

// link is one direction of a connection: the bytes under way, and the times at which they may leave. It has no goroutine, clock or lock: now is
// an argument, the time since some beginning, and does not go back. The owner puts in the bytes that arrive, as far as there is room, and takes
// out the ones that may leave.
//
// Bytes that arrived together and are due together are a parcel. Parcels are due in order, whatever the jitter, so bytes leave in order. The
// bandwidth is limited by the generic cell rate algorithm (ITU-T I.371), with bytes for cells. paid is the time at which all bytes that have
// left would have left at the bandwidth. It may be ahead of now by the cost of a burst, but no more. So in no interval more bytes leave than the
// bandwidth carries in it, plus one burst.
type link struct {
	way    Way
	jitter *rand.Rand

	bytes   []byte   // under way, in order, from index head on
	head    int      // the bytes before it have left
	parcels []parcel // of bytes, in order
	leaving int      // how many bytes were taken but not delivered yet
	due     time.Duration
	paid    time.Duration

	ending ending
	endDue time.Duration
}

// parcel is a number of bytes that are due together.
type parcel struct {
	due time.Duration
	n   int
}

// ending is how a direction ends.
type ending uint8

const (
	going  ending = iota // it has not ended
	ended                // by the end of the stream
	broken               // by a reset
)

// never is a time that is never reached.
const never = time.Duration(math.MaxInt64)

// grid is the unit to which due times are rounded up. It bounds the number of parcels.
const grid = time.Millisecond

// packet is the least burst, the payload of a packet of 1,500 bytes. burstTime is the time whose bytes are a burst otherwise.
const (
	packet    = 1460
	burstTime = 20 * time.Millisecond
)

func newLink(w Way, jitter *rand.Rand) *link { return &link{way: w, jitter: jitter} }

// queued returns how many bytes are under way that have not been taken.
func (l *link) queued() int { return len(l.bytes) - l.head }

// room returns how many more bytes may be under way.
func (l *link) room() int { return max(l.way.buffer()-l.queued()-l.leaving, 0) }

// put adds the bytes that arrive at now. It copies p. There has to be room, unless a change of the conditions has taken it away meanwhile.
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

// dueAt returns the time at which bytes are due that arrive at now.
func (l *link) dueAt(now time.Duration) time.Duration {
	w := &l.way
	if w.Delay+w.Jitter == 0 {
		return l.due // the past, or the time of the bytes before
	}
	at := now + w.Delay
	if w.Jitter > 0 {
		at += time.Duration(l.jitter.Int64N(int64(w.Jitter) + 1))
	}
	l.due = max(l.due, onGrid(at))
	return l.due
}

// end records that no more bytes follow, and how the direction ends behind those under way. A reset may follow the end of a stream.
func (l *link) end(now time.Duration, how ending) {
	if how > l.ending {
		l.ending, l.endDue = how, l.dueAt(now)
	}
}

// take moves bytes that may leave at now to dst, and returns how many. If there are none, it returns when to ask again, or never if bytes have
// to be put in first. Bytes that were taken count as under way until delivered is called.
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
		grain := min(ready, burst(bandwidth)/2) // fewer bytes are not worth waking up for
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

// ready returns how many bytes are due at now, up to most.
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

// allowed returns how many bytes the bandwidth lets leave at now.
func (l *link) allowed(now time.Duration) int {
	free := now + window(l.way.Bandwidth) - max(l.paid, now)
	return int(max(int64(free), 0) * l.way.Bandwidth / int64(time.Second))
}

// drop removes bytes from the front.
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

// keptBytes is how much memory a link keeps when no bytes are under way.
const keptBytes = 4 << 10

// delivered records that taken bytes have arrived or are lost.
func (l *link) delivered(n int) { l.leaving -= n }

// discard drops all bytes under way that were not taken, and returns how many.
func (l *link) discard() int {
	n := l.queued()
	l.drop(n)
	return n
}

// over returns how the direction has ended at now. While bytes are before the end, it returns going and when to ask again, or never if another
// event has to come first.
func (l *link) over(now time.Duration) (how ending, next time.Duration) {
	switch {
	case l.ending == going, l.queued()+l.leaving > 0:
		return going, never
	case l.endDue > now:
		return going, l.endDue
	}
	return l.ending, never
}

// change makes another way apply from now on. Bytes under way are due no later than if they arrived now.
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

// burst returns how many bytes may leave at once.
func burst(bandwidth int64) int {
	return int(max(bandwidth*int64(burstTime)/int64(time.Second), packet))
}

// window returns how far paid may be ahead of now.
func window(bandwidth int64) time.Duration {
	return time.Duration(int64(burst(bandwidth)) * int64(time.Second) / bandwidth)
}

// cost returns how long the bandwidth takes for n bytes, at most a burst.
func cost(n int, bandwidth int64) time.Duration {
	return time.Duration((int64(n)*int64(time.Second) + bandwidth - 1) / bandwidth)
}
