package splice

import (
	"errors"
	"fmt"
	"io"
	"net"
	"sync"
	"sync/atomic"
)

const (
	defaultIdle      = 16
	defaultThreshold = 128 << 10
	defaultPipeSize  = 1 << 20
	bufferSize       = 64 << 10 // of copies
)

// Options are the settings of a Pool. Zero means the default.
type Options struct {
	// IdlePipes is how many pipes are kept for later transfers: by default 16, negative is none. A pipe takes two descriptors.
	IdlePipes int
	// PipeSize is the capacity of a pipe in bytes: by default 1 MiB. If it is negative, or the kernel refuses it (fs.pipe-max-size,
	// fs.pipe-user-pages-soft), a pipe has the capacity that the kernel gives it, usually 64 KiB. While a destination is not read, its transfer
	// keeps up to 1 MiB in the kernel.
	PipeSize int
	// Threshold is the number of bytes, without the head, from which a transfer is spliced. By default it is 128 KiB, and transfers from a Unix
	// socket to TCP are never spliced, because a copy costs less. Negative means that every transfer is spliced.
	Threshold int64
}

// Pool moves bytes between connections, and keeps pipes from one transfer to the next. All methods may be called concurrently.
type Pool struct {
	idlePipes, pipeSize int
	threshold           int64

	mu     sync.Mutex
	idle   []*pipe
	closed bool

	buffers         sync.Pool // *[bufferSize]byte
	spliced, copied atomic.Uint64
}

// Stats are the counters of a Pool.
type Stats struct {
	Spliced   uint64 // bytes that were moved without a copy
	Copied    uint64 // bytes that were copied, without the heads
	IdlePipes int    // pipes that are kept now
}

// New makes a pool. The options may be nil. The pool opens pipes when they are needed.
func New(o *Options) *Pool {
	if o == nil {
		o = &Options{}
	}
	p := &Pool{idlePipes: o.IdlePipes, pipeSize: o.PipeSize, threshold: o.Threshold}
	if p.idlePipes == 0 {
		p.idlePipes = defaultIdle
	}
	if p.pipeSize == 0 {
		p.pipeSize = defaultPipeSize
	}
	p.buffers.New = func() any { return new([bufferSize]byte) }
	return p
}

// Side says which connection of a transfer failed.
type Side uint8

// The sides.
const (
	Source      Side = iota + 1 // the connection that is read
	Destination                 // the connection that is written
)

// String returns the name of the side.
func (s Side) String() string {
	switch s {
	case Source:
		return "source"
	case Destination:
		return "destination"
	}
	return fmt.Sprintf("side %d", uint8(s))
}

// Error is the error of a transfer.
type Error struct {
	Side Side
	// Err is what happened. It is io.ErrUnexpectedEOF if the peer of the source has ended its stream too early, os.ErrDeadlineExceeded if a
	// deadline has passed, and net.ErrClosed if this process has closed the connection, as errors.Is tells; otherwise an error of the system.
	Err error
}

// Error returns the text of the error.
func (e *Error) Error() string { return fmt.Sprintf("splice: %v: %v", e.Side, e.Err) }

// Unwrap returns Err.
func (e *Error) Unwrap() error { return e.Err }

// ErrNegative says that Move was asked for a negative number of bytes.
var ErrNegative = errors.New("splice: a negative number of bytes")

// Move writes head to dst, and then moves n bytes from src to dst. It returns how many bytes dst has taken, of head and of src together. Head is
// borrowed until Move returns; it may be empty, and so may be the rest: with no bytes at all Move does nothing.
//
// The error is ErrNegative, or an *[Error] that names the connection that has failed. If src has failed, dst has all bytes that were read: after a
// deadline the transfer may be continued. If dst has failed, up to a pipe or buffer of bytes may have been read and not written, and are lost.
//
// Meanwhile no other goroutine may read from src or write to dst. Any number of transfers may run over other connections, also the other way over
// the same two.
func (p *Pool) Move(dst, src net.Conn, head []byte, n int64) (written int64, err error) {
	if n < 0 {
		return 0, ErrNegative
	}
	if len(head) > 0 {
		took, err := dst.Write(head)
		written = int64(took)
		if err != nil {
			return written, &Error{Destination, err}
		}
	}
	if n > 0 && p.Direct(dst, src, n) {
		took, err := p.splice(dst, src, n)
		written += took
		p.spliced.Add(uint64(took))
		if !errors.Is(err, errRefused) {
			return written, err
		}
		n -= took
	}
	took, err := p.copy(dst, src, n)
	p.copied.Add(uint64(took))
	return written + took, err
}

// Direct reports whether Move splices n bytes from src to dst, if the kernel does not refuse it. Otherwise it copies them.
func (p *Pool) Direct(dst, src net.Conn, n int64) bool {
	if !isStream(dst) || !isStream(src) {
		return false
	}
	if p.threshold == 0 {
		_, fromUnix := src.(*net.UnixConn)
		_, toTCP := dst.(*net.TCPConn)
		return n >= defaultThreshold && !(fromUnix && toTCP)
	}
	return n >= p.threshold
}

// errRefused says that the rest of a transfer cannot be spliced. No byte is lost, so it can be copied.
var errRefused = errors.New("not possible")

// copy moves n bytes through a buffer.
func (p *Pool) copy(dst, src net.Conn, n int64) (written int64, err error) {
	if n == 0 {
		return 0, nil
	}
	buf := p.buffers.Get().(*[bufferSize]byte)
	defer p.buffers.Put(buf)
	for written < n {
		got, err := src.Read(buf[:min(n-written, bufferSize)])
		if got > 0 {
			took, err := dst.Write(buf[:got])
			written += int64(took)
			if err != nil {
				return written, &Error{Destination, err}
			}
		}
		switch {
		case err == nil, written == n: // the next read returns the error
		case errors.Is(err, io.EOF):
			return written, &Error{Source, io.ErrUnexpectedEOF}
		default:
			return written, &Error{Source, err}
		}
	}
	return written, nil
}

// Stats returns the counters. They are not all read at the same instant.
func (p *Pool) Stats() Stats {
	p.mu.Lock()
	defer p.mu.Unlock()
	return Stats{Spliced: p.spliced.Load(), Copied: p.copied.Load(), IdlePipes: len(p.idle)}
}

// Close closes the idle pipes. Transfers that are running go on, and close their pipes themselves. Move can still be called, and keeps no pipe.
// Close always returns nil.
func (p *Pool) Close() error {
	p.mu.Lock()
	idle := p.idle
	p.idle, p.closed = nil, true
	p.mu.Unlock()
	for _, pipe := range idle {
		pipe.close()
	}
	return nil
}

// take returns an idle pipe, nil if there is none.
func (p *Pool) take() *pipe {
	p.mu.Lock()
	defer p.mu.Unlock()
	last := len(p.idle) - 1
	if last < 0 {
		return nil
	}
	pipe := p.idle[last]
	p.idle[last], p.idle = nil, p.idle[:last]
	return pipe
}

// give keeps an empty pipe, or closes it if there are enough.
func (p *Pool) give(pipe *pipe) {
	p.mu.Lock()
	kept := !p.closed && len(p.idle) < p.idlePipes
	if kept {
		p.idle = append(p.idle, pipe)
	}
	p.mu.Unlock()
	if !kept {
		pipe.close()
	}
}
