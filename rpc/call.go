package rpc

import (
	"context"
	"net"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"github.com/sluice-push/sluice/rpc/frame"
)

// Func handles calls: it appends the body of the answer to dst, which is empty, and returns it. It must not keep dst, nor the body of the call. It may
// also return other memory, such as the body of the call, which must not change until the answer is sent.
// ctx is the call's: see [Call.Context]. For one-way calls the answer is dropped. An error is sent as [Error] says. A panic is answered with
// [Internal] and ends nothing else.
type Func func(ctx context.Context, c *Call, dst []byte) ([]byte, error)

// Interceptor runs around every [Func] of a server. It calls next, or returns an answer of its own. It also runs around every [StreamFunc]: then next
// returns, with an empty body, when the StreamFunc has returned. If the interceptor returns a body, it is the last message of the stream.
type Interceptor func(ctx context.Context, c *Call, dst []byte, next Func) ([]byte, error)

// Call is a call on its way through a server. Its methods may be called by several goroutines until the handler returns, except for SetMetadata.
type Call struct {
	// Set when the call arrives.
	conn     *serverConn
	method   *method
	sequence int32
	kind     frame.Kind
	protocol frame.Protocol
	body     []byte
	copied   *buffer // of body; nil while body is borrowed from the connection
	answers  *buffer // for a large answer; nil until it is made
	size     int     // of body and metadata, as it counts for Options.MaxBytes
	metadata []Pair
	reply    frame.Frame
	sender   *sender     // of the stream that answers the call; nil: there is one answer
	deadline time.Time   // zero: none
	canceled atomic.Bool // by the caller, so that an answer is of no use

	ctx callContext
}

// Pair is a key and a value of metadata.
type Pair struct{ Key, Value string }

// Method returns the name of the method.
func (c *Call) Method() string { return c.method.name }

// Protocol returns the protocol of the call's message, which is that of the answer, too.
func (c *Call) Protocol() frame.Protocol { return c.protocol }

// IsOneWay reports whether the call is not answered.
func (c *Call) IsOneWay() bool { return c.kind == frame.OneWay }

// SetOneWay has the call not answered, although the caller did not say that. Some clients of Thrift send one-way calls like that.
func (c *Call) SetOneWay() { c.kind = frame.OneWay }

// Body returns the body of the call. It is borrowed until the handler returns.
func (c *Call) Body() []byte { return c.body }

// Metadata returns the first value that the caller has sent for a key, and whether there is one.
func (c *Call) Metadata(key string) (value string, ok bool) { return lookUp(c.metadata, key) }

// AllMetadata returns all pairs that the caller has sent, in their order. They must not be changed.
func (c *Call) AllMetadata() []Pair { return c.metadata }

// SetMetadata adds a pair to the answer, or to the end of a stream. Peers whose framing has no header do not get it.
func (c *Call) SetMetadata(key, value string) { c.reply.Add(key, value) }

// Stopping returns a channel that is closed when the server begins to stop. Handlers of streams that do not end by themselves return then, because
// Shutdown waits for them.
func (c *Call) Stopping() <-chan struct{} { return c.conn.server.stopping }

// Refuse returns an error, with the code [Overloaded], for a handler that has done nothing: its caller may make the call elsewhere. For it [Refused]
// reports true there, if its client is one of this package.
func (c *Call) Refuse(format string, args ...any) *Error {
	e := Errorf(Overloaded, format, args...)
	e.refused = true
	return e
}

// markRefused has the answer say that the handler has not begun.
func (c *Call) markRefused() {
	c.conn.mu.Lock()
	known := c.conn.known
	c.conn.mu.Unlock()
	if known {
		c.reply.Add(keyRefused, "1")
	}
}

// RemoteAddr returns the address of the caller.
func (c *Call) RemoteAddr() net.Addr { return c.conn.session.RemoteAddr() }

// Context returns the context of the call. It is done at the deadline that the caller has sent, when the caller cancels the call or is gone, and
// when the handler has returned. A call that is handled inline, or in order, keeps its connection from being read: it does not learn that its caller
// is gone.
func (c *Call) Context() context.Context { return &c.ctx }

// From returns the call whose handler got ctx, or a context that was made from it; nil if there is none.
func From(ctx context.Context) *Call {
	c, _ := ctx.Value(callKey{}).(*Call)
	return c
}

type callKey struct{}

func lookUp(pairs []Pair, key string) (value string, ok bool) {
	for i := range pairs {
		if pairs[i].Key == key {
			return pairs[i].Value, true
		}
	}
	return "", false
}

// callContext is the context of a Call. It costs a channel and a timer only if it is waited for.
type callContext struct {
	call *Call

	mu    sync.Mutex
	done  chan struct{} // nil until Done was called
	timer *time.Timer   // for the deadline; nil until Done was called
	err   error         // not nil: the context is done
}

func (x *callContext) Deadline() (deadline time.Time, ok bool) {
	return x.call.deadline, !x.call.deadline.IsZero()
}

func (x *callContext) Done() <-chan struct{} {
	x.mu.Lock()
	defer x.mu.Unlock()
	if x.done != nil {
		return x.done
	}
	x.done = make(chan struct{})
	switch {
	case x.err != nil:
		close(x.done)
	case !x.call.deadline.IsZero():
		x.timer = time.AfterFunc(time.Until(x.call.deadline), func() { x.end(context.DeadlineExceeded) })
	}
	return x.done
}

func (x *callContext) Err() error {
	if deadline := x.call.deadline; !deadline.IsZero() && !time.Now().Before(deadline) {
		x.end(context.DeadlineExceeded)
	}
	x.mu.Lock()
	defer x.mu.Unlock()
	return x.err
}

func (x *callContext) Value(key any) any {
	if _, ok := key.(callKey); ok {
		return x.call
	}
	return nil
}

// end makes the context done. Only the first call has an effect.
func (x *callContext) end(err error) {
	x.mu.Lock()
	defer x.mu.Unlock()
	if x.err != nil {
		return
	}
	x.err = err
	if x.timer != nil {
		x.timer.Stop()
	}
	if x.done != nil {
		close(x.done)
	}
}

// deadlineOf returns the time until which a frame wants its answer, zero if it does not say so.
func deadlineOf(f *frame.Frame) time.Time {
	text := f.Value(keyTimeout)
	if f.Dialect.Framing == frame.TTHeader {
		text = f.Int(intTimeout)
	}
	if len(text) == 0 {
		return time.Time{}
	}
	ms, err := strconv.ParseInt(string(text), 10, 32)
	if err != nil || ms <= 0 {
		return time.Time{} // as Kitex has it: no time-out
	}
	return time.Now().Add(time.Duration(ms) * time.Millisecond)
}
