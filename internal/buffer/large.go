package buffer

import (
	"io"
	"os"
	"syscall"
)

// Large is a frame that is written from where it lies, memory or a file, by whoever has the pen, while who offers it waits until
// nothing refers to it any more. So nothing of it is copied, but what is read from a file where the kernel cannot send it itself.
//
// Whoever has the pen writes it; the rest is guarded by the session's mutex.
type Large struct {
	head []byte // goes first
	p    []byte // then this,
	file *os.File
	rc   syscall.RawConn // of file
	off  int64           // or from there in it,
	left int64           // so many bytes; of p or file

	copied bool    // the kernel cannot send from this file
	chunk  *Buffer // what was read from file and is not written yet, or nil
	ready  []byte  // in chunk

	// Zero says that memory may be sent without the kernel copying it. Then sent counts the calls that did, which it reports back, and
	// acked those that it has reported. The number of the first is first: see Reports.
	Zero        bool
	Registered  bool // for the owner: somebody listens for reports
	first       uint32
	sent, acked uint32

	Lent bool // it is being written
	over bool
	done chan error // capacity 1
}

// NewMemory makes one of memory.
func NewMemory(p []byte) *Large {
	return &Large{p: p, left: int64(len(p)), done: make(chan error, 1)}
}

// NewFile makes one of a head and size bytes of a file.
func NewFile(head []byte, f *os.File, off, size int64) (*Large, error) {
	rc, err := f.SyscallConn()
	if err != nil {
		return nil, err
	}
	return &Large{head: head, file: f, rc: rc, off: off, left: size, done: make(chan error, 1)}, nil
}

// Memory reports whether it is memory.
func (l *Large) Memory() bool { return l.file == nil }

// Left returns how many bytes are not written.
func (l *Large) Left() int64 { return int64(len(l.head)) + l.left }

// Lend puts bytes from the front into b, reading a file for that. The error is the file's.
func (l *Large) Lend(b *Batch, pool *Pool) error {
	if b.Add(l.head) < len(l.head) {
		return nil
	}
	if l.file == nil {
		b.Add(l.p)
		return nil
	}
	if err := l.read(pool); err != nil {
		return err
	}
	b.Add(l.ready)
	return nil
}

// read reads from the file if nothing of it is ready.
func (l *Large) read(pool *Pool) error {
	if len(l.ready) > 0 || l.left == 0 {
		return nil
	}
	if l.chunk == nil {
		l.chunk = pool.Get()
	}
	n, err := l.file.ReadAt(l.chunk.B[:min(int64(len(l.chunk.B)), l.left)], l.off)
	if n == 0 {
		return fileError(err)
	}
	l.ready = l.chunk.B[:n]
	return nil
}

// fileError says what an end of the file means: it is shorter than it was.
func fileError(err error) error {
	if err == nil || err == io.EOF { //nolint:errorlint // ReadAt returns it as it is
		return io.ErrUnexpectedEOF
	}
	return err
}

// Written takes n bytes off the front.
func (l *Large) Written(n int) {
	cut := min(n, len(l.head))
	l.head = l.head[cut:]
	n -= cut
	l.left -= int64(n)
	l.off += int64(n)
	if l.file == nil {
		l.p = l.p[n:]
		return
	}
	l.ready = l.ready[min(n, len(l.ready)):]
}

// Finish tells who waits how it ended; later calls tell nothing. It must not be lent.
func (l *Large) Finish(err error) {
	if l.over {
		return
	}
	l.over = true
	if l.chunk != nil {
		l.chunk.Release()
		l.chunk, l.ready = nil, nil
	}
	l.done <- err
}

// Over reports whether it is finished.
func (l *Large) Over() bool { return l.over }

// Done returns where Finish tells it.
func (l *Large) Done() <-chan error { return l.done }
