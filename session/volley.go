package session

import (
	"slices"

	"github.com/sluice-push/sluice/internal/buffer"
	"github.com/sluice-push/sluice/internal/prefetch"
)

// # Volleys
//
// What goes to thousands of sessions finds each of them cold when its turn comes, and the code between two system calls as well, because
// the kernel has run since. So it goes by volleys: the pens of some dozens of sessions at rest are taken, then there are as many system calls
// with nothing in between, then the pens are put down. No mutex is held meanwhile. Whoever has something else for one of these sessions finds
// its pen taken and queues it, and who puts the pen down sees to the queue.

const (
	volleySize  = 64       // pens that are held at a time, for some hundred microseconds
	volleyFrame = 16 << 10 // bytes in a frame at most: the system calls are not preempted
	volleyAhead = 4        // for how many sessions ahead memory is asked for
)

// Letter is a message of [SendAll] for one session.
type Letter struct {
	Session *Session
	As      Encoder // as that of [Session.SendAs]; nil is the session's codec
	Msg     []byte  // borrowed until SendAll returns
	Err     error   // set: what SendAs would have returned
}

// SendAll is [Session.SendAs] for many sessions, each of which should occur once: for sessions on event loops that have nothing else to write it
// takes less time than a call for each. An encoder that is a [Prefixer] and has no header has its messages written without being copied.
// The sessions may be of several servers. Under the Wait policy SendAll waits for each of them in turn. Any number of goroutines may call it.
func SendAll(letters []Letter) {
	var v volley
	for some := range slices.Chunk(letters, volleySize) {
		v.send(some)
	}
}

// Offer is one frame of [TryWriteAll] for one session.
type Offer struct {
	Session *Session
	Frame   []byte // as each of [Session.TryWrite]: it must never be changed
	Taken   bool   // set: whether TryWrite would have returned 1

	inHand bool // the session's pen
	n      int
	err    error
}

// TryWriteAll is [Session.TryWrite] of one frame to each of many sessions, in less time than a call for each takes where these are on event
// loops and have nothing else to write. As there, Writable is called later of those that did not take their frames and are not over. A
// session that occurs several times is offered its frames in order. Any number of goroutines may call it.
func TryWriteAll(offers []Offer) {
	for len(offers) > 0 { // slices.Chunk would move the caller's array to the heap
		n := min(len(offers), volleySize)
		tryVolley(offers[:n])
		offers = offers[n:]
	}
}

// tryVolley is TryWriteAll of one volley.
func tryVolley(offers []Offer) {
	for i := range offers {
		if i+volleyAhead < len(offers) {
			prefetch.Value(offers[i+volleyAhead].Session)
		}
		o := &offers[i]
		o.inHand = len(o.Frame) > 0 && len(o.Frame) <= volleyFrame && o.Session.takePen()
	}
	for i := range offers {
		if o := &offers[i]; o.inHand {
			o.n, o.err = o.Session.offerOne(o.Frame)
		}
	}
	for i := range offers {
		var taken int
		o, s := &offers[i], offers[i].Session
		if o.inHand {
			s.mu.Lock()
			taken, _ = s.triedLocked(o.Frame, o.n, o.err)
			s.mu.Unlock()
		} else {
			taken, _ = s.TryWrite([][]byte{o.Frame})
		}
		o.Taken = taken == 1
	}
}

// takePen takes the pen of a session at rest, and reports whether it is one.
func (s *Session) takePen() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.restsLocked() {
		return false
	}
	s.pen = penWriting
	return true
}

// volley is a frame for each of several sessions at rest, whose pens it has taken.
type volley struct {
	n     int
	shots [volleySize]shot
}

type shot struct {
	letter *Letter
	frame  []byte
	n      int // how much of it was written
	err    error
}

// send sends letters, at most as many as a volley has room for. An encoder that panics leaves no pen behind.
func (v *volley) send(letters []Letter) {
	pools := letters[0].Session.srv.pools
	b := pools.Batch()
	defer func() {
		v.fire()
		b.Scratch = b.Scratch[:0]
		pools.PutBatch(b)
	}()
	for i := range letters {
		if i+volleyAhead < len(letters) {
			prefetch.Value(letters[i+volleyAhead].Session)
		}
		letters[i].Err = v.add(&letters[i], b)
	}
}

// add takes the pen of a session for the frame of a letter, or sends the letter if the session is not at rest. Frames that are made here lie in b.
func (v *volley) add(l *Letter, b *buffer.Batch) error {
	s := l.Session
	s.mu.Lock()
	if len(l.Msg) > volleyFrame || !s.restsLocked() || s.gathered != nil {
		s.mu.Unlock()
		v.fire() // nobody waits with the pens of others
		return s.SendAs(l.As, l.Msg)
	}
	from, out := len(b.Scratch), b.Scratch
	e, err := s.encoderLocked(l.As)
	p, _ := e.(Prefixer)
	if err == nil {
		out, err = s.encodeLocked(e, p, out, l.Msg)
	}
	if err != nil {
		s.mu.Unlock()
		return err
	}
	if p != nil && len(out) > from {
		out = append(out, l.Msg...)
	}
	frame := out[from:]
	if b.Scratch = out; p != nil && len(frame) == 0 {
		frame = l.Msg
	}
	if len(frame) > 0 {
		s.pen = penWriting
		v.shots[v.n] = shot{letter: l, frame: frame}
		v.n++
	}
	s.mu.Unlock()
	return nil
}

// fire writes the frames and puts the pens down.
func (v *volley) fire() {
	shots := v.shots[:v.n]
	for i := range shots {
		shots[i].n, shots[i].err = shots[i].letter.Session.offerOne(shots[i].frame)
	}
	for i := range shots {
		shots[i].letter.Err = shots[i].letter.Session.fired(&shots[i])
	}
	clear(v.shots[:v.n])
	v.n = 0
}

// fired is called when the frame of a volley was written, or as much of it as the connection took.
func (s *Session) fired(w *shot) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.smoothLocked(w.n == len(w.frame), w.n, w.err) {
		return nil
	}
	rest, isOver := w.frame[w.n:], s.phase.Load() == phaseClosed
	if len(rest) > 0 && !isOver {
		own, from := s.srv.pools.CopyOf(rest)
		s.queueLocked().AddTail(buffer.Frame{B: own, From: from, At: s.now(), Kept: true})
	}
	s.settleLocked(len(rest) == 0)
	if isOver {
		return s.errLocked()
	}
	return nil
}
