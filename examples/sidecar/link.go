package main

import (
	"errors"
	"fmt"
	"net"
	"strconv"
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

	draining atomic.Bool
	upEnded  atomic.Bool // no more calls come

	mu      sync.Mutex
	pending map[int32]int // calls that were forwarded and not answered, by sequence id
	reason  error         // the first failure
	timer   *time.Timer   // runs when one side has left
}

// maxPending bounds the ids in pending, because a client may send calls that its server never answers. Calls beyond it are not waited for.
const maxPending = 100_000

// Keys that package rpc has in the headers of TTHeader.
const (
	keyCancel  = "sluice.cancel" // in a control frame: the call with this sequence id is canceled, and not answered
	keyStream  = "sluice.stream" // in a reply: streamMore says that more replies to the same call follow
	streamMore = "more"
)

// newLink makes a link.
func newLink(p *proxy, client, server net.Conn) *link {
	l := &link{client: client, server: server, linger: p.linger}
	l.up = newRelay(p, client, server, "client", "server")
	l.down = newRelay(p, server, client, "server", "client")
	l.pending = make(map[int32]int)
	l.up.begun = func(f *frame.Frame) {
		if isCall(f.Kind) {
			l.called(f.Sequence)
		} else if id, err := strconv.ParseInt(string(f.Value(keyCancel)), 10, 32); err == nil && f.Kind == frame.Control {
			l.answered(int32(id))
		}
	}
	l.down.ended = func(answers []int32) {
		if len(answers) > 0 {
			l.answered(answers...)
			l.settle()
		}
	}
	return l
}

// called notes a call that is being forwarded.
func (l *link) called(id int32) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if len(l.pending) < maxPending {
		l.pending[id]++ // clients of Thrift may have one id for all calls
	}
}

// answered forgets calls that are answered or canceled. A canceled call may be answered, too, if the two cross.
func (l *link) answered(ids ...int32) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, id := range ids {
		if n := l.pending[id]; n > 1 {
			l.pending[id] = n - 1
		} else {
			delete(l.pending, id)
		}
	}
}

// isCall reports whether a frame from a client is answered. The kind of a compressed message is not known.
func isCall(kind frame.Kind) bool { return kind == frame.Call || kind == 0 }

// isAnswer reports whether a frame from a server answers a call. The messages of a stream but the last do not.
func isAnswer(f *frame.Frame) bool {
	switch f.Kind {
	case frame.Reply:
		return string(f.Value(keyStream)) != streamMore
	case frame.Exception, 0:
		return true
	}
	return false
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
	if !l.draining.Load() || !l.upEnded.Load() {
		return
	}
	l.mu.Lock()
	pending := len(l.pending) // only fewer from now on
	l.mu.Unlock()
	if pending == 0 {
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
