package main

import (
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"sync/atomic"
	"time"

	"github.com/sluice-push/sluice/rpc/frame"
	"github.com/sluice-push/sluice/splice"
)

const (
	bufferSize = 64 << 10 // of each direction
	maxHeader  = 32 << 10 // a head fits into the buffer
)

var errStopped = errors.New("stopped")

// relay forwards the frames of one direction. All fields but stopping belong to the goroutine of run.
type relay struct {
	src, dst net.Conn
	from, to string // what they are called
	codec    *frame.Codec
	pool     *splice.Pool
	counts   *counts

	buf     []byte
	have    int     // bytes in buf: the beginning of a frame whose head is not complete
	left    int64   // bytes of the body being forwarded that have not arrived
	answers []int32 // sequence ids of the frames that answer calls and are not written yet
	partial bool    // the last of answers is the frame being forwarded

	begun func(f *frame.Frame)  // called when a head was read; may be nil
	ended func(answers []int32) // called when answers were written; may be nil

	stopping atomic.Bool
}

// newRelay makes a relay.
func newRelay(p *proxy, src, dst net.Conn, from, to string) *relay {
	c := frame.New(&frame.Options{MaxFrame: p.maxFrame, MaxHeader: maxHeader})
	return &relay{src: src, dst: dst, from: from, to: to, codec: c, pool: p.pool, counts: &p.counts, buf: make([]byte, bufferSize)}
}

// run forwards frames. It returns nil when the peer has left between two frames, errStopped after stop, and otherwise what has failed.
func (r *relay) run() error {
	for {
		n, err := r.src.Read(r.buf[r.have:])
		r.have += n
		if n > 0 {
			if err := r.forward(); err != nil {
				return err
			}
		}
		between := r.left == 0 && r.have == 0
		switch {
		case between && r.stopping.Load():
			return errStopped
		case err == nil:
		case errors.Is(err, io.EOF) && between:
			return nil
		case errors.Is(err, io.EOF):
			return fmt.Errorf("the %s has left in the middle of a frame", r.from)
		case r.goesOn(err):
		default:
			return fmt.Errorf("reading from the %s: %w", r.from, err)
		}
	}
}

// stop ends the relay before the next frame.
func (r *relay) stop() {
	r.stopping.Store(true)
	r.src.SetReadDeadline(time.Unix(1, 0)) // wakes the goroutine if it waits
}

// goesOn reports whether reading failed because of stop, in the middle of a frame. The rest of the frame is then waited for.
func (r *relay) goesOn(err error) bool {
	if !r.stopping.Load() || !errors.Is(err, os.ErrDeadlineExceeded) {
		return false
	}
	r.src.SetReadDeadline(time.Time{})
	return true
}

// forward writes what has arrived of frames whose heads are known, in one piece, and has the rest of a large body moved.
func (r *relay) forward() error {
	n, bad := r.scan(r.buf[:r.have])
	var err error
	if bad == nil && r.left > 0 && r.pool.Direct(r.dst, r.src, r.left) {
		err = r.move(r.buf[:n])
	} else if n > 0 {
		if _, err = r.dst.Write(r.buf[:n]); err != nil {
			err = fmt.Errorf("writing to the %s: %w", r.to, err)
		}
	}
	switch {
	case err != nil:
		return err
	case bad != nil:
		return fmt.Errorf("a bad frame from the %s: %w", r.from, bad)
	}
	r.have = copy(r.buf, r.buf[n:r.have])
	if r.ended != nil {
		complete := len(r.answers)
		if r.left > 0 && r.partial {
			complete--
		}
		r.ended(r.answers[:complete])
		r.answers = append(r.answers[:0], r.answers[complete:]...)
	}
	return nil
}

// scan reads the heads in the bytes that have arrived. It returns how many of the bytes may be forwarded: all but the beginning of a head. What is
// missing of the last frame is then in left.
func (r *relay) scan(in []byte) (n int, err error) {
	r.counts.mu.Lock()
	defer r.counts.mu.Unlock()
	for n < len(in) {
		if r.left == 0 {
			head, size, err := r.codec.DecodeHead(in[n:])
			if err != nil {
				return n, err
			}
			if head < 0 {
				return n, nil
			}
			f := r.codec.Frame()
			r.counts.frameLocked(r.from, f, size)
			if r.partial = r.ended != nil && isAnswer(f); r.partial {
				r.answers = append(r.answers, f.Sequence)
			}
			if r.begun != nil {
				r.begun(f)
			}
			r.left = int64(size)
		}
		here := min(r.left, int64(len(in)-n))
		n += int(here)
		r.left -= here
	}
	return n, nil
}

// move writes what has arrived, and has the kernel move the rest of the body behind it.
func (r *relay) move(arrived []byte) error {
	for {
		n, err := r.pool.Move(r.dst, r.src, arrived, r.left)
		if err == nil {
			r.left = 0
			return nil
		}
		failed := new(splice.Error)
		if errors.As(err, &failed) && failed.Side == splice.Source && r.goesOn(err) {
			r.left -= n - int64(len(arrived))
			arrived = nil
			continue
		}
		return fmt.Errorf("moving from the %s to the %s: %w", r.from, r.to, err)
	}
}
