package memory

import (
	"bytes"
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/sluice-push/sluice/push/broker"
)

// controlQueue is how many control messages may wait for one listener.
const controlQueue = 64

// control carries control messages.
type control struct {
	mu        sync.Mutex
	listeners map[*listener]struct{}
	closed    bool
}

// listener is one Listen: a queue, and the goroutine that hands it over.
type listener struct {
	node    string
	handle  func(payload []byte)
	queue   chan []byte
	stopped chan struct{} // closed once, under control.mu
	ended   chan struct{} // closed when the goroutine has ended
}

// Listen begins to give handle the control messages for node. ctx matters only until Listen returns. Several listeners may use one
// name: each is given everything. stop drops what is queued and may be called again, but not from handle.
func (b *Broker) Listen(ctx context.Context, node string, handle func(payload []byte)) (stop func(), err error) {
	if err := ctx.Err(); err != nil {
		return nil, fmt.Errorf("memory: listen: %w", err)
	}
	l := &listener{
		node:    node,
		handle:  handle,
		queue:   make(chan []byte, controlQueue),
		stopped: make(chan struct{}),
		ended:   make(chan struct{}),
	}
	if !b.control.add(l) {
		return nil, fmt.Errorf("memory: listen: %w", broker.ErrClosed)
	}
	return func() {
		b.control.remove(l)
		<-l.ended
	}, nil
}

// Tell queues a copy of payload for those who listen under the name node, or for all. A listener whose queue of 64 is full is waited
// for, until ctx is done or for at most Options.PublishWait, while the others have theirs already; then the error is ErrBusy. A
// handler may call it.
func (b *Broker) Tell(ctx context.Context, node string, payload []byte) error {
	if err := b.tell(ctx, node, payload); err != nil {
		return fmt.Errorf("memory: tell: %w", err)
	}
	return nil
}

func (b *Broker) tell(ctx context.Context, node string, payload []byte) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	targets, isOpen := b.control.of(node)
	if !isOpen {
		return broker.ErrClosed
	}
	payload = bytes.Clone(payload)
	var slow []*listener
	for _, l := range targets {
		select {
		case l.queue <- payload:
		default:
			slow = append(slow, l)
		}
	}
	if len(slow) == 0 {
		return nil
	}
	timeout := time.NewTimer(b.opts.PublishWait)
	defer timeout.Stop()
	for _, l := range slow {
		select {
		case l.queue <- payload:
		case <-l.stopped:
		case <-ctx.Done():
			return ctx.Err()
		case <-timeout.C:
			return broker.ErrBusy
		}
	}
	return nil
}

// add starts a listener, unless the broker is closed.
func (c *control) add(l *listener) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.closed {
		return false
	}
	c.listeners[l] = struct{}{}
	go l.run()
	return true
}

// remove stops a listener that was not stopped yet.
func (c *control) remove(l *listener) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if _, ok := c.listeners[l]; ok {
		delete(c.listeners, l)
		close(l.stopped)
	}
}

// of returns the listeners of a node, of all nodes when it is empty.
func (c *control) of(node string) (found []*listener, isOpen bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for l := range c.listeners {
		if node == "" || l.node == node {
			found = append(found, l)
		}
	}
	return found, !c.closed
}

// close stops all listeners and returns what is closed when they have ended.
func (c *control) close() []<-chan struct{} {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.closed = true
	var wait []<-chan struct{}
	for l := range c.listeners {
		close(l.stopped)
		wait = append(wait, l.ended)
	}
	clear(c.listeners)
	return wait
}

func (l *listener) run() {
	defer close(l.ended)
	for {
		select {
		case <-l.stopped:
			return
		case payload := <-l.queue:
			select {
			case <-l.stopped:
				return
			default:
				l.handle(payload)
			}
		}
	}
}
