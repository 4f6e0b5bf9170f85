package main

import (
	"errors"
	"fmt"
	"net"
	"sync"
	"sync/atomic"
	"time"

	"github.com/sluice-push/sluice/rpc/frame"
)

// link is a client with its connection to the server. A goroutine forwards each direction.
type link struct {
	client, server net.Conn
	up, down       *relay // calls, and answers
	linger         time.Duration

	pending  atomic.Int64 // calls that were forwarded, less answers
	draining atomic.Bool
	upEnded  atomic.Bool // no more calls come

	mu     sync.Mutex
	reason error       // the first failure
	timer  *time.Timer // runs when one side has left
}

// newLink makes a link.
func newLink(p *proxy, client, server net.Conn) *link {
	l := &link{client: client, server: server, linger: p.linger}
	l.up = newRelay(p, client, server, "client", "server")
	l.down = newRelay(p, server, client, "server", "client")
	l.up.begun = func(kind frame.Kind) {
		if isCall(kind) {
			l.pending.Add(1)
		}
	}
	l.down.ended = func(answers int) {
		if answers > 0 {
			l.pending.Add(-int64(answers))
			l.settle()
		}
	}
	return l
}

// isCall reports whether a frame from a client is answered. The kind of a compressed message is not known.
func isCall(kind frame.Kind) bool { return kind == frame.Call || kind == 0 }

// isAnswer reports whether a frame from a server answers a call.
func isAnswer(kind frame.Kind) bool {
	return kind == frame.Reply || kind == frame.Exception || kind == 0
}

// run forwards both directions until they have ended.
func (l *link) run() error {
	var both sync.WaitGroup
	both.Go(func() {
		err := l.up.run()
		l.upEnded.Store(true)
		l.finished(l.up, err)
		l.settle()
	})
	both.Go(func() { l.finished(l.down, l.down.run()) })
	both.Wait()
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.timer != nil {
		l.timer.Stop()
	}
	return l.reason
}

// finished does what follows the end of one direction.
func (l *link) finished(r *relay, err error) {
	switch {
	case errors.Is(err, errStopped):
		if r == l.down { // all answers were forwarded
			l.closeBoth()
		}
	case err != nil:
		l.fail(err)
	default: // the peer has left in order, and the other learns that
		if half, ok := r.dst.(interface{ CloseWrite() error }); ok {
			_ = half.CloseWrite() // if it fails, the other direction fails too
		}
		l.mu.Lock()
		defer l.mu.Unlock()
		if l.timer == nil {
			l.timer = time.AfterFunc(l.linger, func() { l.fail(fmt.Errorf("the %s has left, the %s not within %v", r.from, r.to, l.linger)) })
		}
	}
}

// drain takes no more calls from the client.
func (l *link) drain() {
	l.draining.Store(true)
	l.up.stop()
	l.settle()
}

// settle ends a link that is draining when all its calls are answered.
func (l *link) settle() {
	if l.draining.Load() && l.upEnded.Load() && l.pending.Load() <= 0 {
		l.down.stop()
	}
}

// fail ends the link at once. The first reason counts.
func (l *link) fail(reason error) {
	l.mu.Lock()
	if l.reason == nil {
		l.reason = reason
	}
	l.mu.Unlock()
	l.closeBoth()
}

func (l *link) closeBoth() {
	_ = l.client.Close()
	_ = l.server.Close()
}
