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

// control holds the listeners for control messages.
type control struct {
	mu        sync.Mutex
	listeners map[*listener]struct{}
	closed    bool
}

// listener is the state of one Listen: a queue, and the goroutine that calls the handler.
type listener struct {
	node    string
	handle  func(payload []byte)
	queue   chan []byte
	stopped chan struct{} // closed once, under control.mu
	ended   chan struct{} // closed when the goroutine has ended
}

// Listen begins to call handle for the control messages to node. ctx matters only until Listen returns. If several listeners use one name, each
// gets every message. stop drops the queued messages. It may be called again, but not from handle.
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

// Tell queues a copy of payload for the listeners with the name node, or for all listeners if node is empty. If the queue of 64 messages of a
// listener is full, Tell first serves the other listeners. Then it waits until ctx is done, or for at most Options.PublishWait, and returns
// ErrBusy after that. A handler may call Tell.
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

// remove stops a listener, unless it has been stopped already.
func (c *control) remove(l *listener) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if _, ok := c.listeners[l]; ok {
		delete(c.listeners, l)
		close(l.stopped)
	}
}

// of returns the listeners with the name node, or all listeners if node is empty.
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

// close stops all listeners, and returns channels that are closed when their goroutines have ended.
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
