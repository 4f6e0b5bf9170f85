package transport

import (
	"context"
	"net"
	"sync"
	"syscall"
)

// memoryBacklog is the most connections that wait to be accepted.
const memoryBacklog = 128

// MemoryListener is a net.Listener for connections in memory. A server under test then needs no socket and no port, and can run in a bubble of
// testing/synctest. All methods may be called by any goroutine at any time.
type MemoryListener struct {
	size int

	mu     sync.Mutex
	change sync.Cond
	queue  []*MemoryConn
	closed bool
}

// NewMemory returns a listener whose connections hold up to size bytes in each direction. Zero or less means 64 KiB.
func NewMemory(size int) *MemoryListener {
	l := &MemoryListener{size: size}
	l.change.L = &l.mu
	return l
}

// Dial connects to the listener. As with a socket, it does not wait for Accept, unless 128 connections already wait for it. It returns the error
// of ctx, or after Close an error that is syscall.ECONNREFUSED.
func (l *MemoryListener) Dial(ctx context.Context) (*MemoryConn, error) {
	defer context.AfterFunc(ctx, func() {
		l.mu.Lock()
		defer l.mu.Unlock()
		l.change.Broadcast()
	})()
	l.mu.Lock()
	defer l.mu.Unlock()
	for len(l.queue) == memoryBacklog && !l.closed && ctx.Err() == nil {
		l.change.Wait()
	}
	err := ctx.Err()
	if l.closed {
		err = syscall.ECONNREFUSED
	}
	if err != nil {
		return nil, &net.OpError{Op: "dial", Net: l.Addr().Network(), Addr: l.Addr(), Err: err}
	}
	client, server := pipe(l.size, "dialed", "listener")
	l.queue = append(l.queue, server)
	l.change.Broadcast()
	return client, nil
}

// Accept waits for the next connection, a *MemoryConn. After Close the error is net.ErrClosed.
func (l *MemoryListener) Accept() (net.Conn, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for len(l.queue) == 0 && !l.closed {
		l.change.Wait()
	}
	if l.closed {
		return nil, &net.OpError{Op: "accept", Net: l.Addr().Network(), Addr: l.Addr(), Err: net.ErrClosed}
	}
	conn := l.queue[0]
	l.queue[0] = nil
	l.queue = l.queue[1:]
	l.change.Broadcast()
	return conn, nil
}

// Close ends the listener, and closes the connections that were not accepted.
func (l *MemoryListener) Close() error {
	l.mu.Lock()
	l.closed = true
	left := l.queue
	l.queue = nil
	l.change.Broadcast()
	l.mu.Unlock()
	for _, conn := range left {
		_ = conn.Close()
	}
	return nil
}

// Addr returns an address of the network "memory".
func (l *MemoryListener) Addr() net.Addr { return memoryAddr("listener") }
