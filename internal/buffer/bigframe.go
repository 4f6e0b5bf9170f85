package buffer

import (
	"io"
	"os"
	"syscall"
)

// BigFrame is a big frame that is sent from where it lies, memory or a file, without being copied into a queue. The caller that sends it waits for
// Done, and must not change the memory before. Only bytes of a file that the kernel cannot send itself are read into a buffer.
//
// The goroutine that writes the connection owns the fields about the bytes. The session's mutex guards InFlight, finished and Finish.
type BigFrame struct {
	head      []byte // sent first
	p         []byte // sent after head, if there is no file
	file      *os.File
	rc        syscall.RawConn // of file
	off       int64           // where the unsent part begins in file
	remaining int64           // unsent bytes of p or file, without head

	copied bool    // the kernel cannot send from this file, so it is read
	chunk  *Buffer // holds bytes that were read from file and are not written yet, or nil
	ready  []byte  // the unwritten bytes of chunk

	// ZeroCopy allows the kernel to send memory without a copy. sent counts the calls that did, and acked the calls that the kernel has reported as
	// done. first is the number of the first such call: see Reports.
	ZeroCopy    bool
	Registered  bool // for the owner: the engine watches for the kernel's reports
	first       uint32
	sent, acked uint32

	InFlight bool // a write of the frame is in progress
	finished bool
	done     chan error // capacity 1
}

// NewMemory returns a big frame of the bytes of p, which it borrows.
func NewMemory(p []byte) *BigFrame {
	return &BigFrame{p: p, remaining: int64(len(p)), done: make(chan error, 1)}
}

// NewFile returns a big frame of head, then size bytes of f from off on.
func NewFile(head []byte, f *os.File, off, size int64) (*BigFrame, error) {
	rc, err := f.SyscallConn()
	if err != nil {
		return nil, err
	}
	return &BigFrame{head: head, file: f, rc: rc, off: off, remaining: size, done: make(chan error, 1)}, nil
}

// InMemory reports whether the frame is in memory, not in a file.
func (l *BigFrame) InMemory() bool { return l.file == nil }

// Remaining returns the number of unsent bytes.
func (l *BigFrame) Remaining() int64 { return int64(len(l.head)) + l.remaining }

// FillBatch adds the first unsent bytes to b. It reads a file for that, with a buffer of pool. The error is the file's.
func (l *BigFrame) FillBatch(b *Batch, pool *Pool) error {
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

// read reads the next bytes of the file, unless bytes are ready or none are left.
func (l *BigFrame) read(pool *Pool) error {
	if len(l.ready) > 0 || l.remaining == 0 {
		return nil
	}
	if l.chunk == nil {
		l.chunk = pool.Get()
	}
	n, err := l.file.ReadAt(l.chunk.B[:min(int64(len(l.chunk.B)), l.remaining)], l.off)
	if n == 0 {
		return fileError(err)
	}
	l.ready = l.chunk.B[:n]
	return nil
}

// fileError returns the error of a read that returned no bytes. The end of the file comes too early: the file has become shorter.
func fileError(err error) error {
	if err == nil || err == io.EOF { //nolint:errorlint // ReadAt returns it as it is
		return io.ErrUnexpectedEOF
	}
	return err
}

// Written removes the first n unsent bytes.
func (l *BigFrame) Written(n int) {
	cut := min(n, len(l.head))
	l.head = l.head[cut:]
	n -= cut
	l.remaining -= int64(n)
	l.off += int64(n)
	if l.file == nil {
		l.p = l.p[n:]
		return
	}
	l.ready = l.ready[min(n, len(l.ready)):]
}

// Finish sends err to Done. Later calls do nothing. InFlight must be false.
func (l *BigFrame) Finish(err error) {
	if l.finished {
		return
	}
	l.finished = true
	if l.chunk != nil {
		l.chunk.Release()
		l.chunk, l.ready = nil, nil
	}
	l.done <- err
}

// IsFinished reports whether Finish was called.
func (l *BigFrame) IsFinished() bool { return l.finished }

// Done returns the channel that gets the error of Finish, once.
func (l *BigFrame) Done() <-chan error { return l.done }

// WriteCopied writes a part of l with a function that has to be given bytes, and advances l past what it wrote.
func (p *Pools) WriteCopied(l *BigFrame, write func(*Batch) (int, error)) (int, error) {
	b := p.Batch()
	defer p.PutBatch(b)
	if err := l.FillBatch(b, &p.Read); err != nil {
		return 0, err
	}
	n, err := write(b)
	l.Written(n)
	return n, err
}
