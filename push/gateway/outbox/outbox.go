// Package outbox holds what waits to be written to a client whose connection belongs to a goroutine: the response to an HTTP request, a gRPC call.
// An [Outbox] implements all methods of a gateway.Carrier but Disconnect. Its owner writes what [Outbox.Take] returns.
package outbox

import (
	"errors"
	"sync"

	"github.com/sluice-push/sluice/push"
	"github.com/sluice-push/sluice/push/hub"
)

const (
	// Limit is from how many bytes on, waiting or being written, an outbox takes no more.
	Limit = 64 << 10
	// kept is the largest buffer that is kept while nothing waits.
	kept = 4 << 10
)

// ErrEnded means that the connection has ended, or is about to.
var ErrEnded = errors.New("the connection has ended")

// Framing is how replies are put on the wire; see gateway.Framing. Frames of the hub are in it already.
type Framing interface {
	Begin(dst []byte) []byte
	Finish(dst []byte, start int) []byte
}

// Options say how an outbox puts what it takes on the wire. The functions are called with the outbox's lock held.
type Options struct {
	Framing Framing
	// Frame appends a frame of the hub; nil appends its bytes.
	Frame func(dst []byte, f *hub.Frame) []byte
	// Ping appends the server's ping.
	Ping func(dst []byte) []byte
	// Abort ends the connection at once. It does not block, and may be called more than once.
	Abort func()
}

// Outbox is what waits for one client. The methods of carriers may be called concurrently; Begin, Take and Written are the owner's.
type Outbox struct {
	options Options
	wake    chan struct{} // something waits, or the connection is to end

	mu      sync.Mutex // guards what follows
	buf     []byte
	writing int           // bytes that the owner is writing
	room    chan struct{} // closed when there is room again; nil while no reply waits for it
	begun   bool          // frames and replies are taken
	refused bool          // a frame was not taken
	pingDue bool
	ends    *push.Disconnect // why the server ends the connection
	closed  bool             // the connection has ended
}

// Init prepares a zero Outbox, before any other method is called.
func (o *Outbox) Init(options Options) { o.options, o.wake = options, make(chan struct{}, 1) }

// Begin lets the outbox take frames and replies from now on. What hello appends comes before them; nil is nothing.
func (o *Outbox) Begin(hello func(dst []byte) []byte) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.begun = true
	if hello != nil {
		o.buf = hello(o.buf)
	}
	o.signal()
}

// Begun reports whether Begin was called.
func (o *Outbox) Begun() bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.begun
}

// Lock locks what the functions of the options are called with, for state of their own.
func (o *Outbox) Lock() sync.Locker { return &o.mu }

// TryWrite implements hub.Carrier. What waits and is being written together exceeds Limit by less than one frame.
func (o *Outbox) TryWrite(frames []hub.Frame) int {
	o.mu.Lock()
	defer o.mu.Unlock()
	taken := 0
	for i := range frames {
		if o.isFullLocked() || !o.begun {
			o.refused = true
			break
		}
		o.appendLocked(&frames[i])
		taken++
	}
	o.signal()
	return taken
}

func (o *Outbox) appendLocked(f *hub.Frame) {
	if o.options.Frame != nil {
		o.buf = o.options.Frame(o.buf, f)
	} else {
		o.buf = append(o.buf, f.Bytes...)
	}
}

func (o *Outbox) isFullLocked() bool {
	return len(o.buf)+o.writing >= Limit || o.ends != nil || o.closed
}

// Reply implements gateway.Carrier: it waits for room. The owner's time-out for writing bounds that.
func (o *Outbox) Reply(message []byte) error {
	for {
		room, err := o.tryReply(message)
		if room == nil {
			return err
		}
		<-room
	}
}

// tryReply takes a reply, or returns what is closed when it is worth another try.
func (o *Outbox) tryReply(message []byte) (room <-chan struct{}, err error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	switch {
	case o.ends != nil || o.closed || !o.begun:
		return nil, ErrEnded
	case o.isFullLocked():
		if o.room == nil {
			o.room = make(chan struct{})
		}
		return o.room, nil
	}
	start := len(o.buf)
	o.buf = o.options.Framing.Finish(append(o.options.Framing.Begin(o.buf), message...), start)
	o.signal()
	return nil, nil
}

// Ping implements gateway.Carrier.
func (o *Outbox) Ping() bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.ends != nil || o.closed {
		return false
	}
	o.pingDue = true
	o.signal()
	return true
}

// End implements gateway.Carrier: Take returns why.
func (o *Outbox) End(last []byte, d push.Disconnect) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if len(last) > 0 && o.begun && !o.closed {
		o.appendLocked(&hub.Frame{Bytes: last})
	}
	o.ends = &d
	o.wakeReplyLocked()
	o.signal()
}

// Abort implements gateway.Carrier.
func (o *Outbox) Abort(push.Disconnect) { o.options.Abort() }

// Queued implements gateway.Carrier.
func (o *Outbox) Queued() int {
	o.mu.Lock()
	defer o.mu.Unlock()
	return len(o.buf) + o.writing
}

// Wake is received from when it is time to call Take.
func (o *Outbox) Wake() <-chan struct{} { return o.wake }

// Take returns what waits, the ping last, and why the connection is to end when all of that is written. spare is memory for what comes; it may be
// what Take returned before.
func (o *Outbox) Take(spare []byte) (out []byte, ends *push.Disconnect) {
	if cap(spare) > kept {
		spare = nil
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	out, o.buf = o.buf, spare[:0]
	if o.pingDue {
		o.pingDue = false
		out = o.options.Ping(out)
	}
	o.writing = len(out)
	return out, o.ends
}

// Written says that what was taken is on its way, and reports whether frames were refused meanwhile: then the owner calls Client.Writable.
func (o *Outbox) Written() (refused bool) {
	o.mu.Lock()
	defer o.mu.Unlock()
	refused, o.refused, o.writing = o.refused, false, 0
	o.wakeReplyLocked()
	return refused
}

// Close says that nothing will be written any more.
func (o *Outbox) Close() {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.closed = true
	o.buf, o.writing = nil, 0
	o.wakeReplyLocked()
}

func (o *Outbox) wakeReplyLocked() {
	if o.room != nil {
		close(o.room)
		o.room = nil
	}
}

func (o *Outbox) signal() {
	select {
	case o.wake <- struct{}{}:
	default:
	}
}
