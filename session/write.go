package session

import (
	"bytes"
	"fmt"

	"github.com/sluice-push/sluice/internal/buffer"
)

// The write path. Whoever writes to the connection holds the pen; there is one for each session, and the mutex is never held
// during a write except for what is said of shutting down in close.go.
//
//	free     nobody writes, and the queue is empty.
//	writing  a caller of Send, TryWrite, ... or the reading goroutine writes from its own stack, without blocking.
//	draining the goroutine in drain waits for the peer. It exists only while the connection has no room.
//
// A sender that finds the pen free takes it and writes at once. One that finds it taken appends to the queue, under
// the policy when that is full, and returns; who holds the pen drains the queue before putting it down (settleLocked). When
// the connection takes no more, the pen goes to a new drain goroutine.
//
// While the messages of one read are handled frames do not go at once but are gathered: see gather.go. TryWrite never gathers: it writes
// what is gathered and then its own frames, so that the order of bytes is the order of calls in every case.

// pen says who may write.
type pen uint8

const (
	penFree pen = iota
	penWriting
	penDraining
)

// settleRounds is how many batches a sender writes on behalf of others before a goroutine takes over.
const settleRounds = 16

// Send encodes msg with the session's codec and writes it. msg is copied or finished with when Send returns. If the connection
// takes it at once that is all; otherwise it is queued, and when the queue is full Options.Policy decides. A nil error means that the
// frame was accepted, not that it has arrived. The errors: [ErrClosed] with the cause, [ErrQueueFull], [ErrTimeout] (Wait, and the
// session has ended for it), and those of the codec, which leave the session as it is.
func (s *Session) Send(msg []byte) error {
	if s.packet != nil {
		return s.packet.send(nil, msg)
	}
	s.mu.Lock()
	g := s.gatherLocked(len(msg) + frameSlack)
	if s.fitsLocked(g, s.encoder, msg) {
		return s.gatherMessage(g, s.encoder, msg)
	}
	return s.sendLocked(g, nil, msg)
}

// SendAs is [Session.Send] with e in the codec's place, for protocols with several kinds of messages: text and binary, compressed or not.
// Like the codec's, calls of e come one at a time and in the order of the bytes, so both may share a state, as compression does, as
// long as nothing is dropped that they have encoded: by DropOldest, or as a datagram. An e that is also a [Prefixer] has large messages
// written without being copied. It must not call the session. A nil e is the codec.
func (s *Session) SendAs(e Encoder, msg []byte) error {
	switch {
	case e == nil:
		return s.Send(msg)
	case s.packet != nil:
		return s.packet.send(e, msg)
	}
	s.mu.Lock()
	g := s.gatherLocked(len(msg) + frameSlack)
	if s.fitsLocked(g, e, msg) {
		return s.gatherMessage(g, e, msg)
	}
	return s.sendLocked(g, e, msg)
}

// fitsLocked reports whether a message is gathered in g. Send does not go by SendAs, for the stack that takes: see encodeError.
func (s *Session) fitsLocked(g *buffer.Batch, e Encoder, msg []byte) bool {
	return g != nil && e != nil && s.phase.Load() == phaseOpen && (len(msg) < gatherWhole || prefixer(e, msg) == nil || !s.c.direct())
}

// encoderLocked returns e, or the codec if that is nil, or why nothing can be sent.
func (s *Session) encoderLocked(e Encoder) (Encoder, error) {
	if e == nil {
		e = s.encoder
	}
	err := s.errLocked()
	if err == nil && e == nil {
		err = ErrNoCodec
	}
	return e, err
}

// prefixer returns e as a Prefixer if it is one and msg is so large that it is better off not copied.
func prefixer(e Encoder, msg []byte) (p Prefixer) {
	if len(msg) >= gatherWhole {
		p, _ = e.(Prefixer)
	}
	return p
}

// sendLocked is SendAs for what is not gathered in g, if that is not nil. It is called with mu held, and releases it.
func (s *Session) sendLocked(g *buffer.Batch, e Encoder, msg []byte) error {
	if g != nil {
		s.pourLocked()
	}
	e, err := s.encoderLocked(e)
	if err != nil {
		s.mu.Unlock()
		return err
	}
	if s.pen == penFree && s.c.direct() {
		return s.encodeNow(e, msg)
	}
	admitted, err := s.admitLocked(len(msg), s.o.Policy)
	if err != nil {
		s.mu.Unlock()
		return err
	}
	if !admitted {
		out, err := s.encodeLocked(e, nil, nil, msg)
		if err != nil {
			s.mu.Unlock()
			return err
		}
		return s.wait(buffer.Frame{B: out, Cost: cap(out)})
	}
	q := s.queueLocked()
	out, err := s.encodeLocked(e, nil, q.Space(len(msg)+frameSlack, &s.srv.pools.Chunk), msg)
	if err == nil {
		q.AddOwned(out, s.now(), false)
	}
	s.queuedLocked()
	s.mu.Unlock()
	return err
}

// encodeLocked calls e for the whole frame, or p, if there is one, for its header. If that panics or ends the goroutine, mu is not held
// any more.
func (s *Session) encodeLocked(e Encoder, p Prefixer, dst, msg []byte) (out []byte, err error) {
	done := false
	defer func() {
		if !done {
			s.mu.Unlock()
		}
	}()
	if p != nil {
		out, err = p.AppendHeader(dst, msg)
	} else {
		out, err = e.AppendEncode(dst, msg)
	}
	done = true
	if err != nil {
		err = encodeError(err)
	}
	return out, err
}

// encodeError says that the codec could not encode. Like other functions that make errors it is one so that who calls it needs less
// stack: what a session uses of its own decides how much memory it holds, and how much of that is cold when bytes come.
//
//go:noinline
func encodeError(err error) error { return fmt.Errorf("session: encode: %w", err) }

// encodeNow writes one message on an idle connection. It is called with mu held, and releases it.
func (s *Session) encodeNow(e Encoder, msg []byte) error {
	b := s.srv.pools.Batch()
	p, rest := prefixer(e, msg), msg
	if p == nil {
		rest = nil
	}
	out, err := s.encodeLocked(e, p, b.Scratch[:0], msg)
	if err != nil {
		s.mu.Unlock()
		s.srv.pools.PutBatch(b)
		return err
	}
	b.Scratch = out[:0]
	return s.writeNow(b, out, rest, false)
}

// Write writes a frame that is already encoded. In all else it is [Session.Send].
func (s *Session) Write(frame []byte) error { return s.writeFrame(frame, false) }

// WriteShared is [Session.Write] for a frame that nobody changes any more: it may be kept, without being copied, until it is
// written, and may be written to many sessions at once.
func (s *Session) WriteShared(frame []byte) error { return s.writeFrame(frame, true) }

func (s *Session) writeFrame(p []byte, shared bool) error {
	if s.packet != nil {
		return s.packet.write(p)
	}
	s.mu.Lock()
	g := s.gatherLocked(len(p))
	if g != nil && shared && len(p) >= gatherWhole && s.c.direct() {
		s.pourLocked()
		g = nil
	}
	if err := s.errLocked(); err != nil || len(p) == 0 {
		s.mu.Unlock()
		return err
	}
	if g != nil {
		g.Gather(p, false)
		s.mu.Unlock()
		return nil
	}
	if s.pen == penFree && s.c.direct() {
		return s.writeNow(s.srv.pools.Batch(), nil, p, shared)
	}
	admitted, err := s.admitLocked(len(p), s.o.Policy)
	switch {
	case err != nil:
		s.mu.Unlock()
		return err
	case !admitted && shared:
		return s.wait(buffer.Frame{B: p})
	case !admitted:
		own := bytes.Clone(p)
		return s.wait(buffer.Frame{B: own, Cost: cap(own)})
	}
	s.addLocked(p, shared, false)
	s.queuedLocked()
	s.mu.Unlock()
	return nil
}

// addLocked adds a frame to the queue.
func (s *Session) addLocked(p []byte, shared, kept bool) {
	if shared {
		s.queueLocked().Add(buffer.Frame{B: p, At: s.now(), Kept: kept})
	} else {
		s.queueLocked().AddCopy(p, s.now(), kept, &s.srv.pools.Chunk)
	}
}

// writeNow writes one frame, in two pieces, on an idle connection. It is called with mu held, and releases it.
func (s *Session) writeNow(b *buffer.Batch, head, p []byte, shared bool) error {
	room, ok := true, true
	for len(head)+len(p) > 0 && room && ok {
		if b.Add(head) == len(head) {
			b.Add(p)
		}
		var n int
		n, room, ok = s.offerLocked(b)
		b.Clear()
		cut := min(n, len(head))
		head, p = head[cut:], p[n-cut:]
	}
	if ok && len(head)+len(p) > 0 {
		if len(head) > 0 {
			p, shared = append(head, p...), false
		}
		f := buffer.Frame{B: p, At: s.now(), Kept: true}
		if !shared {
			f.B, f.From = s.srv.pools.CopyOf(p)
		}
		s.queueLocked().AddTail(f)
	}
	s.srv.pools.PutBatch(b)
	s.settleLocked(room)
	var err error
	if !ok {
		err = s.errLocked()
	}
	s.mu.Unlock()
	return err
}

// offerLocked takes the pen and offers b to the connection, without mu. It returns how much was taken, whether that was all, and
// whether the session is still alive.
func (s *Session) offerLocked(b *buffer.Batch) (n int, room, ok bool) {
	s.pen = penWriting
	s.mu.Unlock()
	n, err := s.c.offer(b)
	s.srv.shard(s).bytesOut.Add(uint64(n))
	s.mu.Lock()
	if err != nil {
		s.brokenLocked(err)
	}
	return n, n == b.Size && !s.c.holding(), s.phase.Load() != phaseClosed
}

// TryWrite offers frames, in order, without ever blocking and without queueing whole frames, and returns how many were taken. A
// frame is taken once the connection has taken at least one byte of it; the rest of a partly taken frame is kept, not copied, and
// sent before anything else. So the frames must never be changed. While something waits to be written none is taken.
//
// Over TLS on an event loop a record of up to 16 KiB counts as taken as soon as it is encrypted. On connections that cannot be
// written without blocking (anything but TCP and Unix sockets on Linux, and TLS connections that were made elsewhere) frames are
// kept whole while less than 64 KiB waits, and count as taken.
//
// When fewer than all were taken, Writable of the handler is called once there is room again: exactly one call for any number of
// refusals before it, and never none. The error is [ErrClosed] with the cause; then Writable is not called.
func (s *Session) TryWrite(frames [][]byte) (taken int, err error) {
	if s.packet != nil {
		return s.packet.tryWrite(frames)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(frames) == 1 && len(frames[0]) > 0 && s.restsLocked() {
		return s.tryAloneLocked(frames[0])
	}
	if s.pen == penFree {
		s.pourLocked()
	}
	if err := s.errLocked(); err != nil {
		return 0, err
	}
	if !s.c.direct() {
		return s.tryQueueLocked(frames), nil
	}
	if s.pen != penFree {
		s.refusedLocked(len(frames))
		return 0, nil
	}
	room := true
	b := s.srv.pools.Batch()
	for room && s.phase.Load() == phaseOpen && taken < len(frames) && s.frontLocked() == nil {
		waiting := s.lendLocked(b)
		if b.Size == waiting && (s.q == nil || waiting == s.q.Bytes() && !s.q.HasLarge()) {
			for _, f := range frames[taken:] {
				if b.Add(f) < len(f) {
					break
				}
			}
		}
		if b.Size == 0 { // only empty frames are left
			taken = len(frames)
			break
		}
		var n int
		n, room, _ = s.offerLocked(b)
		b.Clear()
		taken += s.takenLocked(frames[taken:], n, waiting) // also when the session has ended meanwhile
	}
	s.srv.pools.PutBatch(b)
	s.refusedLocked(len(frames) - taken)
	s.settleLocked(room)
	if taken < len(frames) {
		err = s.errLocked()
	}
	return taken, err
}

// brokenLocked ends a session whose connection has failed.
func (s *Session) brokenLocked(err error) { s.failLocked(ByError, fmt.Errorf("session: %w", err)) }

// takenLocked accounts for n bytes that were written, the first of them from the queue, which had waiting bytes to offer. It
// returns how many of frames have gone, counting the last one when only a part of it has.
func (s *Session) takenLocked(frames [][]byte, n, waiting int) (taken int) {
	if waiting > 0 {
		s.writtenLocked(min(n, waiting))
		n -= min(n, waiting)
	}
	for n > 0 {
		f := frames[taken]
		taken++
		if n < len(f) {
			s.queueLocked().AddTail(buffer.Frame{B: f[n:], At: s.now(), Kept: true})
			break
		}
		n -= len(f)
	}
	return taken
}

// tryQueueLocked is TryWrite on a connection that cannot be written without blocking.
func (s *Session) tryQueueLocked(frames [][]byte) (taken int) {
	for _, f := range frames {
		if s.q != nil && s.q.Bytes() >= tryQueueBytes {
			break
		}
		s.addLocked(f, true, true)
		taken++
	}
	s.refusedLocked(len(frames) - taken)
	if s.pen == penFree && s.q != nil {
		s.startDrainLocked()
	}
	return taken
}

// refusedLocked notes that n frames were not taken by TryWrite.
func (s *Session) refusedLocked(n int) {
	if n > 0 {
		s.want = true
	}
}

// tryQueueBytes is how much may wait before TryWrite takes nothing more, where it has to queue.
const tryQueueBytes = 64 << 10

// queueLocked returns the queue, taking one from the pool if the session holds none.
func (s *Session) queueLocked() *buffer.Queue {
	if s.q == nil {
		s.q = s.srv.pools.Queue()
	}
	return s.q
}

// frontLocked returns the large frame that is to be written next, or nil.
func (s *Session) frontLocked() *buffer.Large {
	if s.q == nil {
		return nil
	}
	return s.q.Front()
}

// lendLocked puts what waits into b and returns how many bytes that is.
func (s *Session) lendLocked(b *buffer.Batch) int {
	if s.q == nil {
		return 0
	}
	s.q.Lend(b)
	return b.Size
}

// writtenLocked takes n written bytes off the queue and lets waiters in.
func (s *Session) writtenLocked(n int) {
	if s.q == nil {
		return
	}
	s.q.Written(n)
	s.letInLocked()
	s.progressLocked(n)
}

// settleLocked is called by who has the pen, or could take it, when its own work is done: it writes what has come into the queue
// meanwhile, hands the pen over to a drain goroutine when there is no room, and otherwise puts it down.
func (s *Session) settleLocked(room bool) {
	for round := 0; room && s.phase.Load() != phaseClosed && s.q != nil && s.q.Len() > 0; round++ {
		if round == settleRounds || !s.c.direct() {
			room = false
			break
		}
		if l := s.frontLocked(); l != nil {
			room = s.offerLargeLocked(l)
			continue
		}
		b := s.srv.pools.Batch()
		s.lendLocked(b)
		var n int
		n, room, _ = s.offerLocked(b)
		s.srv.pools.PutBatch(b)
		s.writtenLocked(n)
	}
	// Without room and with nothing left over, a drain goroutine is needed only if somebody waits for room.
	if !room && s.phase.Load() != phaseClosed && (s.want || s.q != nil && s.q.Len() > 0 || s.c.holding()) {
		s.startDrainLocked()
		return
	}
	s.putDownLocked()
}

// putDownLocked puts the pen down: nothing waits to be written, or nothing ever will be.
func (s *Session) putDownLocked() {
	s.pen = penFree
	s.resumeLocked()
	if s.phase.Load() == phaseClosed {
		s.c.changedLocked() // the end waits for the pen, and takes the queue
		return
	}
	if s.q != nil {
		s.srv.pools.PutQueue(s.q)
		s.q = nil
	}
	if s.phase.Load() == phaseEnding {
		if !s.unreportedLocked() {
			s.writtenOutLocked()
		}
		return
	}
	s.notifyLocked()
}

// queuedLocked is called after a frame was added to the queue by somebody without the pen.
func (s *Session) queuedLocked() {
	if s.pen == penFree && s.q != nil && s.q.Len() > 0 {
		s.settleLocked(true)
	}
	if s.handling {
		s.pauseLocked()
	}
}

// now is the time that frames in the queue carry. Nobody asks without a bound on age.
func (s *Session) now() int64 {
	if s.o.bounds.Age == 0 {
		return 0
	}
	return s.srv.clock()
}
