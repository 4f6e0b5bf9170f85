package session

import (
	"fmt"
	"io"
	"os"

	"github.com/sluice-push/sluice/internal/buffer"
)

// Large frames: files, and memory that is not worth being copied. Such a frame stands in the queue like any other, but takes no
// memory there, and the caller waits until nothing refers to it any more. Whoever has the pen writes it in steps, between which others
// get their turns; the kernel sends files itself (sendfile), and from Options.ZeroCopy on memory without copying it, on the sockets of
// event loops: see zerocopy_linux.go.

// WriteLarge is [Session.Write] for large frames: it copies nothing, and returns when frame is the caller's again. Then all of it has been
// taken by the connection, unless there is an error; that it has arrived is not known. It stands in line with what else is written,
// whatever Options.Policy says, and takes no room in the queue. What bounds the time is Options.WriteTimeout, for which the peer may
// take nothing. From Options.ZeroCopy bytes on it is sent without being copied by the kernel either. The errors are [ErrClosed] with the
// cause, and [ErrTimeout]; the session has ended then. After an error with ZeroCopy a network card may read frame for a moment more: leave
// it to the garbage collector rather than to another use.
func (s *Session) WriteLarge(frame []byte) error {
	if s.packet != nil {
		return s.packet.write(frame)
	}
	if len(frame) == 0 {
		return nil
	}
	return s.writeLarge(buffer.NewMemory(frame))
}

// WriteFile writes head, which may be empty, and size bytes of f from offset on as one frame, which is already encoded, and waits like
// [Session.WriteLarge]. Over plain TCP and Unix sockets on Linux the kernel sends the file itself (sendfile); elsewhere, and over TLS, it
// is read in pieces of Options.ReadBuffer. f is a regular file, whose position is neither used nor changed, so several sessions may send
// it at the same time; it must stay open until WriteFile has returned. If f ends before size bytes the error is io.ErrUnexpectedEOF: nothing was written
// if that was known from the start, otherwise the session has ended. The other errors are those of WriteLarge.
func (s *Session) WriteFile(head []byte, f *os.File, offset, size int64) error {
	if offset < 0 || size < 0 {
		return fmt.Errorf("session: write file: offset %d and size %d must not be negative", offset, size)
	}
	info, err := f.Stat()
	switch {
	case err != nil:
		return fmt.Errorf("session: write file: %w", err)
	case !info.Mode().IsRegular():
		return fmt.Errorf("session: write file: %s is not a regular file: read from it, and use Write", f.Name())
	case size > max(info.Size()-offset, 0):
		return fmt.Errorf("session: write file: %w: %d bytes from %d, it has %d", io.ErrUnexpectedEOF, size, offset, info.Size())
	case len(head) == 0 && size == 0:
		return nil
	}
	if s.packet != nil {
		return s.packet.sendFile(head, f, offset, size)
	}
	l, err := buffer.NewFile(head, f, offset, size)
	if err != nil {
		return fmt.Errorf("session: write file: %w", err)
	}
	return s.writeLarge(l)
}

// writeLarge puts l into the queue and waits until it is finished.
func (s *Session) writeLarge(l *buffer.Large) error {
	s.mu.Lock()
	if s.pen == penFree {
		s.pourLocked()
	}
	if err := s.errLocked(); err != nil {
		s.mu.Unlock()
		return err
	}
	f := buffer.Frame{Large: l, At: s.now(), Kept: true}
	if s.waiters != nil {
		if err := s.wait(f); err != nil {
			return err
		}
		s.mu.Lock()
	} else {
		s.queueLocked().Add(f)
	}
	s.queuedLocked()
	select {
	case err := <-l.Done():
		s.mu.Unlock()
		return err
	default:
	}
	yielded := s.c.yieldLocked()
	s.mu.Unlock()
	if yielded {
		s.wasTakenOver()
	}
	return <-l.Done()
}

// offerLargeLocked takes the pen and offers the large frame at the front of the queue to the connection, without mu. It reports whether
// there may be room for more.
func (s *Session) offerLargeLocked(l *buffer.Large) (room bool) {
	s.pen = penWriting
	s.listenLocked(l)
	l.Lent = true
	s.mu.Unlock()
	n, err := s.c.offerLarge(l)
	s.srv.shard(s).bytesOut.Add(uint64(n))
	s.mu.Lock()
	s.offeredLocked(l, err)
	return n > 0 && !s.c.holding()
}

// offeredLocked is what follows when a part of l, or all of it, was written.
func (s *Session) offeredLocked(l *buffer.Large, err error) {
	l.Lent = false
	if err != nil {
		s.brokenLocked(err)
	}
	if s.phase.Load() == phaseClosed {
		s.dropLargesLocked()
		return
	}
	if l.Left() > 0 {
		return
	}
	s.q.Pass()
	if !l.Registered || s.reportedLocked(l) {
		l.Finish(nil)
	}
	s.letInLocked()
}

// dropLargesLocked tells those who wait for large frames that the session has ended. One that is being written is left to who writes it.
func (s *Session) dropLargesLocked() {
	if s.q == nil || !s.q.HasLarge() {
		return
	}
	err := s.errLocked()
	for _, l := range s.q.Larges() {
		if !l.Lent {
			l.Finish(err)
		}
	}
}

// offerCopied is offerLarge for a connection that has to be given bytes.
func (s *Session) offerCopied(l *buffer.Large, offer func(*buffer.Batch) (int, error)) (int, error) {
	b := s.srv.pools.Batch()
	defer s.srv.pools.PutBatch(b)
	if err := l.Lend(b, &s.srv.pools.Read); err != nil {
		return 0, err
	}
	n, err := offer(b)
	l.Written(n)
	return n, err
}
