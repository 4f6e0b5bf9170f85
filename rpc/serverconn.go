package rpc

import (
	"context"
	"errors"
	"fmt"
	"runtime/debug"
	"strconv"
	"sync"
	"time"

	"github.com/sluice-push/sluice/rpc/frame"
	"github.com/sluice-push/sluice/session"
)

// serverConn is one connection of a server.
type serverConn struct {
	server  *Server
	session *session.Session
	codec   *frame.Codec
	proof   proof

	// Of the goroutine that reads.
	announced bool // an answer has said that this is package rpc
	noted     bool // known is set

	mu       sync.Mutex
	calls    map[int32]*Call // by sequence id, until they are answered
	running  int             // calls under way, until their answers are sent
	bytes    int             // of their bodies and metadata
	known    bool            // the peer is one of this package
	shared   bool            // the peer has many calls under way: Kitex, if it is not known
	told     bool            // the peer knows that the connection will close
	draining bool
	last     time.Time   // when the last call began or ended, while draining
	grace    *time.Timer // ends a silent connection while draining
	ended    bool
	sending  int // bytes of the bodies of answers that are being sent
}

// errClient is in the cause of the end of a connection that the server ends because of what its client has sent.
var errClient = errors.New("rpc: the client breaks the protocol")

func (srv *Server) open(s *session.Session) error {
	c := &serverConn{server: srv, session: s, codec: frame.New(srv.options.Frame), calls: map[int32]*Call{}}
	if srv.options.MaxUnproven > 0 {
		s.SetCodec(&unprovenCodec{c.codec, &c.proof})
	} else {
		s.SetCodec(c.codec)
	}
	s.SetValue(c)
	srv.unproven.add(c)
	srv.mu.Lock()
	srv.conns[c] = struct{}{}
	srv.mu.Unlock()
	return nil
}

// message takes the frame that the codec has found.
func (c *serverConn) message(body []byte) {
	f := c.codec.Frame()
	if f.Dialect.Framing == frame.TTHeader && !c.noted {
		c.note(f)
	}
	switch f.Kind {
	case frame.Call, frame.OneWay:
		c.begin(f, body)
	case frame.Control:
		c.controlled(f)
	default:
		c.session.Abort(fmt.Errorf("%w: it has sent a frame of the kind %v", errClient, f.Kind))
	}
	c.codec.Rest()
}

// note notes what kind of client has sent a frame of TTHeader. If the connection is draining, the client may have to be told now.
func (c *serverConn) note(f *frame.Frame) {
	c.noted = f.Kind == frame.Control || f.Value(keyPeer) != nil
	c.mu.Lock()
	c.known = c.noted
	c.shared = c.shared || f.Flags&frame.FlagOutOfOrder != 0
	tell := c.tellLocked(false)
	c.mu.Unlock()
	if tell {
		sendControl(c.session, keyGoaway, "1")
	}
}

// controlled takes a frame about the connection.
func (c *serverConn) controlled(f *frame.Frame) {
	if value := f.Value(keyPing); value != nil {
		sendControl(c.session, keyPing, string(value))
	}
	if value := f.Value(keyCredit); value != nil {
		c.credited(string(value))
	}
	if id := idOf(f, keyCancel); id != 0 {
		c.mu.Lock()
		call := c.calls[id]
		c.mu.Unlock()
		if call != nil && call.canceled.CompareAndSwap(false, true) {
			c.server.counts.canceled.Add(1)
			call.ctx.end(context.Canceled)
		}
	}
}

// credited takes the credit that the caller of a stream gives.
func (c *serverConn) credited(text string) {
	id, more, ok := parseGrant(text)
	if !ok {
		c.session.Abort(fmt.Errorf("%w: it has sent the bad credit %q", errClient, shortened(text, 64)))
		return
	}
	c.mu.Lock()
	call := c.calls[id]
	c.mu.Unlock()
	switch {
	case call == nil: // the stream has ended, and the client did not know yet
	case call.sender == nil:
		c.session.Abort(fmt.Errorf("%w: it has sent credit for the call %d, which has no stream", errClient, id))
	case !call.sender.grant(more):
		c.session.Abort(fmt.Errorf("%w: it has sent too much credit for the stream %d", errClient, id))
	}
}

// begin begins a call.
func (c *serverConn) begin(f *frame.Frame, body []byte) {
	counts := &c.server.counts
	counts.calls.Add(1)
	call := &Call{conn: c, sequence: f.Sequence, kind: f.Kind, protocol: f.Dialect.Protocol, body: body}
	call.ctx.call = call
	if f.Kind == frame.OneWay {
		counts.oneWay.Add(1)
	} else {
		call.reply.Answer(f, frame.Reply)
		if f.Dialect.Framing == frame.TTHeader && !c.announced {
			c.announced = true
			call.reply.Add(keyPeer, "1")
		}
	}
	err := c.admit(call, f)
	if err != nil {
		counts.refused.Add(1)
		call.markRefused()
		call.answer(nil, err)
		return
	}
	if call.sender != nil && f.Value(keyPeer) != nil {
		sendControl(c.session, keyPeer, strconv.Itoa(int(call.sequence)))
	}
	inOrder := f.Dialect.Framing != frame.TTHeader && f.Flags&frame.FlagOutOfOrder == 0
	if call.method.Inline || inOrder {
		call.run()
		return
	}
	call.copied = newBuffer(len(body))
	call.copied.b = append(call.copied.b, body...)
	call.body = call.copied.b
	c.server.running.Add(1)
	run := func() {
		defer c.server.running.Done()
		call.run()
	}
	if e := c.server.options.Executor; e == nil {
		go run()
	} else if err := e.TrySubmit(c.session.ID(), run); err != nil {
		counts.refused.Add(1)
		call.markRefused()
		call.end(nil, Errorf(Overloaded, "too many calls wait: %w", err))
		c.server.running.Done()
	}
}

// admit finds the method of a call and counts the call as under way, or returns the error with which it is refused.
func (c *serverConn) admit(call *Call, f *frame.Frame) (err error) {
	var otherwise bool
	call.method, otherwise = c.server.method(f.Method, call.protocol)
	switch {
	case call.method == nil && otherwise:
		return Errorf(UnknownMethod, "the method %q is handled in other forms, not in that of the call (protocol %v)", f.Method, call.protocol)
	case call.method == nil:
		return Errorf(UnknownMethod, "there is no method %q", f.Method)
	case call.method.Stream != nil:
		if call.sender, err = newSender(call, f); err != nil {
			return err
		}
	}
	call.size = len(call.body)
	for i := range f.Pairs {
		call.size += len(f.Pairs[i].Key) + len(f.Pairs[i].Value) + pairBytes
	}
	call.deadline = deadlineOf(f)
	o := &c.server.options
	if c.server.calls.Add(1) > int64(o.MaxAllCalls) {
		c.server.calls.Add(-1)
		return Errorf(Overloaded, "the server has %d calls under way", o.MaxAllCalls)
	}
	c.mu.Lock()
	err = c.addLocked(call, o)
	c.mu.Unlock()
	if err != nil {
		c.server.calls.Add(-1)
		return err
	}
	if c.server.closing.Load() {
		call.ctx.end(context.Canceled)
	}
	for i := range f.Pairs {
		if key := string(f.Pairs[i].Key); key != keyTimeout && key != keyPeer && key != keyStream {
			call.metadata = append(call.metadata, Pair{string(f.Pairs[i].Key), string(f.Pairs[i].Value)})
		}
	}
	return nil
}

// pairBytes is how many bytes a pair of metadata takes besides its text.
const pairBytes = 32

// leaving is how many calls may have been answered without that being noted yet: their goroutines wait for a processor.
const leaving = 64

// addLocked adds a call. Calls whose answers are on their way do not count as under way, so a client that has an answer may make the next call. But with
// them there are at most twice as many calls, not counting the leaving ones, and twice as many bytes.
func (c *serverConn) addLocked(call *Call, o *Options) error {
	size := c.bytes + call.size
	switch {
	case len(c.calls) >= o.MaxCalls || (c.running-leaving)/2 >= o.MaxCalls:
		return Errorf(Overloaded, "the connection has %d calls under way", o.MaxCalls)
	case len(c.calls) > 0 && size > o.MaxBytes || c.running > 0 && size/2 > o.MaxBytes:
		return Errorf(Overloaded, "the calls of the connection have %d bytes", c.bytes)
	case c.calls[call.sequence] != nil:
		return Errorf(BadSequence, "another call has the sequence id %d", call.sequence)
	}
	c.calls[call.sequence] = call
	c.running++
	c.bytes += call.size
	if c.draining {
		c.last = time.Now()
	}
	return nil
}

// run handles a call and answers it.
func (c *Call) run() {
	size, most := int(c.method.answered.Load()), keptBuffer
	if c.copied != nil { // it may wait: see answerMemory
		size, most = 0, smallBuffer
	}
	answer := newBuffer(size)
	returned := false
	defer func() {
		if !returned { // the handler has ended the goroutine
			c.conn.server.counts.failed.Add(1)
			c.end(nil, c.panicError())
		}
	}()
	body, err := c.handle(answer.b)
	returned = true
	if err != nil {
		c.conn.server.counts.failed.Add(1)
	}
	c.end(body, err)
	if c.answers != nil {
		c.answers.growFor(len(body), keptBuffer)
		c.answers.release()
	} else {
		answer.growFor(len(body), most) // body itself may be memory of the handler
	}
	answer.release()
	if n := int64(len(body)); n != c.method.answered.Load() {
		c.method.answered.Store(n)
	}
}

// answerMemory returns memory for an answer that is about to be made. It fits the last answer of the method, so that large answers are not allocated each
// time. Handlers that wait do not hold it. dst is what the function of the method got.
func (c *Call) answerMemory(dst []byte) []byte {
	size := int(c.method.answered.Load())
	if len(dst) > 0 || size <= max(cap(dst), smallBuffer) || size > keptBuffer {
		return dst
	}
	if c.answers == nil { // otherwise an interceptor has called next again
		c.answers = newBuffer(size)
	}
	return c.answers.b
}

// panicError returns the error with which a call whose handler has panicked is answered.
func (c *Call) panicError() error {
	return Errorf(Internal, "the handler of %s has panicked", c.method.name)
}

// handle calls the handler. A panic becomes an error, also if the error of the handler panics when its text is asked for.
func (c *Call) handle(dst []byte) (body []byte, err error) {
	if ctxErr := c.ctx.Err(); ctxErr != nil {
		return nil, Errorf(CodeOf(ctxErr), "the call came too late: %w", ctxErr)
	}
	returned := false
	defer func() {
		if returned {
			return
		}
		value := recover() // nil: runtime.Goexit, after which the goroutine ends
		body, err = nil, c.panicError()
		srv := c.conn.server
		srv.counts.panics.Add(1)
		srv.options.Logger.Error("a handler of a method has panicked", "method", c.method.name, "panic", value, "stack", string(debug.Stack()))
	}()
	if body, err = c.method.run(&c.ctx, c, dst); err != nil {
		if e, ok := err.(*Error); ok && e != nil && e.refused && !e.Remote { //nolint:errorlint // what the handler has made itself, as its answer
			c.markRefused()
		}
		x := exceptionOf(err)
		body, err = nil, &x
	} else {
		c.conn.prove()
	}
	returned = true
	return body, err
}

// end answers a call that was under way, and forgets it. The client may use its sequence id again as soon as it has the answer.
func (c *Call) end(body []byte, err error) {
	if c.sender != nil {
		c.sender.end()
	}
	conn := c.conn
	conn.mu.Lock()
	delete(conn.calls, c.sequence)
	conn.mu.Unlock()
	if !c.canceled.Load() {
		c.answer(body, err)
	}
	c.ctx.end(context.Canceled)
	if c.copied != nil {
		c.copied.release()
	}
	conn.server.calls.Add(-1)
	conn.mu.Lock()
	conn.running--
	conn.bytes -= c.size
	if conn.draining {
		conn.last = time.Now()
	}
	conn.mu.Unlock()
}

// answer sends the answer to a call, if it is not one-way. If the answer cannot be sent, the caller is told that, or the connection is ending.
func (c *Call) answer(body []byte, err error) {
	if c.kind == frame.OneWay {
		return
	}
	if !c.reply.Dialect.Framing.HasHeader() {
		c.reply.Pairs = nil
	}
	if c.sender != nil && err == nil && len(body) == 0 {
		c.reply.Add(keyStream, streamEnd)
	}
	most := frameBytes(c.conn.server.options.Frame)
	if err == nil && len(body) > most {
		err = Errorf(TooLarge, "the answer has %d bytes, at most %d are allowed", len(body), most)
	}
	if err == nil {
		err = c.conn.reserve(len(body))
	}
	if err == nil {
		if err = c.conn.codec.Allows(&c.reply, len(body)); err == nil {
			err = c.conn.session.SendAs(encoder(&c.reply), body)
		}
		c.conn.free(len(body))
		if err == nil || errors.Is(err, session.ErrClosed) || errors.Is(err, session.ErrTimeout) {
			return
		}
		code := Internal
		if errors.Is(err, frame.ErrTooLarge) {
			code = TooLarge
		}
		err = Errorf(code, "the answer cannot be sent: %w", err)
		c.reply.Pairs = nil
	}
	x := exceptionOf(err)
	x.Message = shortened(x.Message, min(maxErrorText, most/4))
	c.reply.Kind = frame.Exception
	text := x.AppendBody(nil, c.protocol)
	if c.conn.codec.Allows(&c.reply, len(text)) != nil {
		c.reply.Pairs = nil
	}
	if err = c.conn.session.SendAs(&c.reply, text); err != nil && !errors.Is(err, session.ErrClosed) {
		c.conn.session.Abort(fmt.Errorf("rpc: an answer cannot be sent: %w", err))
	}
}

// answerShare is how many times MaxBytes the bodies of answers may have that are being sent. A client that does not read makes them wait.
const answerShare = 4

// reserve counts the body of an answer, or of a message of a stream, as being sent. It returns the error that is answered in its place if too much is.
func (c *serverConn) reserve(size int) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if most := c.server.options.MaxBytes; c.sending > 0 && (c.sending+size)/answerShare > most {
		c.server.counts.refused.Add(1)
		return Errorf(Overloaded, "the client does not read: %d bytes of answers wait for it", c.sending)
	}
	c.sending += size
	return nil
}

// free is called when what was reserved has been sent, or will not be.
func (c *serverConn) free(size int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.sending -= size
}

// cancelAll makes the contexts of all calls done.
func (c *serverConn) cancelAll(err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, call := range c.calls {
		call.ctx.end(err)
	}
}

// drain tells the client to make no more calls, and ends the connection when it is silent.
func (c *serverConn) drain() {
	c.mu.Lock()
	if c.draining || c.ended {
		c.mu.Unlock()
		return
	}
	c.draining, c.last = true, time.Now()
	if grace := c.server.options.DrainGrace; grace >= 0 {
		c.grace = time.AfterFunc(grace, c.endIfSilent)
	}
	tell := c.tellLocked(false)
	c.mu.Unlock()
	if tell {
		sendControl(c.session, keyGoaway, "1")
	}
}

// tellLocked reports whether the client is to be told now that the connection will close. Clients of Kitex that have one call at a time would take the
// frame for an answer; those of 0.16.1 that share connections end theirs at once, with what is under way, so they are told only if they were not silent
// during the whole grace.
func (c *serverConn) tellLocked(isLate bool) bool {
	if !c.draining || c.told || !(c.known || c.shared && isLate) {
		return false
	}
	c.told = true
	return true
}

// endIfSilent ends a draining connection on which nothing has happened for a while.
func (c *serverConn) endIfSilent() {
	c.mu.Lock()
	wait := c.server.options.DrainGrace
	if c.running == 0 {
		wait -= time.Since(c.last)
	}
	if !c.ended && wait > 0 {
		c.grace.Reset(wait)
	}
	tell := c.tellLocked(true)
	c.mu.Unlock()
	switch {
	case wait <= 0:
		c.session.End(nil, session.ErrServerClosed)
	case tell:
		sendControl(c.session, keyGoaway, "1")
	}
}

// close is called when the connection has ended.
func (c *serverConn) close(info *session.CloseInfo) {
	c.mu.Lock()
	c.ended = true
	if c.grace != nil {
		c.grace.Stop()
	}
	c.mu.Unlock()
	c.cancelAll(context.Canceled)
	c.server.unproven.end(c)
	c.server.mu.Lock()
	delete(c.server.conns, c)
	c.server.mu.Unlock()
	var broken *frame.Error
	if info.By == session.ByError || info.By == session.ByPanic || errors.As(info.Err, &broken) || errors.Is(info.Err, errClient) {
		c.server.options.Logger.Info("a connection was broken", "client", c.session.RemoteAddr(), "by", info.By.String(), "error", info.Err)
	}
}
