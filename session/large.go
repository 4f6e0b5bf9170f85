package session

import (
	"fmt"
	"io"
	"os"

	"github.com/sluice-push/sluice/internal/buffer"
)

// Large frames: files, and memory that is not worth being copied. Such a frame has its place in the queue like any other, but takes no memory
// there. Its caller waits until nothing refers to its memory any more. It is written in steps, between which other connections are served. The
// kernel sends files itself (sendfile). From Options.ZeroCopy bytes on, it also sends memory without copying it, on the sockets of event loops:
// see zerocopy_linux.go.

// WriteLarge is [Session.Write] for large frames. It copies nothing, and returns when the caller may use the memory of frame again. A nil error
// means that the connection has taken all bytes, not that they have arrived. The frame is written in order with other frames, whatever
// Options.Policy says, and takes no room in the queue. If the peer takes nothing for Options.WriteTimeout, the session ends. From
// Options.ZeroCopy bytes on, the kernel does not copy frame either. The errors are [ErrClosed] with the cause, and [ErrTimeout]; the session has
// ended then. After an error with ZeroCopy, a network card may read frame for a moment more: do not write to that memory again, but leave it to
// the garbage collector.
func (s *Session) WriteLarge(frame []byte) error {
	if s.packet != nil {
		return s.packet.write(frame)
	}
	if len(frame) == 0 {
		return nil
	}
	return s.out.WriteBig(buffer.NewMemory(frame))
}

// WriteFile writes one encoded frame: head, which may be empty, and then size bytes of f from offset on. It waits like [Session.WriteLarge].
// Over plain TCP and Unix sockets on Linux the kernel sends the file itself (sendfile); elsewhere, and over TLS, it is read in pieces of
// Options.ReadBuffer. The file must be a regular file, and stay open until WriteFile has returned. Its position is neither used nor changed, so
// several sessions may send it at the same time. If f ends before size bytes, the error is io.ErrUnexpectedEOF. If that was known from the
// start, nothing was written; otherwise the session has ended. The other errors are those of WriteLarge.
func (s *Session) WriteFile(head []byte, f *os.File, offset, size int64) error {
	if offset < 0 || size < 0 {
		return fmt.Errorf("session: write file: offset %d and size %d must not be negative", offset, size)
	}
	info, err := f.Stat()
	switch {
	case err != nil:
		return fmt.Errorf("session: write file: %w", err)
	case !info.Mode().IsRegular():
		return fmt.Errorf("session: write file: %s is not a regular file: read it and use Write", f.Name())
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
	return s.out.WriteBig(l)
}
