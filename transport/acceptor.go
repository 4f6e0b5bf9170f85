package transport

import (
	"errors"
	"net"
	"os"
	"sync"
	"syscall"

	sock "github.com/sluice-push/sluice/internal/socket"
)

// Acceptor accepts the connections of a listener without waiting, for who watches its socket together with others: an event loop. Nobody else
// does so meanwhile. A socket of package net is in the poller of the runtime, which for each connection wakes a thread of the process, even
// if no goroutine waits for it: with what that thread keeps from others, that can cost a quarter of what it takes to serve a short connection.
//
// All methods may be called by any goroutine at any time.
type Acceptor struct {
	l     *Listener
	leave func(fd int)
	over  chan struct{} // closed at the end

	mu sync.Mutex // behind that of the listener
	fd int        // guarded by mu: the listener's socket, −1 at the end
}

// Acceptor takes the socket out of the runtime's poller. It calls join with the descriptor, to have it watched: it is ready to be read when
// somebody has connected. An error of join is Acceptor's. When the acceptor is closed, or the listener, it calls leave, and the
// descriptor may be closed after that. Both are called with locks held. Until then [Listener.Accept] and [Listener.AcceptDescriptor]
// wait, and there is no second acceptor.
//
// The error is errors.ErrUnsupported but for TCP listeners of [Listen] that are [Listener.Plain], and net.ErrClosed after Close.
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
		fd, err := sock.DuplicateUnder(l.rc)
		if err != nil {
			return nil, l.failed(err)
		}
		_ = l.polled.Close() // who waits there waits for the acceptor's end instead
		l.spare, l.polled, l.rc = fd, nil, nil
	}
	if err := join(l.spare); err != nil {
		return nil, err
	}
	l.acceptor = &Acceptor{l: l, leave: leave, over: make(chan struct{}), fd: l.spare}
	l.spare = -1
	l.bareLocked()
	return l.acceptor, nil
}

// Accept returns a connection as [Listener.AcceptDescriptor] does, if there is one now. After an error, net.ErrClosed among them, the caller
// closes the acceptor: what heals by itself heals in AcceptDescriptor.
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

// Close ends the acceptor, not the listener. It may be called more than once.
func (a *Acceptor) Close() {
	a.l.mu.Lock()
	defer a.l.mu.Unlock()
	a.closeLocked()
}

// closeLocked is called with the mutex of the listener, which gets its socket back.
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

// pollLocked puts the spare descriptor into the runtime's poller, if that has none.
func (l *Listener) pollLocked() {
	if l.spare >= 0 {
		l.polled, l.spare = os.NewFile(uintptr(l.spare), "listener"), -1
	}
	if l.rc == nil {
		l.rc, _ = l.polled.SyscallConn() // there is no error for a file that is open
	}
}

// unpollLocked closes the descriptor, wherever it is.
func (l *Listener) unpollLocked() {
	if l.spare >= 0 {
		_ = closeDescriptor(l.spare)
		l.spare = -1
	}
	if l.polled != nil {
		_ = l.polled.Close()
	}
}

// wait calls f when somebody may have connected, until it returns true. As long as there is an acceptor it waits for its end.
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
			continue // an acceptor has begun
		}
		select {
		case <-a.over:
		case <-l.closed:
			return net.ErrClosed
		}
	}
}

// polls reports whether rc is still what is waited for.
func (l *Listener) polls(rc syscall.RawConn) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.acceptor == nil && l.rc == rc
}

// acceptAttached is what package net's Accept would be, if it had the socket.
func (l *Listener) acceptAttached() (net.Conn, error) {
	d, err := l.acceptDescriptor()
	if err != nil {
		return nil, err
	}
	defer d.Close() //nolint:errcheck // the connection has a duplicate
	conn, err := attach(d)
	if err == nil && conn.RemoteAddr() == nil { // it was reset, and package net asked too late who it was
		_ = conn.Close()
		err = os.NewSyscallError("accept4", syscall.ECONNABORTED)
	}
	if err != nil {
		return nil, err
	}
	return conn, nil
}
