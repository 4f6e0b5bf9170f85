package rpc

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"sync/atomic"
	"time"

	"github.com/sluice-push/sluice/rpc/frame"
	"github.com/sluice-push/sluice/rpc/pending"
	"github.com/sluice-push/sluice/session"
)

// ConnOptions are the settings of a [Conn]. For every number and duration, zero is the default and negative means no bound, or off.
type ConnOptions struct {
	// Form is the form of bodies where a [Request] has none; default JSON.
	Form Form
	// Framing is how frames are told apart; default TTHeader. Servers of Apache Thrift need one of the others, with which neither cancellation nor
	// goaway travel, and deadlines in THeader only. [frame.Bare] exists in TTHeader only.
	Framing frame.Framing
	// Frame are the limits of frames, in both directions; nil is all defaults.
	Frame *frame.Options
	// MaxCalls bounds the calls that wait for their answers; default 16,384. Calls beyond it fail with [Overloaded].
	MaxCalls int
	// Compress is how bodies of at least CompressFrom bytes, default 1 KiB, are compressed; default not at all. [frame.Zlib] is for THeader.
	// [frame.Gzip] is for TTHeader with [JSON] and [Raw]; only peers of this package understand it. Answers are compressed like their calls.
	Compress     frame.Transform
	CompressFrom int
	// Heartbeat is for how long a connection may be silent before the server is asked for a sign of life; if there is none for as long again, the
	// connection ends. Default 15 s. It works with servers of this package; others are left to the keep-alive of TCP.
	Heartbeat time.Duration
	// StreamMessages and StreamBytes bound what waits to be received from one [Stream]: messages, default 128, and bytes of their bodies, default
	// 256 KiB. A server that would send more waits. One message may exceed the bytes that are left.
	StreamMessages, StreamBytes int
	// Interceptors run around every call, the first one outermost.
	Interceptors []ClientInterceptor
	// AwaitServer has Dial and NewConn wait for the server's first frame. So a connection that a proxy, or a server that is about to stop, accepts and
	// drops is an error, and no call is lost on it. Only servers of this package say something, so it has an effect with the forms [JSON] and [Raw] only.
	AwaitServer bool
	// Unusable is called once, when the connection stops making calls: its server has asked for that, Shutdown was called, or the connection has ended.
	// It may be called before Dial has returned, and must not wait: the connection is not read meanwhile.
	Unusable func(c *Conn)
	// Session are the settings of the connection; nil is all defaults. MaxMessage is raised to the largest frame, the queue to what MaxCalls needs.
	// TickInterval and Executor are not used, and Policy is [session.Wait] unless it is [session.CloseSlow]. Engine is EngineGoroutine by default: a
	// goroutine that reads hands answers to callers faster than an event loop does, and clients have few connections.
	Session *session.Options
}

// ClientInterceptor runs around a call: it calls next, or fails. For a stream, out is the *[Stream], and next returns when the call has been sent. The
// context given to next has to last as long as the stream, whose Done is closed when it has ended.
type ClientInterceptor func(ctx context.Context, r *Request, in, out any, next DoFunc) error

// DoFunc makes a call: see [Conn.Do].
type DoFunc func(ctx context.Context, r *Request, in, out any) error

func (o *ConnOptions) withDefaults() ConnOptions {
	var out ConnOptions
	if o != nil {
		out = *o
	}
	if out.Form == nil {
		out.Form = JSON
	}
	if out.Framing == 0 {
		out.Framing = frame.TTHeader
	}
	if out.CompressFrom == 0 {
		out.CompressFrom = 1 << 10
	}
	if out.Heartbeat == 0 {
		out.Heartbeat = 15 * time.Second
	}
	out.MaxCalls = bound(out.MaxCalls, pending.DefaultLimit)
	out.StreamMessages = bound(out.StreamMessages, 128)
	out.StreamBytes = bound(out.StreamBytes, 256<<10)
	return out
}

// sessionOptions returns the settings of the session.
func (o *ConnOptions) sessionOptions() *session.Options {
	out := sessionOptions(o.Session, o.Frame)
	out.TickInterval = max(o.Heartbeat, 0)
	out.QueueFrames = max(out.QueueFrames, min(o.MaxCalls, 1<<20)+1024)
	out.QueueBytes = max(out.QueueBytes, 4<<20)
	if out.Engine == session.EngineAuto {
		out.Engine = session.EngineGoroutine
	}
	return out
}

// dialect returns the dialect of calls whose bodies have a form.
func (o *ConnOptions) dialect(f Form) frame.Dialect {
	p := f.Protocol()
	return frame.Dialect{Framing: o.Framing, Protocol: p, Wrapped: o.Framing == frame.TTHeader && p == frame.Protobuf}
}

// Conn is a connection to a server, over which any number of calls may be under way. All methods may be called concurrently.
type Conn struct {
	options ConnOptions
	do      DoFunc // with interceptors
	session *session.Session
	client  *session.Client // of this connection only
	codec   *frame.Codec
	calls   *pending.Table[waiter]
	opened  chan struct{} // closed when the session has opened: only then it tells of its end
	refused chan error    // gets the reason if it does not open
	met     chan struct{} // closed by the first frame; nil if nothing waits for that
	closed  chan struct{} // closed when the connection has ended
	err     error         // why; set before closed is closed

	draining atomic.Bool   // no new calls
	greeted  atomic.Bool   // a frame has said that this is a client of this package
	known    atomic.Bool   // the server is one of this package
	late     atomic.Uint64 // answers, and messages of streams, to calls that did not wait any more

	// Of the goroutine that reads.
	hasMet   bool   // a frame has arrived
	received uint64 // bytes, at the last tick
	pinged   bool   // at the last tick, and nothing has arrived since
}

// waiter is a call that waits for its answer.
type waiter struct {
	request *Request // nil: a one-way call, which is being sent
	stream  *Stream  // that has the request; nil: the call has one answer
}

// greet lets a server of this package know that control frames are understood, before the first call, so that it can say that it will close.
func (c *Conn) greet() {
	if c.speaksControl() {
		c.greeted.Store(true)
		sendControl(c.session, keyPing, "1")
	}
}

// speaksControl reports whether the server is one of this package.
func (c *Conn) speaksControl() bool {
	return c.known.Load() || c.options.Framing == frame.TTHeader && c.options.Form.Protocol() == frame.Bare
}

func newConn(o *ConnOptions) *Conn {
	c := &Conn{options: o.withDefaults(), opened: make(chan struct{}), refused: make(chan error, 1), closed: make(chan struct{})}
	if c.options.AwaitServer && c.speaksControl() {
		c.met = make(chan struct{})
	}
	own := c.options.sessionOptions()
	own.Observer = c.observer(own.Observer)
	c.client = session.NewClient(nil, nil, own)
	c.codec = frame.New(c.options.Frame)
	c.calls = pending.New[waiter](c.options.MaxCalls)
	c.do = c.call
	for i := len(c.options.Interceptors) - 1; i >= 0; i-- {
		outer, next := c.options.Interceptors[i], c.do
		c.do = func(ctx context.Context, r *Request, in, out any) error { return outer(ctx, r, in, out, next) }
	}
	return c
}

// Call calls a method and waits for its answer. in is the argument, and out is set to the result; both are in the connection's form, and out may be
// nil. The call ends early when ctx is done: then the server is told so. A deadline of ctx travels with the call.
//
// Errors are *[Error].
func (c *Conn) Call(ctx context.Context, method string, in, out any) error {
	r := requests.Get().(*Request) //nolint:forcetypeassert // the pool has nothing else
	r.Method = method
	err := c.Do(ctx, r, in, out)
	r.Reset()
	requests.Put(r)
	return err
}

// Send calls a method that is not answered. That there is no error means that the call was sent, or will be, not that it was handled.
func (c *Conn) Send(ctx context.Context, method string, in any) error {
	return c.Do(ctx, &Request{Method: method, OneWay: true}, in, nil)
}

// Do makes the call that r describes, as Call does. r may be used again when Do has returned, and not earlier.
func (c *Conn) Do(ctx context.Context, r *Request, in, out any) error { return c.do(ctx, r, in, out) }

// call is Do without interceptors.
func (c *Conn) call(ctx context.Context, r *Request, in, out any) error {
	form := r.Form
	if form == nil {
		form = c.options.Form
	}
	if r.stream != nil {
		return r.stream.open(ctx, form, in)
	}
	if err := r.prepare(ctx, c, form, in); err != nil {
		return err
	}
	if err := c.send(ctx, r); err != nil || r.OneWay {
		return err
	}
	select {
	case <-r.done:
	case <-ctx.Done():
		if c.take(r.frame.Sequence) == nil {
			<-r.done // the answer, or the end of the connection, has come first
			break
		}
		c.cancel(r.frame.Sequence)
		return contextError(ctx)
	}
	if r.err != nil {
		return r.err
	}
	if err := form.Parse(r.answer, out); err != nil {
		return Errorf(BadMessage, "the result of %s: %w", r.Method, err)
	}
	return nil
}

// send sends a request that is prepared. If there is an error, the request waits for nothing.
func (c *Conn) send(ctx context.Context, r *Request) error {
	if ctx.Err() != nil {
		return contextError(ctx)
	}
	waits := waiter{r, r.stream}
	if r.OneWay {
		waits.request = nil // keeps the connection from ending until it is sent, and nothing completes it
	}
	id, err := c.calls.Add(waits)
	switch {
	case errors.Is(err, pending.ErrFull):
		return Errorf(Overloaded, "%d calls wait for answers", c.options.MaxCalls)
	case err != nil:
		return Errorf(Unavailable, "the connection has ended: %w", err)
	}
	// This is asked after Add: endIfIdle sees the call in the table, or this sees that the connection is draining.
	if c.draining.Load() {
		c.drop(id, waits.request)
		return Errorf(Unavailable, "the connection is about to close")
	}
	r.frame.Sequence, r.frame.HeaderSequence = id, id
	if r.frame.Dialect.Framing == frame.TTHeader && (!c.greeted.Swap(true) || r.stream != nil && !c.speaksControl()) {
		r.frame.Add(keyPeer, "1")
	}
	if err = c.codec.Allows(&r.frame, len(r.body)); err == nil {
		err = c.session.SendAs(encoder(&r.frame), r.body)
	}
	if err != nil || r.OneWay {
		c.drop(id, waits.request)
	}
	switch {
	case err == nil:
		return nil
	case errors.Is(err, frame.ErrTooLarge):
		return Errorf(TooLarge, "the call of %s cannot be sent: %w", r.Method, err)
	case errors.Is(err, frame.ErrUnsupported):
		return Errorf(BadMessage, "the call of %s cannot be sent: %w", r.Method, err)
	case errors.Is(err, session.ErrClosed), errors.Is(err, session.ErrTimeout):
		c.refuseCalls() // ended, which does so too, may be called later
	}
	return Errorf(Unavailable, "the call of %s was not sent: %w", r.Method, err)
}

// drop removes a call that is not sent, or not answered, from the table. If the call was completed already, drop takes the completion.
func (c *Conn) drop(id int32, r *Request) {
	if c.take(id) == nil && r != nil {
		<-r.done
	}
}

// contextError returns the error of a call whose context is done.
func contextError(ctx context.Context) error {
	err := ctx.Err()
	return &Error{Code: CodeOf(err), Message: err.Error(), cause: context.Cause(ctx)}
}

// cancel tells the server that the answer to a call is of no use any more.
func (c *Conn) cancel(id int32) {
	if c.speaksControl() {
		sendControl(c.session, keyCancel, strconv.Itoa(int(id)))
	}
}

// take removes a call from the table; nil if it does not wait any more. A connection that is about to close does so after the last one.
func (c *Conn) take(id int32) *Request {
	w, _ := c.calls.Take(id)
	if c.draining.Load() {
		c.endIfIdle()
	}
	return w.request
}

// endIfIdle ends a draining connection without calls.
func (c *Conn) endIfIdle() {
	if c.calls.Len() == 0 {
		c.session.End(nil, session.ErrClosed)
	}
}

// refuseCalls has the connection make no new calls.
func (c *Conn) refuseCalls() {
	if !c.draining.Swap(true) && c.options.Unusable != nil {
		c.options.Unusable(c)
	}
}

// message takes the frame that the codec has found.
func (c *Conn) message(_ *session.Session, body []byte) {
	f := c.codec.Frame()
	if !c.hasMet && c.met != nil {
		close(c.met)
	}
	c.hasMet = true
	switch f.Kind {
	case frame.Reply, frame.Exception:
		if f.Value(keyPeer) != nil {
			c.known.Store(true)
		}
		if f.Kind == frame.Reply && string(f.Value(keyStream)) == streamMore {
			c.part(f, body)
			break
		}
		if w, _ := c.calls.Take(f.Sequence); w.request != nil {
			w.request.complete(f, body)
		} else {
			c.late.Add(1)
		}
		if c.draining.Load() {
			c.endIfIdle()
		}
	case frame.Control:
		if f.Value(keyGoaway) != nil {
			c.refuseCalls()
			c.endIfIdle()
		}
		if id := idOf(f, keyPeer); id != 0 {
			c.begun(id)
		}
	default:
		c.session.Abort(fmt.Errorf("rpc: a server has sent a frame of the kind %v", f.Kind))
	}
	c.codec.Rest()
}

// tick looks after a silent connection.
func (c *Conn) tick(s *session.Session) {
	before := c.received
	c.received = c.client.Stats().BytesIn // a part of a frame is a sign of life
	switch {
	case c.received != before:
		c.pinged = false
	case c.pinged:
		s.Abort(ErrSilent)
	case c.speaksControl():
		c.pinged = true
		sendControl(s, keyPing, "1")
	}
}

// ErrSilent is why a connection has ended whose server did not answer a heartbeat.
var ErrSilent = errors.New("rpc: the server has not answered a heartbeat")

// ended fails all calls that wait.
func (c *Conn) ended(_ *session.Session, info *session.CloseInfo) {
	c.refuseCalls()
	c.err = info.Err
	for _, w := range c.calls.Close(info.Err) {
		if w.request != nil {
			w.request.fail(Errorf(Lost, "the connection ended before the answer: %w", info.Err))
		}
	}
	close(c.closed)
	go func() { _ = c.client.Close() }() // waits for this function
}

// Close ends the connection at once. Calls that wait fail with [Lost].
func (c *Conn) Close() error {
	c.session.Close()
	<-c.closed
	return nil
}

// Shutdown ends the connection when all calls have their answers; new calls fail with [Unavailable]. If ctx is done first, it ends at once, and the
// error is that of ctx.
func (c *Conn) Shutdown(ctx context.Context) error {
	c.refuseCalls()
	c.endIfIdle()
	select {
	case <-c.closed:
		return nil
	case <-ctx.Done():
		_ = c.Close()
		return ctx.Err()
	}
}

// Done is closed when the connection has ended; then Err says why.
func (c *Conn) Done() <-chan struct{} { return c.closed }

// Err returns why the connection has ended, and nil before that.
func (c *Conn) Err() error {
	select {
	case <-c.closed:
		return c.err
	default:
		return nil
	}
}

// Usable reports whether calls can be made: the connection has not ended, and the server has not asked to make no more calls.
func (c *Conn) Usable() bool { return !c.draining.Load() }

// Form returns the form of bodies where a Request has none.
func (c *Conn) Form() Form { return c.options.Form }

// Pending returns how many calls wait for their answers.
func (c *Conn) Pending() int { return c.calls.Len() }

// Late returns how many answers, and messages of streams, came to calls that did not wait for them any more.
func (c *Conn) Late() uint64 { return c.late.Load() }
