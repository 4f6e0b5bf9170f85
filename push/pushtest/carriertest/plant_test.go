package carriertest_test

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"io"
	"iter"
	"maps"
	"net"
	"net/http"
	"os"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/sluice-push/sluice/push"
	"github.com/sluice-push/sluice/push/gateway"
	"github.com/sluice-push/sluice/push/gateway/outbox"
	"github.com/sluice-push/sluice/push/hub"
	"github.com/sluice-push/sluice/push/protocol"
	"github.com/sluice-push/sluice/push/pushtest/carriertest"
)

// planted are bugs of a carrier: a function that is set replaces what the carrier does. The others leave it as it is.
type planted struct {
	// On the server's side.
	write   func(c *conn, frames []hub.Frame) int
	reply   func(c *conn, message []byte) error
	ping    func(c *conn) bool
	end     func(c *conn, last []byte, d push.Disconnect)
	message func(c *conn, line []byte)
	closed  func(c *conn, how gateway.Ending)
	stats   func(s *gateway.TransportStats)
	silent  bool // the heartbeat is not begun
	asleep  bool // the hub is not told that there is room again
	patient bool // no write has a deadline
	queue   bool // the hub's frames are queued without a bound
	abrupt  bool // a shutdown cuts the clients
	insists bool // a client that is not admitted is tried again
	chatty  bool // a disconnect follows an answer that says the same
	hasty   bool // the beginning of a line is handled when the connection ends

	// On the client's side.
	receive func() receiving // called for each client
	send    func(frame []byte) []byte
}

// receiving replaces a client's Receive, which is next.
type receiving func(next func() ([]byte, error)) ([]byte, error)

// harness returns a carrier for tests, with bugs: JSON, one message a line, over any connection. It is as simple as a carrier can be.
func (p *planted) harness(way gateway.Way) carriertest.Harness {
	return carriertest.Harness{
		Transport:    func(g *gateway.Gateway) gateway.Transport { return newLines(g, way, p) },
		Way:          way,
		Form:         carriertest.JSON,
		ConnectsLate: way == gateway.OneWay,
		Dial: func(ctx context.Context, t carriertest.Target) (carriertest.Conn, error) {
			nc, err := t.Dial(ctx, "", "")
			if err != nil {
				return nil, err
			}
			return p.client(&lineClient{nc: nc, in: bufio.NewReader(nc)}), nil
		},
		Serve: func(_ *gateway.Gateway, t gateway.Transport, ln net.Listener) (stop func()) {
			var accepting sync.WaitGroup
			accepting.Go(func() { t.(*lines).serve(ln) })
			return func() {
				_ = ln.Close()
				accepting.Wait()
			}
		},
	}
}

// client plants the client's bugs in a client.
func (p *planted) client(c carriertest.Conn) carriertest.Conn {
	out := &plantedConn{Conn: c, send: p.send}
	if p.receive != nil {
		out.receive = p.receive()
	}
	return out
}

// plantedConn is a client with bugs.
type plantedConn struct {
	carriertest.Conn
	send    func(frame []byte) []byte
	receive receiving
}

func (c *plantedConn) Send(frame []byte) error {
	if c.send != nil {
		frame = c.send(frame)
	}
	return c.Conn.Send(frame)
}

func (c *plantedConn) Receive() ([]byte, error) {
	if c.receive != nil {
		return c.receive(c.Conn.Receive)
	}
	return c.Conn.Receive()
}

// lineClient is the client's side of the carrier.
type lineClient struct {
	nc net.Conn
	in *bufio.Reader
}

func (c *lineClient) Send(frame []byte) error {
	_, err := c.nc.Write(append(bytes.Clone(frame), '\n'))
	return err
}

func (c *lineClient) Receive() ([]byte, error) { return carriertest.JSON.ReadMessage(c.in) }

func (c *lineClient) Close() { _ = c.nc.Close() }

// lines is the transport.
type lines struct {
	gateway *gateway.Gateway
	kind    *gateway.Kind
	bugs    *planted
	serving sync.WaitGroup
	opened  atomic.Uint64
	bytes   atomic.Uint64

	mu  sync.Mutex
	all map[*conn]struct{} // guarded by mu
}

func newLines(g *gateway.Gateway, way gateway.Way, p *planted) *lines {
	encoder := gateway.Encoder{Form: gateway.JSON{Bare: way == gateway.OneWay}, Framing: lineFraming{}}
	return &lines{gateway: g, kind: gateway.NewKind(encoder, way), bugs: p, all: map[*conn]struct{}{}}
}

// lineFraming ends a frame with a line end; the form separates the messages in it.
type lineFraming struct{}

func (lineFraming) FrameBytes() int { return 32 << 10 }

func (lineFraming) Begin(dst []byte) []byte { return dst }

func (lineFraming) Finish(dst []byte, _ int) []byte { return append(dst, '\n') }

func (t *lines) Name() string { return "lines" }

func (t *lines) Len() int {
	t.mu.Lock()
	defer t.mu.Unlock()
	return len(t.all)
}

func (t *lines) Clients() iter.Seq[*gateway.Client] {
	t.mu.Lock()
	all := slices.Collect(maps.Keys(t.all))
	t.mu.Unlock()
	return func(yield func(*gateway.Client) bool) {
		for _, c := range all {
			if !yield(&c.Client) {
				return
			}
		}
	}
}

func (t *lines) Stats() gateway.TransportStats {
	s := t.kind.Stats()
	s.Clients, s.Opened, s.BytesOut = t.Len(), t.opened.Load(), t.bytes.Load()
	if t.bugs.stats != nil {
		t.bugs.stats(&s)
	}
	return s
}

func (t *lines) Shutdown(ctx context.Context) error {
	stop := context.AfterFunc(ctx, t.cut)
	defer stop()
	if t.bugs.abrupt {
		t.cut()
	}
	for c := range t.Clients() {
		c.Disconnect(push.DisconnectShutdown)
	}
	t.serving.Wait()
	return ctx.Err()
}

func (t *lines) cut() {
	t.mu.Lock()
	defer t.mu.Unlock()
	for c := range t.all {
		_ = c.nc.Close()
	}
}

// serve accepts connections until the listener is closed.
func (t *lines) serve(ln net.Listener) {
	var all sync.WaitGroup
	defer all.Wait()
	for {
		nc, err := ln.Accept()
		if err != nil {
			return
		}
		all.Go(func() { t.serveConn(nc) })
	}
}

// conn is a connection, the carrier of its client. One goroutine reads and handles, another writes.
type conn struct {
	gateway.Client
	outbox.Outbox

	transport *lines
	nc        net.Conn
	done      chan struct{} // closed when nothing is read any more
	late      bool          // owned by the goroutine that writes

	mu      sync.Mutex // guards what follows
	backlog []byte     // of a queue without bound
	writing int        // bytes of it that are being written
}

// enqueue adds bytes to the queue without bound.
func (c *conn) enqueue(p []byte) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.backlog = append(c.backlog, p...)
	c.Outbox.TryWrite(nil) // wakes the goroutine that writes
}

func (t *lines) serveConn(nc net.Conn) {
	defer func() { _ = nc.Close() }()
	c := &conn{transport: t, nc: nc, done: make(chan struct{})}
	c.Request = &http.Request{Header: http.Header{}, RemoteAddr: "127.0.0.1:1"}
	c.Init(outbox.Options{
		Framing: lineFraming{},
		Ping:    func(dst []byte) []byte { return append(dst, t.kind.Ping()...) },
		Abort:   func() { _ = nc.Close() },
	})
	if c.Arrive(t.gateway, t.kind, c, c.Request) != nil {
		if t.bugs.insists {
			_ = c.Arrive(t.gateway, t.kind, c, c.Request)
		}
		return
	}
	t.opened.Add(1)
	t.serving.Add(1)
	defer t.serving.Done()
	t.mu.Lock()
	t.all[c] = struct{}{}
	t.mu.Unlock()
	c.Arrived()
	if !t.bugs.silent {
		c.Open()
	}
	if c.Kind().Way() != gateway.OneWay {
		c.Begin(nil)
	}
	var writing sync.WaitGroup
	writing.Go(c.pump)
	c.read()
	close(c.done)
	c.Outbox.Close()
	_ = nc.Close()
	writing.Wait()
	c.finish()
	t.mu.Lock()
	delete(t.all, c)
	t.mu.Unlock()
}

func (c *conn) finish() {
	how := gateway.EndedByClient
	switch {
	case c.late:
		how = gateway.EndedByTimeout
	case c.transport.gateway.Context().Err() != nil:
		how = gateway.EndedByShutdown
	}
	if c.transport.bugs.closed != nil {
		c.transport.bugs.closed(c, how)
		return
	}
	c.Closed(how)
}

// read handles lines until the connection ends.
func (c *conn) read() {
	in := bufio.NewReaderSize(c.nc, c.transport.gateway.Options().FrameBytes)
	for {
		line, err := in.ReadSlice('\n')
		if errors.Is(err, bufio.ErrBufferFull) {
			c.Disconnect(push.DisconnectBadRequest)
			_, _ = io.Copy(io.Discard, in)
			return
		}
		if err != nil {
			if c.transport.bugs.hasty && len(line) > 0 {
				c.handle(line)
			}
			return
		}
		if c.transport.bugs.message != nil {
			c.transport.bugs.message(c, line)
		} else {
			c.handle(line)
		}
	}
}

func (c *conn) handle(line []byte) {
	if c.Kind().Way() != gateway.OneWay {
		c.Message(line)
		return
	}
	if c.Begun() {
		return
	}
	hello, err := c.ConnectAlone(bytes.TrimSpace(line))
	if err != nil {
		c.Disconnect(gateway.DisconnectFor(err))
		return
	}
	c.Begin(func(dst []byte) []byte { return append(append(dst, hello...), '\n') })
}

// pump writes what waits until the connection ends.
func (c *conn) pump() {
	defer func() { _ = c.nc.Close() }()
	var out []byte
	var ends *push.Disconnect
	for {
		if out, ends = c.Take(out); ends != nil {
			if !c.Told() || c.transport.bugs.chatty {
				out = c.Kind().Encoder().AppendPush(out, &protocol.Push{Kind: protocol.PushDisconnect, Disconnect: *ends})
			}
			c.write(out)
			return
		}
		c.mu.Lock()
		out, c.writing, c.backlog = append(out, c.backlog...), len(c.backlog), nil
		c.mu.Unlock()
		if !c.write(out) {
			return
		}
		if c.Written() && !c.transport.bugs.asleep {
			c.Writable()
		}
		select {
		case <-c.Wake():
		case <-c.done:
			return
		}
	}
}

func (c *conn) write(p []byte) bool {
	for len(p) > 0 {
		if t := c.transport.gateway.Options().WriteTimeout; !c.transport.bugs.patient {
			_ = c.nc.SetWriteDeadline(time.Now().Add(t))
		}
		n, err := c.nc.Write(p[:min(len(p), 16<<10)])
		p = p[n:]
		c.transport.bytes.Add(uint64(n)) //nolint:gosec // a length
		if err != nil {
			c.late = errors.Is(err, os.ErrDeadlineExceeded)
			return false
		}
	}
	return true
}

func (c *conn) Disconnect(d push.Disconnect) { c.Client.Disconnect(d) }

func (c *conn) TryWrite(frames []hub.Frame) int {
	switch {
	case c.transport.bugs.write != nil:
		return c.transport.bugs.write(c, frames)
	case c.transport.bugs.queue && c.Begun():
		for i := range frames {
			c.enqueue(frames[i].Bytes)
		}
		return len(frames)
	}
	return c.Outbox.TryWrite(frames)
}

func (c *conn) Queued() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return len(c.backlog) + c.writing + c.Outbox.Queued()
}

func (c *conn) Reply(message []byte) error {
	if c.transport.bugs.reply != nil {
		return c.transport.bugs.reply(c, message)
	}
	return c.Outbox.Reply(message)
}

func (c *conn) Ping() bool {
	if c.transport.bugs.ping != nil {
		return c.transport.bugs.ping(c)
	}
	return c.Outbox.Ping()
}

func (c *conn) End(last []byte, d push.Disconnect) {
	if c.transport.bugs.end != nil {
		c.transport.bugs.end(c, last, d)
		return
	}
	c.Outbox.End(last, d)
}
