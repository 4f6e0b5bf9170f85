package interop_test

import (
	"context"
	"errors"
	"net"
	"net/http/httptest"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/sluice-push/sluice/internal/testwait"
	"github.com/sluice-push/sluice/session"
	"github.com/sluice-push/sluice/websocket"
)

// ending says how a connection ended for our side.
type ending struct {
	by     session.By // zero if the test pulls messages
	code   uint16
	reason string
}

// endingOf derives an ending from an error.
func endingOf(by session.By, err error) ending {
	e := ending{by: by, code: websocket.CodeOf(err)}
	if closed, ok := errors.AsType[*websocket.CloseError](err); ok {
		e.reason = closed.Reason
	}
	return e
}

// ours is our side of a connection. It collects what the handler receives.
type ours struct {
	opened   chan *websocket.Conn
	arrivals chan arrival
	pongs    chan string
	ended    chan ending
	closed   chan ending // what Close of the handler received, if the test pulls messages
}

func newOurs() *ours {
	return &ours{make(chan *websocket.Conn, 1), make(chan arrival, 100), make(chan string, 10), make(chan ending, 1), make(chan ending, 1)}
}

// handler returns a handler that passes on all events.
func (o *ours) handler(pull bool) *websocket.Handler {
	h := &websocket.Handler{
		Open: func(c *websocket.Conn, _ *websocket.Request) error {
			o.opened <- c
			return nil
		},
		Pull: pull,
		Pong: func(_ *websocket.Conn, payload []byte) { o.pongs <- string(payload) },
	}
	observed := o.closed
	if !pull {
		observed = o.ended
		h.Message = func(_ *websocket.Conn, m websocket.Message) { o.arrivals <- digest(m.Op, m.Data) }
	}
	h.Close = func(_ *websocket.Conn, info *session.CloseInfo) { observed <- endingOf(info.By, info.Err) }
	return h
}

// ask pulls messages until there are no more. For a caller that pulls, only that is the end of the connection.
func (o *ours) ask(ctx context.Context, c *websocket.Conn, single bool) {
	for {
		m, err := c.Receive(ctx)
		switch {
		case err == nil:
			o.arrivals <- digest(m.Op, m.Data)
			continue
		case single:
			o.ended <- endingOf(0, err)
			return
		}
		select {
		case e := <-o.closed:
			o.ended <- e
		case <-ctx.Done():
		}
		return
	}
}

// countingConn is a connection that counts the received bytes.
type countingConn struct {
	net.Conn
	n *atomic.Uint64
}

func (c countingConn) Read(p []byte) (int, error) {
	n, err := c.Conn.Read(p)
	c.n.Add(uint64(n))
	return n, err
}

// optionsOf returns our options for a scenario.
func optionsOf(s scenario, engine session.Engine) *websocket.Options {
	o := &websocket.Options{MaxMessage: 1 << 24, Session: session.Options{Engine: engine}}
	o.CheckOrigin = func(*websocket.Request) bool { return true } // the page comes from another server
	if d := s.ours.deflate; d != nil {
		o.Compression = &websocket.Compression{
			Threshold: -1, Takeover: d.Takeover, PeerTakeover: d.Takeover, WindowBits: d.Bits, PeerWindowBits: d.Bits,
		}
	}
	return o
}

// observed is what our side has seen when a connection is over.
type observed struct {
	arrivals []arrival
	pongs    []string
	ending   ending
	stats    *session.Stats // nil if there are none
}

// play runs our side of a scenario.
func (o *ours) play(ctx context.Context, t *testing.T, c *websocket.Conn, s scenario) observed {
	t.Helper()
	if s.ours.ping != "" {
		if err := c.Ping([]byte(s.ours.ping)); err != nil {
			t.Error(err)
		}
	}
	for _, m := range s.ours.send {
		if err := send(c, m); err != nil {
			t.Errorf("send %+v: %v", m, err)
		}
	}
	var seen observed
	for {
		complete := len(seen.arrivals) >= len(s.theirs.send) && (s.ours.ping == "" || len(seen.pongs) > 0)
		switch {
		case complete && s.abrupt:
			c.CloseNow()
			s.abrupt = false
		case s.ours.close != nil && (complete || s.closesEarly):
			if err := c.Close(s.ours.close.Code, s.ours.close.Reason); err != nil {
				t.Errorf("close: %v", err)
			}
			s.ours.close = nil
		}
		select {
		case a := <-o.arrivals:
			seen.arrivals = append(seen.arrivals, a)
		case p := <-o.pongs:
			seen.pongs = append(seen.pongs, p)
		case seen.ending = <-o.ended:
			for len(o.arrivals) > 0 {
				seen.arrivals = append(seen.arrivals, testwait.Receive(t, o.arrivals))
			}
			return seen
		case <-ctx.Done():
			t.Errorf("our side's connection does not end: %+v", seen)
			c.CloseNow()
			return seen
		}
	}
}

// send sends a message, in as many pieces as it has.
func send(c *websocket.Conn, m message) error {
	data := payload(m)
	if m.Pieces <= 1 {
		return c.Send(m.opcode(), data)
	}
	w, err := c.NextWriter(m.opcode())
	if err != nil {
		return err
	}
	size := (len(data) + m.Pieces - 1) / m.Pieces
	for len(data) > 0 {
		n := min(size, len(data))
		if _, err := w.Write(data[:n]); err != nil {
			return err
		}
		data = data[n:]
	}
	return w.Close()
}

// serverWay is a way in which our server gets its connections and runs them.
type serverWay struct {
	name   string
	engine session.Engine
	http   bool
}

var serverWays = []serverWay{
	{"Serve, loop", session.EngineLoop, false},
	{"Serve, goroutine", session.EngineGoroutine, false},
	{"net/http, loop", session.EngineLoop, true},
	{"net/http, goroutine", session.EngineGoroutine, true},
}

// serve plays a scenario with a peer that connects to our server.
func (w serverWay) serve(t *testing.T, p client, s scenario) {
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	side := newOurs()
	srv := websocket.NewServer(side.handler(false), optionsOf(s, w.engine))
	var url string
	served := make(chan error, 1)
	if w.http {
		front := httptest.NewServer(srv)
		defer front.Close()
		url = "ws" + strings.TrimPrefix(front.URL, "http")
		served <- session.ErrServerClosed
	} else {
		ln, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		url = "ws://" + ln.Addr().String()
		go func() { served <- srv.Serve(ln) }()
	}
	played := make(chan observed, 1)
	go func() {
		select {
		case c := <-side.opened:
			played <- side.play(ctx, t, c, s)
		case <-ctx.Done():
			played <- observed{}
		}
	}()
	defer func() {
		cancel()
		_ = srv.Close()
		if err := testwait.Receive(t, served); !errors.Is(err, session.ErrServerClosed) {
			t.Error(err)
		}
	}()
	said := p.connect(t, taskOf(s, url+"/"))
	seen := testwait.Receive(t, played)
	stats := srv.Stats()
	seen.stats = &stats
	check(t, s, said, seen, false)
}

// clientWay is a way in which our client makes its connections and runs them.
type clientWay struct {
	name   string
	engine session.Engine
	pull   bool
	single bool // use Dial instead of a client for many connections
}

var clientWays = []clientWay{
	{"Client, loop", session.EngineLoop, false, false},
	{"Client, goroutine", session.EngineGoroutine, false, false},
	{"Client, asking", session.EngineGoroutine, true, false},
	{"Dial", session.EngineGoroutine, true, true},
}

// connect plays a scenario with a peer that is a server.
func (w clientWay) connect(t *testing.T, p *process, s scenario) {
	if w.single && s.ours.ping != "" {
		return // without a handler our side cannot see the pong
	}
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	side := newOurs()
	options := optionsOf(s, w.engine)
	agreed := ""
	options.Accepted = func(r *websocket.ClientResponse) error {
		agreed = strings.Clone(r.Extensions)
		return nil
	}
	var received atomic.Uint64
	if w.engine != session.EngineLoop { // event loops bypass the net.Conn, so countingConn cannot count there
		options.DialContext = func(ctx context.Context, network, address string) (net.Conn, error) {
			conn, err := new(net.Dialer).DialContext(ctx, network, address)
			return countingConn{conn, &received}, err
		}
	}
	url := "ws://" + net.JoinHostPort("127.0.0.1", strconv.Itoa(p.listen(t, taskOf(s, "")))) + "/"
	var c *websocket.Conn
	var err error
	var stats func() session.Stats
	if w.single {
		c, err = websocket.Dial(ctx, url, options)
	} else {
		own := websocket.NewClient(side.handler(w.pull), options)
		defer func() { _ = own.Close() }()
		stats = own.Stats
		c, err = own.Dial(ctx, url)
	}
	if err != nil {
		t.Fatal(err)
	}
	var asking sync.WaitGroup
	defer testwait.Return(t, asking.Wait)
	if w.pull {
		asking.Go(func() { side.ask(ctx, c, w.single) })
	}
	defer c.CloseNow()
	seen := side.play(ctx, t, c, s)
	if stats != nil {
		now := stats()
		now.BytesIn = received.Load() // includes the bytes that came with the response
		seen.stats = &now
	}
	var said report
	p.read(t, &said)
	if said.Agreed != agreed {
		t.Errorf("the peer agreed on %q, we read %q", said.Agreed, agreed)
	}
	check(t, s, said, seen, true)
}
