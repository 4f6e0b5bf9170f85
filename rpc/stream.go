package rpc

import (
	"context"
	"errors"
	"io"
	"slices"
	"strconv"
	"sync"

	"github.com/sluice-push/sluice/rpc/frame"
)

// Stream is a call with many results, at its caller. Receive is called by one goroutine at a time; all other methods may be called concurrently, also
// with Receive.
type Stream struct {
	conn    *Conn
	form    Form
	request Request       // of the stream only; its done is closed when the call has ended
	opened  bool          // the call was sent; set before Stream of the Conn returns
	ready   chan struct{} // has an element if a message has arrived since Receive last looked

	mu      sync.Mutex
	window  window      // guarded by mu, like the fields below
	arrived messages    // messages that Receive has not moved to reading yet
	reading messages    // messages that Receive returns one by one; only Receive resets it
	failure error       // if not nil, Receive returns it, and messages that have arrived are dropped
	stop    func() bool // unregisters the function that ends the stream when the context is done
}

// Stream calls a method that answers with a stream of messages, which [Stream.Receive] returns one by one. r says which method, and with which form and
// metadata; it may be used again when Stream has returned. in is the argument. Streams need the framing TTHeader. A method with a single result gives
// a stream of one message.
//
// A stream lasts until its last message has arrived, ctx is done, its deadline included, Close is called, or the connection ends. Until then it counts as
// a call under way, so a caller that does not receive to the end has to call Close or cancel ctx. Errors are *[Error]; a server that refuses the call
// says so to Receive.
func (c *Conn) Stream(ctx context.Context, r *Request, in any) (*Stream, error) {
	s := &Stream{conn: c, ready: make(chan struct{}, 1)}
	s.request = Request{Method: r.Method, Form: r.Form, Metadata: slices.Clone(r.Metadata), OneWay: r.OneWay, stream: s}
	err := c.do(ctx, &s.request, in, s)
	switch {
	case err == nil && s.opened:
		return s, nil
	case err == nil:
		err = Errorf(Internal, "an interceptor has not made the call of %s", r.Method)
	case s.opened: // an interceptor fails
		_ = s.Close()
	}
	return nil, err
}

// open sends the call. It runs inside the interceptors, which may call it again if it fails.
func (s *Stream) open(ctx context.Context, form Form, in any) error {
	c, r := s.conn, &s.request
	switch {
	case s.opened:
		return Errorf(Internal, "the call of %s was made already", r.Method)
	case r.OneWay:
		return Errorf(BadMessage, "the call of %s is one-way, so it has no stream", r.Method)
	case c.options.Framing != frame.TTHeader:
		return Errorf(BadMessage, "the call of %s cannot be sent: streams need the framing TTHeader", r.Method)
	}
	s.form = form
	s.window = newWindow(c.options.StreamMessages, c.options.StreamBytes)
	r.done = make(chan struct{})
	if err := r.prepare(ctx, c, form, in); err != nil {
		return err
	}
	if err := c.send(ctx, r); err != nil {
		return err
	}
	s.opened, r.body = true, nil
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.hasEnded() {
		s.stop = context.AfterFunc(ctx, func() { s.cancel(contextError(ctx)) })
	}
	return nil
}

// Receive waits for the next message and sets out, a pointer, to it; a nil out skips the message. What out gets is its own. After the last message, the
// error is io.EOF. Any other error is an *[Error]. It ends the stream, and each later call returns an error, too.
//
// When ctx of the stream is done, or after Close, messages that have arrived are dropped. When the server fails, or the connection ends, they are
// received before the error.
func (s *Stream) Receive(out any) error {
	body, err := s.next()
	if err != nil {
		return err
	}
	if err = s.form.Parse(body, out); err != nil {
		err = Errorf(BadMessage, "a message of %s: %w", s.request.Method, err)
		s.drop(err)
		s.cancel(err)
	}
	return err
}

// next waits for the next message. It is valid until the next call.
func (s *Stream) next() ([]byte, error) {
	for {
		hasEnded := s.hasEnded() // read before take: a message that arrives between the two must be received before the end
		body, ok, err := s.take()
		switch {
		case err != nil:
			return nil, err
		case ok:
			if !hasEnded {
				s.giveBack(len(body))
			}
			return body, nil
		case hasEnded && s.request.err != nil:
			return nil, s.request.err
		case hasEnded:
			return nil, io.EOF
		}
		select {
		case <-s.ready:
		case <-s.request.done:
		}
	}
}

// take returns the next message that has arrived, and whether there is one.
func (s *Stream) take() (body []byte, ok bool, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.failure != nil {
		return nil, false, s.failure
	}
	if body, ok = s.reading.take(); ok {
		return body, true, nil
	}
	s.reading.reset()
	s.reading, s.arrived = s.arrived, s.reading
	body, ok = s.reading.take()
	return body, ok, nil
}

// giveBack sends the server credit for received messages. Small amounts are collected first.
func (s *Stream) giveBack(size int) {
	s.mu.Lock()
	grant := s.window.free(size)
	s.mu.Unlock()
	if grant != (credit{}) {
		sendControl(s.conn.session, keyCredit, strconv.Itoa(int(s.request.frame.Sequence))+" "+grant.String())
	}
}

// hasEnded reports whether the call has ended. Then its error is set.
func (s *Stream) hasEnded() bool {
	select {
	case <-s.request.done:
		return true
	default:
		return false
	}
}

// Close ends the stream, if it has not ended: the server is told that no more is wanted, and what has arrived is dropped. Receive fails with [Canceled]
// then. Close may be called several times, and always returns nil.
func (s *Stream) Close() error {
	err := Errorf(Canceled, "the stream of %s was closed", s.request.Method)
	s.drop(err)
	s.cancel(err)
	return nil
}

// Done is closed when the call has ended: the last message has arrived, although it may not have been received yet, or there is an error.
func (s *Stream) Done() <-chan struct{} { return s.request.done }

// Err returns the error that has ended the call, and nil if it has not ended or ended with its last message.
func (s *Stream) Err() error {
	if s.hasEnded() {
		return s.request.err
	}
	return nil
}

// ReplyMetadata returns the first value that came with the end of the stream for a key, and whether there is one. Before Done there is none.
func (s *Stream) ReplyMetadata(key string) (value string, ok bool) {
	return lookUp(s.AllReplyMetadata(), key)
}

// AllReplyMetadata returns all pairs that came with the end of the stream, in their order. They must not be changed. Before Done there are none.
func (s *Stream) AllReplyMetadata() []Pair {
	if s.hasEnded() {
		return s.request.metadata
	}
	return nil
}

// cancel ends the call with an error and tells the server, unless the call has ended already.
func (s *Stream) cancel(err error) {
	id := s.request.frame.Sequence
	if s.conn.take(id) == nil {
		return
	}
	s.drop(err)
	s.request.fail(err)
	s.conn.cancel(id)
}

// drop has Receive fail from now on, and drops what has arrived. Only the first error counts.
func (s *Stream) drop(err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.failure == nil {
		s.failure, s.arrived, s.reading = withoutEOF(err), messages{}, messages{}
	}
}

// withoutEOF returns an error that errors.Is does not take for io.EOF, the end of a stream. The cause of an error may be the end of a connection.
func withoutEOF(err error) error {
	var e *Error
	if !errors.Is(err, io.EOF) || !errors.As(err, &e) {
		return err
	}
	return &Error{Code: e.Code, Message: e.Message, Remote: e.Remote, cause: io.ErrUnexpectedEOF}
}

// push takes a message that has arrived. The error is that of a server which ignores its credit.
func (s *Stream) push(body []byte) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case s.failure != nil:
		return nil
	case !s.window.arrive(len(body)):
		return errCredit
	}
	s.arrived.add(body)
	select {
	case s.ready <- struct{}{}:
	default: // Receive has not looked since the message before
	}
	return nil
}

// last takes the message that came with the end of the stream. It needs no credit. The caller then calls finish.
func (s *Stream) last(body []byte) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.failure == nil {
		s.arrived.add(body)
	}
}

// finish marks the call as ended. It is called once for each call that was sent.
func (s *Stream) finish() {
	s.mu.Lock()
	close(s.request.done)
	stop := s.stop
	s.mu.Unlock()
	if stop != nil {
		stop()
	}
}

// Errors of servers that break the rules of streams. They end the connection.
var (
	errCredit   = errors.New("rpc: the server has sent more of a stream than it had credit for")
	errNoStream = errors.New("rpc: the server has sent a stream for a call that did not ask for one")
	errProtocol = errors.New("rpc: the server has sent a message of a stream in another protocol than that of the call")
)

// part takes a message of a stream.
func (c *Conn) part(f *frame.Frame, body []byte) {
	c.known.Store(true)
	w, _ := c.calls.Get(f.Sequence)
	var err error
	switch {
	case w.request == nil: // the stream was canceled, and the server did not know yet
		c.late.Add(1)
	case w.stream == nil:
		err = errNoStream
	case w.request.frame.Dialect.Protocol != f.Dialect.Protocol:
		err = errProtocol
	default:
		err = w.stream.push(body)
	}
	if err != nil {
		c.session.Abort(err)
	}
}

// begun is called when the server says that the call of a stream has arrived. The call may have been canceled before the Conn knew that the server
// understands cancellation: then begun sends the cancellation.
func (c *Conn) begun(id int32) {
	c.known.Store(true)
	if _, waits := c.calls.Get(id); !waits {
		c.cancel(id)
	}
}
