package hangup_test

import (
	"errors"
	"io"
	"math/rand/v2"
	"net"
	"path/filepath"
	"runtime"
	"sync"
	"syscall"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/sluice-push/sluice/internal/buffer"
	"github.com/sluice-push/sluice/internal/hangup"
	"github.com/sluice-push/sluice/internal/testwait"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// socket is a connection that is read as a session does it.
type socket interface {
	net.Conn
	syscall.Conn
	CloseWrite() error
}

// reader reads a connection to its end.
type reader struct {
	watch *hangup.Watch
	conn  socket
	peer  hangup.Peer
	rests func() // called before it waits because that is enough
	got   func(p []byte)
}

// run returns how reading ended: without an error, if the peer has ended.
func (r *reader) run() error {
	rc, err := r.conn.SyscallConn()
	if err != nil {
		return err
	}
	r.peer.Conn = rc
	defer func() {
		r.watch.Forget(&r.peer)
		_ = r.conn.Close()
	}()
	var failed error
	b := make([]byte, 64)
	err = rc.Read(func(fd uintptr) bool {
		r.peer.FD = int32(fd)
		for {
			n, errno := buffer.Receive(fd, b)
			switch {
			case errno == syscall.EAGAIN:
				if r.peer.Hollow() {
					r.watch.Begin(&r.peer)
					continue
				}
				return false
			case errno != 0:
				failed = errno
				return true
			case n == 0:
				return true
			}
			if r.got(b[:n]); n < len(b) && r.peer.Told() {
				r.rests()
				return false
			}
		}
	})
	if failed != nil {
		return failed
	}
	return err
}

// overSockets runs f with connected sockets of either kind.
func overSockets(t *testing.T, f func(t *testing.T, a, b socket)) {
	t.Helper()
	for _, network := range []string{"tcp", "unix"} {
		t.Run(network, func(t *testing.T) {
			overSocket(t, network, func(a, b socket) { f(t, a, b) })
		})
	}
}

func overSocket(t *testing.T, network string, f func(a, b socket)) {
	t.Helper()
	address := "127.0.0.1:0"
	if network == "unix" {
		address = filepath.Join(t.TempDir(), "socket")
	}
	ln, err := net.Listen(network, address)
	if err != nil {
		t.Error(err)
		return
	}
	defer func() { _ = ln.Close() }()
	a, err := net.Dial(network, ln.Addr().String())
	if err != nil {
		t.Error(err)
		return
	}
	defer func() { _ = a.Close() }()
	b, err := ln.Accept()
	if err != nil {
		t.Error(err)
		return
	}
	defer func() { _ = b.Close() }()
	f(a.(socket), b.(socket))
}

func newWatch(t *testing.T) *hangup.Watch {
	t.Helper()
	w := new(hangup.Watch)
	t.Cleanup(func() {
		w.Close()
		testwait.Return(t, w.Wait)
	})
	return w
}

// What bytes ask of who answers them.
const (
	usual byte = iota
	pause      // before the answer
	last
)

// answerer is a reader that answers each byte with the same.
type answerer struct {
	reader
	paused, resume chan struct{}
	seen           byte      // owned by the reader: the last byte that came
	rested         chan byte // the last byte before it waits because that is enough, unless that is a usual one
	done           chan error
}

func answers(t *testing.T, w *hangup.Watch, conn socket) *answerer {
	t.Helper()
	r := &answerer{
		reader: reader{watch: w, conn: conn},
		paused: make(chan struct{}), resume: make(chan struct{}), rested: make(chan byte, 10), done: make(chan error, 1),
	}
	r.got = func(p []byte) {
		if r.seen = p[len(p)-1]; r.seen == pause {
			r.paused <- struct{}{}
			testwait.Hold(t, r.resume)
		}
		if _, err := conn.Write(p); err != nil {
			t.Error(err)
		}
	}
	r.rests = func() {
		if r.seen != usual {
			r.rested <- r.seen
		}
	}
	go func() { r.done <- r.run() }()
	return r
}

// exchange sends a byte and waits for the answer.
func exchange(t *testing.T, a socket) {
	t.Helper()
	send(t, a, usual)
	if _, err := io.ReadFull(a, make([]byte, 1)); err != nil {
		t.Fatal(err)
	}
}

func send(t *testing.T, a socket, what byte) {
	t.Helper()
	if _, err := a.Write([]byte{what}); err != nil {
		t.Fatal(err)
	}
}

// acquaint exchanges bytes until somebody watches the peer.
func acquaint(t *testing.T, a socket, r *answerer) {
	t.Helper()
	for range 1000 * hangup.Hollow {
		if exchange(t, a); r.peer.Told() {
			return
		}
	}
	t.Fatal("nobody watches the peer")
}

// ends waits until r has ended, as it should.
func ends(t *testing.T, r *answerer) {
	t.Helper()
	select {
	case err := <-r.done:
		if err != nil {
			t.Error(err)
		}
	case <-time.After(10 * time.Second):
		t.Fatal("who waits has not heard of the end")
	}
}

// lastWords has the peer say its last and end, while r is busy.
func lastWords(t *testing.T, a socket, r *answerer) {
	t.Helper()
	send(t, a, pause)
	testwait.Receive(t, r.paused)
	send(t, a, last)
	if err := a.CloseWrite(); err != nil {
		t.Fatal(err)
	}
}

// The end has come with what was read last, so nothing but the watch tells of it who waits then.
func TestToldWhileItWaits(t *testing.T) {
	overSockets(t, func(t *testing.T, a, b socket) {
		w := newWatch(t)
		r := answers(t, w, b)
		acquaint(t, a, r)
		release := w.Hold()
		lastWords(t, a, r)
		close(r.resume)
		for testwait.Receive(t, r.rested) != last {
		}
		release()
		ends(t, r)
	})
}

// The end is told before what came with it is read: then nobody waits after that.
func TestToldBeforeItWaits(t *testing.T) {
	overSockets(t, func(t *testing.T, a, b socket) {
		r := answers(t, newWatch(t), b)
		acquaint(t, a, r)
		lastWords(t, a, r)
		for !r.peer.Over() {
			runtime.Gosched()
		}
		close(r.resume)
		ends(t, r)
		if len(r.rested) > 0 {
			t.Error("it waits though the end was told")
		}
	})
}

// An error that is not the end, here a time stamp in the queue of errors, is reported once and uses the watch up. The end is told all the same.
func TestAnErrorFirst(t *testing.T) {
	overSocket(t, "tcp", func(a, b socket) {
		w := newWatch(t)
		r := answers(t, w, b)
		acquaint(t, a, r)
		rc, err := b.SyscallConn()
		if err != nil {
			t.Fatal(err)
		}
		const timestamping, whenSent = 37, 1<<1 | 1<<4 // SO_TIMESTAMPING, SOF_TIMESTAMPING_TX_SOFTWARE | SOF_TIMESTAMPING_SOFTWARE
		if err := rc.Control(func(fd uintptr) {
			if err := syscall.SetsockoptInt(int(fd), syscall.SOL_SOCKET, timestamping, whenSent); err != nil {
				t.Error(err)
			}
		}); err != nil {
			t.Fatal(err)
		}
		release := w.Hold()
		exchange(t, a)
		lastWords(t, a, r)
		close(r.resume)
		for testwait.Hold(t, r.rested) != last {
		}
		release()
		ends(t, r)
	})
}

// A peer that has said little is not watched, nor is one when the watch is over: there reads have to find nothing before anybody waits.
func TestNotWatched(t *testing.T) {
	overSockets(t, func(t *testing.T, a, b socket) {
		w := newWatch(t)
		r := answers(t, w, b)
		exchange(t, a)
		if w.Begun() {
			t.Error("one message has begun the watch")
		}
		w.Close()
		for range 3 * hangup.Hollow {
			exchange(t, a)
		}
		lastWords(t, a, r)
		close(r.resume)
		ends(t, r)
		if len(r.rested) > 0 || w.Begun() {
			t.Error("the peer was watched")
		}
	})
}

// TestAll: of many peers that end in all ways, at any time, none is waited for any longer, and all that they have sent is read.
func TestAll(t *testing.T) {
	w := newWatch(t)
	var peers sync.WaitGroup
	for n := range 64 {
		rnd := rand.New(rand.NewPCG(1, uint64(n)))
		peers.Go(func() {
			for range 5 {
				overSocket(t, "tcp", func(a, b socket) { converse(t, rnd, w, a, b) })
			}
		})
	}
	testwait.Return(t, peers.Wait)
}

// converse has a send some bytes, in pieces, and end.
func converse(t *testing.T, rnd *rand.Rand, w *hangup.Watch, a, b socket) {
	read, done := 0, make(chan error, 1)
	r := &reader{watch: w, conn: b, rests: func() {}, got: func(p []byte) { read += len(p) }}
	go func() { done <- r.run() }()
	sent := 0
	for range rnd.IntN(40) {
		n, err := a.Write(make([]byte, 1+rnd.IntN(100)))
		if sent += n; err != nil {
			t.Error(err)
		}
		if rnd.IntN(2) == 0 {
			runtime.Gosched()
		}
	}
	var err error
	if rnd.IntN(2) == 0 {
		err = a.Close()
	} else {
		err = a.CloseWrite()
	}
	if err := errors.Join(err, testwait.Receive(t, done)); err != nil {
		t.Error(err)
	}
	if read != sent {
		t.Errorf("%d bytes were read, %d sent", read, sent)
	}
}
