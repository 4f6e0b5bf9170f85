package rpc

import (
	"context"
	"sync"

	"github.com/sluice-push/sluice/rpc/frame"
)

// StreamFunc handles calls whose answer is a stream. It calls send for each message, and returns after the last one. It must not keep the body of the
// call. ctx is the call's: see [Call.Context].
//
// send waits until the caller has room for the message, sends it, and does not keep it. Its errors are *[Error]: [Canceled] or [DeadlineExceeded] when ctx
// is done, also because the caller has closed the stream or its connection has ended; [TooLarge] if the message cannot be sent, after which the stream
// may go on; [Lost] when the connection has ended; [Internal] after the StreamFunc has returned. send may be called by several goroutines: their messages
// are sent one after the other, in any order.
//
// The error of a StreamFunc is sent as [Error] says, after the messages. A panic is answered with [Internal] and ends nothing else.
type StreamFunc func(ctx context.Context, c *Call, send func(body []byte) error) error

// StreamOf returns a method with a stream, whose argument and messages have a form. The handler must not keep in. A message may be changed
// when send has returned. For the rest see [StreamFunc].
func StreamOf[In, Out any](form Form, handler func(ctx context.Context, in *In, send func(out *Out) error) error) Method {
	return Method{Protocol: form.Protocol(), Stream: func(ctx context.Context, c *Call, send func(body []byte) error) error {
		in := new(In)
		if err := form.Parse(c.Body(), in); err != nil {
			return Errorf(BadMessage, "the arguments of %s: %w", c.Method(), err)
		}
		var mu sync.Mutex
		var memory []byte // guarded by mu
		return handler(ctx, in, func(out *Out) error {
			mu.Lock()
			defer mu.Unlock()
			body, err := form.Append(memory[:0], out)
			if err != nil {
				return Errorf(Internal, "a message of %s: %w", c.Method(), err)
			}
			memory = kept(body)
			return send(body)
		})
	}}
}

// HandleStream has a server handle calls of a method with a stream, whose argument and messages are JSON. See [Server.Handle] and [StreamOf] for other
// forms.
func HandleStream[In, Out any](s *Server, name string, handler func(ctx context.Context, in *In, send func(out *Out) error) error) {
	s.Handle(name, StreamOf(JSON, handler))
}

// asFunc returns f as a [Func], around which interceptors can run. The body that it returns is empty.
func (f StreamFunc) asFunc() Func {
	return func(ctx context.Context, c *Call, dst []byte) ([]byte, error) {
		return dst, f(ctx, c, func(body []byte) error { return c.sender.send(ctx, body) })
	}
}

// sender sends the messages of a stream.
type sender struct {
	call *Call

	sending sync.Mutex  // held by the goroutine that sends a message, or waits for credit
	part    frame.Frame // of each message; guarded by sending

	mu      sync.Mutex
	credit  credit        // guarded by mu
	ended   bool          // no more messages are sent; guarded by mu
	changed chan struct{} // has an element when credit or ended has changed
}

// newSender returns the sender for a call, or the error with which the call is refused. f is the frame of the call.
func newSender(call *Call, f *frame.Frame) (*sender, error) {
	text := f.Value(keyStream)
	switch {
	case f.Dialect.Framing != frame.TTHeader:
		return nil, Errorf(UnknownMethod, "the method %q has a stream, which exists in the framing TTHeader only", f.Method)
	case f.Kind == frame.OneWay || text == nil:
		return nil, Errorf(UnknownMethod, "the method %q has a stream, for which the call does not ask", f.Method)
	}
	first, ok := parseCredit(string(text))
	if !ok {
		return nil, Errorf(BadMessage, "the call of %q has a bad credit for its stream", f.Method)
	}
	s := &sender{call: call, credit: first, changed: make(chan struct{}, 1)}
	s.part.Answer(f, frame.Reply)
	s.part.Add(keyStream, streamMore)
	return s, nil
}

// send waits for credit and sends a message.
func (s *sender) send(ctx context.Context, body []byte) error {
	s.sending.Lock()
	defer s.sending.Unlock()
	conn := s.call.conn
	if most := frameBytes(conn.server.options.Frame); len(body) > most {
		return Errorf(TooLarge, "the message has %d bytes, at most %d are allowed", len(body), most)
	}
	if err := conn.codec.Allows(&s.part, len(body)); err != nil {
		return Errorf(TooLarge, "the message cannot be sent: %w", err)
	}
	if err := s.await(ctx, len(body)); err != nil {
		return err
	}
	if err := conn.reserve(len(body)); err != nil {
		return err
	}
	defer conn.free(len(body))
	if err := conn.session.SendAs(encoder(&s.part), body); err != nil {
		return Errorf(Lost, "the message was not sent: %w", err)
	}
	return nil
}

// await waits until there is credit for a message, and takes it.
func (s *sender) await(ctx context.Context, size int) error {
	for {
		err := ctx.Err()
		if err == nil {
			err = s.call.ctx.Err() // ctx may be one that an interceptor made, and not a child of the call's
		}
		if err != nil {
			return Errorf(CodeOf(err), "no more of the stream is wanted: %w", err)
		}
		s.mu.Lock()
		hasEnded := s.ended
		ok := !hasEnded && s.credit.take(size)
		s.mu.Unlock()
		switch {
		case hasEnded:
			return Errorf(Internal, "the handler of %s has returned", s.call.method.name)
		case ok:
			return nil
		}
		select {
		case <-s.changed:
		case <-ctx.Done():
		case <-s.call.ctx.Done():
		}
	}
}

// grant adds credit. It reports false if that is more than a stream can have.
func (s *sender) grant(more credit) bool {
	s.mu.Lock()
	ok := s.credit.add(more)
	s.mu.Unlock()
	s.wake()
	return ok
}

// end makes send fail from now on, and waits for a send that is under way.
func (s *sender) end() {
	s.mu.Lock()
	s.ended = true
	s.mu.Unlock()
	s.wake()
	s.sending.Lock()
	defer s.sending.Unlock()
	s.part.Reset()
}

// wake makes await check the credit again.
func (s *sender) wake() {
	select {
	case s.changed <- struct{}{}:
	default: // await has not yet taken the element of the wake before
	}
}
