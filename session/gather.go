package session

import "github.com/sluice-push/sluice/internal/buffer"

// The cork: while the messages of one read are handled, frames are gathered in one piece of memory although the pen is free, and
// leave in one write when the last message has been handled, or when there are many. Frames of other goroutines gather with them,
// because nobody can tell who called; so that a handler which takes its time holds nobody back, a cork that holds something is
// pulled by the watch after one to two milliseconds, and the rest of that read is handled without.
//
// Who takes the pen for something else writes what is gathered first.
//
// Not more is gathered than half of what may wait: if nothing of it finds room, the answers to the message that is being handled still do.
//
// What is gathered lies in the scratch of a batch: the driver's on a loop, else one of the pool. Only who has the pen touches it when
// the mutex is not held. If the connection does not take all of it the rest becomes frames in the queue, as if it had been there.

const (
	gatherBytes = 32 << 10 // what is gathered at most, but for the last frame
	gatherWhole = 8 << 10  // a shared frame of that size is better written as it is
	frameSlack  = 16       // what encoding is thought to add
)

// gatherLocked returns where to gather a frame of about size bytes, or nil when frames are not gathered. It may write what is there
// already, and let go of the mutex for that.
func (s *Session) gatherLocked(size int) *buffer.Batch {
	if !s.corked || s.pen != penFree {
		return nil
	}
	if g := s.gathered; g != nil {
		if len(g.Scratch) == 0 || len(g.Scratch)+size <= s.o.gather && len(g.Ends) < s.o.bounds.Frames/2 {
			return g
		}
		s.pourLocked()
		if !s.corked || s.pen != penFree {
			return nil
		}
	}
	if s.gathered == nil {
		if !s.watchLocked() {
			return nil
		}
		s.gathered = s.srv.pools.Batch()
	}
	return s.gathered
}

// gatherMessage encodes msg into g. It is called with mu held, and releases it.
func (s *Session) gatherMessage(g *buffer.Batch, e Encoder, msg []byte) error {
	defer s.mu.Unlock() // also when e panics
	out, err := e.AppendEncode(g.Scratch, msg)
	if err != nil {
		return encodeError(err)
	}
	g.Scratch = out
	g.Gathered(false)
	return nil
}

// pourLocked writes what is gathered; the pen is free.
func (s *Session) pourLocked() {
	g := s.gathered
	if g == nil || len(g.Scratch) == 0 {
		return
	}
	switch {
	case s.phase.Load() == phaseClosed:
		s.lost += len(g.Scratch)
		g.Forget()
		return
	case !s.c.direct():
		s.spillLocked(0)
		s.startDrainLocked()
		s.pauseLocked()
		return
	}
	sent, room, ok := 0, true, true
	for room && ok && sent < len(g.Scratch) {
		g.Add(g.Scratch[sent:])
		var n int
		n, room, ok = s.offerLocked(g)
		g.Clear()
		sent += n
	}
	s.pouredLocked(g, sent, room, ok)
}

// pouredLocked accounts for the first bytes of g, as many as were sent, sees to the rest, and puts the pen down or hands it on.
func (s *Session) pouredLocked(g *buffer.Batch, sent int, room, ok bool) {
	if ok {
		s.spillLocked(sent)
	} else {
		s.lost += len(g.Scratch) - sent
		g.Forget()
	}
	if !s.corked { // it was pulled meanwhile
		s.gathered = nil
		s.srv.pools.PutBatch(g)
	}
	s.settleLocked(room)
	s.pauseLocked()
}

// spillLocked moves what is gathered, but for the first bytes, which have been sent, to the front of the queue.
func (s *Session) spillLocked(sent int) {
	g := s.gathered
	if g == nil {
		return
	}
	if sent < len(g.Scratch) {
		own, from := s.srv.pools.CopyOf(g.Scratch[sent:])
		start, started := 0, false
		var frames []buffer.Frame
		for _, e := range g.Ends {
			end := e >> 1
			isKept, last := e&1 == 1, len(frames)-1
			switch {
			case end <= sent:
			case isKept && last >= 0 && frames[last].Kept: // many small ones take one place
				frames[last].B = frames[last].B[:len(frames[last].B)+end-start]
			default:
				started = started || start < sent
				first := max(start, sent)
				frames = append(frames, buffer.Frame{B: own[first-sent : end-sent], At: s.now(), Kept: isKept})
			}
			start = end
		}
		s.queueLocked().AddFront(frames, from, started)
	}
	g.Forget()
}

// cork begins to gather what is sent: the messages of one read are being handled.
func (s *Session) cork() {
	s.mu.Lock()
	s.corkLocked(nil)
	s.mu.Unlock()
}

// corkLocked is cork, with a batch to gather in, if the caller has one to lend.
func (s *Session) corkLocked(g *buffer.Batch) {
	s.corked, s.overdue, s.handling = true, false, true
	if s.gathered == nil {
		s.gathered = g
	}
}

// uncork ends it, and writes what was gathered; inside says by whom: see batch.
func (s *Session) uncork(inside bool) {
	s.mu.Lock()
	s.uncorkNowLocked(inside)
	s.mu.Unlock()
}

// handledAll is uncork when all messages of the read have been handled.
func (s *Session) handledAll(inside bool) {
	s.mu.Lock()
	s.uncorkNowLocked(inside)
	s.handledLocked()
	s.mu.Unlock()
}

func (s *Session) uncorkNowLocked(inside bool) {
	if g := s.gathered; g != nil && s.pen == penFree {
		g.Inside = inside
		s.pourAloneLocked()
	}
	if g := s.uncorkLocked(); g != nil {
		s.srv.pools.PutBatch(g)
	}
}

// uncorkLocked returns the batch that is not needed any more, if there is one: not while somebody else is writing from it.
func (s *Session) uncorkLocked() *buffer.Batch {
	s.corked = false
	if s.slot != 0 {
		s.srv.watch.corked.Leave(int(s.slot) - 1)
		s.slot = 0
	}
	if s.pen != penFree && s.gathered != nil && len(s.gathered.Scratch) > 0 {
		return nil
	}
	g := s.gathered
	if g != nil && len(g.Scratch) > 0 {
		s.corked = true // so that the batch stays
		s.pourLocked()
		s.corked = false
		if s.gathered != g { // pulled meanwhile, and given back
			return nil
		}
	}
	s.gathered = nil
	return g
}

// watchLocked makes sure that the watch knows of the cork, which is about to hold something. If it has no place, the cork is
// drawn.
func (s *Session) watchLocked() bool {
	if s.slot == 0 && !s.seat.inline { // the watch looks at loops anyhow
		s.slot = uint8(s.srv.watch.enter(s) + 1)
		s.corked = s.slot != 0
	}
	return s.corked
}

// watched is called by the watch.
func (s *Session) watched() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.slot == 0 || s.pen != penFree || s.gathered == nil || len(s.gathered.Scratch) == 0 {
		return
	}
	if !s.overdue {
		s.overdue = true
		return
	}
	if g := s.uncorkLocked(); g != nil {
		s.srv.pools.PutBatch(g)
	}
}
