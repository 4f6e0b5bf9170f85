package transport

import (
	"errors"
	"net"
	"os"
	"sync"
	"syscall"

	"github.com/sluice-push/sluice/internal/sockopt"
)

// Acceptor accepts the connections of a listener without waiting, for an event loop that watches the listener's socket together with others.
// Package net would watch the socket in the runtime's poller. There each connection wakes a thread of the process, even if no goroutine waits
// for the connection. With the work that this thread holds up, that can cost a quarter of the time for serving a short connection.
//
// All methods may be called by any goroutine at any time.
type Acceptor struct {
	l     *Listener
	leave func(fd int)
	over  chan struct{} // closed when the acceptor is closed

	mu sync.Mutex // locked after that of the listener
	fd int        // guarded by mu: the listener's socket; −1 after Close
}

// Acceptor takes the listener's socket out of the runtime's poller and returns an Acceptor for it. It calls join with the descriptor, for the
// caller to watch: the descriptor becomes readable when a client has connected. If join fails, Acceptor returns its error. When the acceptor or
// the listener is closed, leave is called; after that the descriptor may be closed. Both functions are called with locks held. While there is an
// acceptor, [Listener.Accept] and [Listener.AcceptDescriptor] wait, and there is no second one.
//
// The error is errors.ErrUnsupported unless the listener is a TCP listener of [Listen] that is [Listener.Plain]. After Close it is
// net.ErrClosed.
func (l *Listener) Acceptor(join func(fd int) error, leave func(fd int)) (*Acceptor, error) {
	if !l.Plain() || !l.ours || l.unix {
		return nil, l.failed(errors.ErrUnsupported)
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	switch {
	case l.isClosed():
		return nil, l.failed(net.ErrClosed)
	case l.acceptor != nil:
		return nil, l.failed(errors.New("the listener has an acceptor"))
	}
	if l.spare < 0 {
		fd, err := sockopt.DuplicateConn(l.rc)
		if err != nil {
			return nil, l.failed(err)
		}
		_ = l.polled.Close() // a goroutine that waits there waits for the end of the acceptor instead
		l.spare, l.polled, l.rc = fd, nil, nil
	}
	if err := join(l.spare); err != nil {
		return nil, err
	}
	l.acceptor = &Acceptor{l: l, leave: leave, over: make(chan struct{}), fd: l.spare}
	l.spare = -1
	l.detachLocked()
	return l.acceptor, nil
}

// Accept returns a connection as [Listener.AcceptDescriptor] does, if a client has connected; otherwise ok is false. After an error, also
// net.ErrClosed, the caller closes the acceptor. AcceptDescriptor then handles errors that pass, such as a lack of descriptors.
func (a *Acceptor) Accept() (d Descriptor, ok bool, err error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.fd < 0 {
		return d, false, a.l.failed(net.ErrClosed)
	}
	for {
		d, ok, err = a.l.acceptNow(a.fd)
		switch {
		case ok:
			a.l.accepted.Add(1)
			return d, true, nil
		case err == nil:
			return d, false, nil
		case !a.l.lost(err):
			return d, false, a.l.failed(err)
		}
	}
}

// Close ends the acceptor, but not the listener. It may be called more than once.
func (a *Acceptor) Close() {
	a.l.mu.Lock()
	defer a.l.mu.Unlock()
	a.closeLocked()
}

// closeLocked is Close. The mutex of the listener is held. The listener gets its socket back.
func (a *Acceptor) closeLocked() {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.fd < 0 {
		return
	}
	a.leave(a.fd)
	a.l.spare, a.fd, a.l.acceptor = a.fd, -1, nil
	close(a.over)
}

// pollLocked puts the spare descriptor into the runtime's poller, unless a descriptor is already there.
func (l *Listener) pollLocked() {
	if l.spare >= 0 {
		l.polled, l.spare = os.NewFile(uintptr(l.spare), "listener"), -1
	}
	if l.rc == nil {
		l.rc, _ = l.polled.SyscallConn() // an open file has no error here
	}
}

// unpollLocked closes the descriptor, whether or not it is in the poller.
func (l *Listener) unpollLocked() {
	if l.spare >= 0 {
		_ = closeDescriptor(l.spare)
		l.spare = -1
	}
	if l.polled != nil {
		_ = l.polled.Close()
	}
}

// wait calls f whenever a client may have connected, until f returns true. While there is an acceptor, wait waits for its end.
func (l *Listener) wait(f func(fd uintptr) bool) error {
	for {
		l.mu.Lock()
		if l.acceptor == nil && !l.isClosed() {
			l.pollLocked()
		}
		rc, a := l.rc, l.acceptor
		l.mu.Unlock()
		if rc == nil && a == nil {
			return net.ErrClosed
		}
		if a == nil {
			err := rc.Read(f)
			if err == nil || l.isClosed() || l.polls(rc) {
				return err
			}
			continue // the error is from an acceptor that has taken the socket
		}
		select {
		case <-a.over:
		case <-l.closed:
			return net.ErrClosed
		}
	}
}

// polls reports whether rc is still the descriptor in the poller, and there is no acceptor.
func (l *Listener) polls(rc syscall.RawConn) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.acceptor == nil && l.rc == rc
}

// acceptAttached accepts a connection like package net, after the socket has been taken from package net.
func (l *Listener) acceptAttached() (net.Conn, error) {
	d, err := l.acceptDescriptor()
	if err != nil {
		return nil, err
	}
	defer d.Close() //nolint:errcheck // the connection has a duplicate
	conn, err := attach(d)
	if err == nil && conn.RemoteAddr() == nil { // the peer has reset the connection before package net could ask for its address
		_ = conn.Close()
		err = os.NewSyscallError("accept4", syscall.ECONNABORTED)
	}
	if err != nil {
		return nil, err
	}
	return conn, nil
}
