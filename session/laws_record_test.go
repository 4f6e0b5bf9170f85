package session_test

import (
	"encoding/binary"
	"errors"
	"io"
	"slices"
	"sync"
	"sync/atomic"
	"syscall"

	"github.com/sluice-push/sluice/session"
)

// The record of one session: the frames that were offered to it, the result of each call, the calls that ended it, and the functions that ran.
// When all has ended, the record is checked against the bytes that its peer received.
//
// Time is a counter that all sessions of a trial share: if one call returned before another began, the end of the first is less than the
// beginning of the second.

// offer is one frame that was given to a call for writing.
type offer struct {
	size       int
	begin, end int64
	outcome    outcome
	last       bool // it was given to End
}

type outcome uint8

const (
	pending outcome = iota // the call has not returned
	accepted
	refused // for good: no byte of it may have been written
	failed  // the session ended during the call: a part of it may have been written
)

// endCall is a call that ends a session.
type endCall struct {
	cause      error
	begin, end int64
}

type record struct {
	trial *trial
	s     *session.Session

	state     atomic.Int32 // 0 new, 1 open, 2 closed
	running   atomic.Int32 // Open, Message, Tick, Close
	notifying atomic.Int32 // Writable
	messages  uint32       // how many arrived
	client    uint32       // the number of the client that sent them

	mu      sync.Mutex
	offers  []offer
	endings []endCall
	closed  session.CloseInfo
	over    int64 // when Close of the handler was called; 0 is not yet
}

// enter records that a function begins that must not overlap with others.
func (b *record) enter(name string, state int32) (leave func()) {
	if n := b.running.Add(1); n != 1 {
		b.trial.bad("%s while another function runs", name)
	}
	if now := b.state.Load(); now != state {
		b.trial.bad("%s in state %d", name, now)
	}
	return func() { b.running.Add(-1) }
}

// headBytes is the size of a frame's head: its length, and the numbers of the offer and of the session.
const headBytes = 4 + 8 + 4

// frames makes n frames of size bytes and records them as offers.
func (b *record) frames(n, size int, last bool) (first int, all [][]byte) {
	b.mu.Lock()
	defer b.mu.Unlock()
	first = len(b.offers)
	now := b.trial.stamp.Add(1)
	for i := range n {
		b.offers = append(b.offers, offer{size: size, begin: now, last: last})
		p := make([]byte, headBytes, size)
		binary.BigEndian.PutUint32(p, uint32(size-4))
		binary.BigEndian.PutUint64(p[4:], uint64(first+i))
		binary.BigEndian.PutUint32(p[12:], uint32(b.s.ID()))
		for len(p) < size {
			p = append(p, filling(first+i, len(p)))
		}
		all = append(all, p)
	}
	return first, all
}

func filling(number, at int) byte { return byte(number*31 + at) }

// setOutcome records the outcome of n offers.
func (b *record) setOutcome(first, n int, v outcome) {
	b.mu.Lock()
	defer b.mu.Unlock()
	now := b.trial.stamp.Add(1)
	for i := range n {
		b.offers[first+i].end, b.offers[first+i].outcome = now, v
	}
}

// wrote records the result of Send, Write or WriteShared, and reports whether the session is still open.
func (b *record) wrote(first int, err error) bool {
	switch {
	case err == nil:
		b.setOutcome(first, 1, accepted)
		return true
	case errors.Is(err, session.ErrQueueFull) && !errors.Is(err, session.ErrClosed):
		b.setOutcome(first, 1, refused)
		return true
	case errors.Is(err, session.ErrClosed):
		b.setOutcome(first, 1, failed)
		return false
	default:
		b.trial.bad("an offer was answered by %v", err)
		return false
	}
}

// ends records a call that ends the session.
func (b *record) ends(cause error, call func()) {
	begin := b.trial.stamp.Add(1)
	call()
	b.mu.Lock()
	defer b.mu.Unlock()
	b.endings = append(b.endings, endCall{cause, begin, b.trial.stamp.Add(1)})
}

// check checks the laws after everything has ended.
func (b *record) check(received []byte, whole bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.over == 0 || b.state.Load() != 2 {
		b.trial.bad("session %d is in state %d", b.s.ID(), b.state.Load())
		return
	}
	b.checkCause()
	b.checkSum()
	if received != nil {
		b.checkReceived(received, whole)
	}
}

// checkCause checks that the reported cause is possible, and that no other came first.
func (b *record) checkCause() {
	info := b.closed
	fits := false
	var pe *session.PanicError
	switch info.By {
	case session.ByLocal:
		fits = errors.Is(info.Err, session.ErrClosed) || errors.Is(info.Err, session.ErrServerClosed) || errors.Is(info.Err, errOurs)
	case session.ByPeer:
		fits = errors.Is(info.Err, io.EOF) || errors.Is(info.Err, io.ErrUnexpectedEOF)
	case session.ByTimeout:
		fits = errors.Is(info.Err, session.ErrTimeout)
	case session.ByError:
		fits = true
		for _, never := range []error{syscall.EBADF, syscall.ENOENT, syscall.EEXIST, syscall.EINVAL, syscall.ENOTSOCK} {
			fits = fits && !errors.Is(info.Err, never)
		}
	case session.ByPanic:
		fits = errors.As(info.Err, &pe)
	case session.ByRefusal:
		fits = errors.Is(info.Err, errOurs)
	case session.BySlow:
		fits = errors.Is(info.Err, session.ErrQueueFull)
	}
	if !fits {
		b.trial.bad("ended by %v, %v", info.By, info.Err)
	}
	b.checkFirst()
}

// checkFirst checks that at least one call with the reported cause did not begin after another call had ended the session.
func (b *record) checkFirst() {
	found, first := false, false
	for _, mine := range b.endings {
		if mine.cause != b.closed.Err { //nolint:errorlint // the very one
			continue
		}
		found = true
		first = first || !slices.ContainsFunc(b.endings, func(other endCall) bool { return other.end < mine.begin })
	}
	if found && !first {
		b.trial.bad("the cause is %v, but another came first", b.closed.Err)
	}
}

// checkSum checks that accepted bytes were given to the connection, are reported undelivered, or were dropped by the policy.
func (b *record) checkSum() {
	took, dropped := session.Took(b.s)
	if b.closed.Undelivered < 0 {
		b.trial.bad("%d bytes undelivered", b.closed.Undelivered)
	}
	var sure, maybe, refusals int
	for _, o := range b.offers {
		switch {
		case o.outcome == pending:
			b.trial.bad("a call has not returned")
		case o.last || o.outcome == failed:
			maybe += o.size
		case o.outcome == accepted:
			sure += o.size
		case o.end > o.begin: // the policy refused it; a refusal of TryWrite has no duration
			refusals++
		}
	}
	if b.trial.o.Policy == session.DropOldest {
		took += (dropped - refusals) * b.trial.fixed
	}
	if total := took + b.closed.Undelivered; total < sure || total > sure+maybe {
		b.trial.bad("%v: %d bytes accepted, perhaps %d more; %d taken or dropped, %d undelivered (%v, %v)",
			b.trial.o.Policy, sure, maybe, took, b.closed.Undelivered, b.closed.By, b.closed.Err)
	}
}

// checkReceived checks that the peer received whole frames in the order of the calls, except for the last one, and that no frame is missing
// before another. If the peer has seen the orderly end, it has received all bytes that the connection took.
func (b *record) checkReceived(received []byte, whole bool) {
	took, _ := session.Took(b.s)
	if len(received) > took || whole && len(received) != took {
		b.trial.bad("%d bytes were received, to the end: %v; the connection took %d", len(received), whole, took)
	}
	came := make([]bool, len(b.offers))
	latest := int64(0) // the beginning of the latest call of which a frame arrived
	previous := -1
	for len(received) >= headBytes {
		size, number := 4+int(binary.BigEndian.Uint32(received)), int(binary.BigEndian.Uint64(received[4:]))
		if number < 0 || number >= len(b.offers) || b.offers[number].size != size || came[number] {
			b.trial.bad("frame %d of %d bytes came", number, size)
			return
		}
		o := b.offers[number]
		got := received[:min(size, len(received))]
		for i := headBytes; i < len(got); i++ {
			if got[i] != filling(number, i) {
				b.trial.bad("frame %d is broken at byte %d", number, i)
				return
			}
		}
		switch {
		case o.outcome == refused:
			b.trial.bad("frame %d came, but had been refused", number)
		case o.end < latest:
			b.trial.bad("frame %d came after one that was offered later", number)
		case previous >= 0 && o.begin == b.offers[previous].begin && number < previous:
			b.trial.bad("frame %d came after %d of the same call", number, previous)
		case previous >= 0 && b.offers[previous].last:
			b.trial.bad("frame %d came after the last one", number)
		}
		latest, previous = max(latest, o.begin), number
		came[number] = true
		received = received[len(got):]
	}
	if b.trial.o.Policy == session.DropOldest {
		return
	}
	for number, o := range b.offers {
		if o.outcome == accepted && !o.last && !came[number] && o.end < latest {
			b.trial.bad("frame %d is missing among those that came", number)
		}
	}
}
