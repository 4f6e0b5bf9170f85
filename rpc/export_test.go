package rpc

import "context"

// Tick does what the connection does once per heartbeat. Nothing may arrive meanwhile.
func (c *Conn) Tick() { c.tick(c.session) }

// IsCompleted reports whether a completion waits in the request.
func (r *Request) IsCompleted() bool { return len(r.done) > 0 }

// Waiting returns how many messages, and bytes of their bodies, the stream keeps.
func (s *Stream) Waiting() (messages, bytes int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.arrived.sizes) + len(s.reading.sizes) - s.reading.taken, len(s.arrived.bytes) + len(s.reading.bytes)
}

// Credit is a credit, for the tests of its arithmetic.
type Credit struct{ Messages, Bytes int }

func (c Credit) inside() credit { return credit{c.Messages, c.Bytes} }

func (c *Credit) Take(size int) bool {
	inside := c.inside()
	ok := inside.take(size)
	*c = Credit{inside.messages, inside.bytes}
	return ok
}

func (c *Credit) Add(more Credit) bool {
	inside := c.inside()
	ok := inside.add(more.inside())
	*c = Credit{inside.messages, inside.bytes}
	return ok
}

func (c Credit) Text() string { return c.inside().String() }

// ParseGrant is parseGrant.
func ParseGrant(text string) (int32, Credit, bool) {
	id, c, ok := parseGrant(text)
	return id, Credit{c.messages, c.bytes}, ok
}

// Window is a window, for the tests of its arithmetic.
type Window struct{ w window }

func NewWindow(size Credit) *Window        { return &Window{newWindow(size.Messages, size.Bytes)} }
func (w *Window) Arrive(size int) bool     { return w.w.arrive(size) }
func (w *Window) Free(size int) (c Credit) { g := w.w.free(size); return Credit{g.messages, g.bytes} }

// Messages is a queue of bodies.
type Messages struct{ m messages }

func (m *Messages) Add(body []byte)      { m.m.add(body) }
func (m *Messages) Take() ([]byte, bool) { return m.m.take() }
func (m *Messages) Reset()               { m.m.reset() }
func (m *Messages) Cap() int             { return cap(m.m.bytes) }

// Held returns the capacity of the memory that a call, which has a goroutine of its own, has for its body.
func (c *Call) Held() int { return cap(c.copied.b) }

// Received returns how many bytes have arrived.
func (c *Conn) Received() uint64 { return c.client.Stats().BytesIn }

// Prepare makes the frame and the body of a call over c.
func (r *Request) Prepare(ctx context.Context, c *Conn, in any) error {
	return r.prepare(ctx, c, c.options.Form, in)
}
