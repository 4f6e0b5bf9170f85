package websocket_test

import (
	"errors"
	"net/http"
	"sync/atomic"
	"testing"
	"time"

	"github.com/sluice-push/sluice/internal/testwait"
	"github.com/sluice-push/sluice/reconnect"
	"github.com/sluice-push/sluice/session"
	"github.com/sluice-push/sluice/websocket"
	"github.com/sluice-push/sluice/websocket/wire"
)

// comeback is a client with a reconnect pool. Its server closes on the message "close", cuts the connection on "cut", and echoes everything
// else.
type comeback struct {
	t        *testing.T
	url      string
	refuses  atomic.Bool
	told     <-chan ended // the ends that the server's handler got
	client   *websocket.Client
	pool     *reconnect.Pool
	states   chan reconnect.Event
	pull     bool
	messages chan string // unless pull
	closed   chan uint16 // the close codes that the client got
}

func newComeback(t *testing.T, pull bool) *comeback {
	f := &comeback{
		t: t, pull: pull, states: make(chan reconnect.Event, 100), messages: make(chan string, 100), closed: make(chan uint16, 100),
	}
	var h *websocket.Handler
	h, f.told = ends(func(c *websocket.Conn, m websocket.Message) {
		_ = c.Send(m.Op, m.Data)
		switch string(m.Data) {
		case "close":
			_ = c.Close(4001, "")
		case "cut":
			c.CloseNow()
		}
	})
	_, f.url = serve(t, h, &websocket.Options{Accept: func(*websocket.Request, *websocket.Response) error {
		if f.refuses.Load() {
			return &websocket.Refusal{Status: http.StatusServiceUnavailable, Reason: "not now"}
		}
		return nil
	}})
	own := &websocket.Handler{
		Pull:  pull,
		Close: func(_ *websocket.Conn, info *session.CloseInfo) { f.closed <- websocket.CodeOf(info.Err) },
	}
	if !pull {
		own.Message = func(_ *websocket.Conn, m websocket.Message) { f.messages <- string(m.Data) }
	}
	f.client = websocket.NewClient(own, nil)
	t.Cleanup(func() { _ = f.client.Close() })
	pool, err := reconnect.New(nil, &reconnect.Options{
		Addresses: []string{f.url}, DialSession: f.client.DialSession, Base: time.Microsecond, Cap: time.Microsecond,
		State: func(e reconnect.Event) { f.states <- e },
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = pool.Close() })
	f.pool = pool
	pool.Start()
	return f
}

// next waits for a state and returns the error that came with it.
func (f *comeback) next(want reconnect.State) reconnect.Event {
	f.t.Helper()
	for {
		if e := testwait.Receive(f.t, f.states); e.State == want {
			return e
		}
	}
}

// open waits until the client is connected again.
func (f *comeback) open() *websocket.Conn {
	f.t.Helper()
	return f.next(reconnect.Open).Session.Value().(*websocket.Conn)
}

// ask sends a message and checks the server's answer.
func (f *comeback) ask(c *websocket.Conn, text string) {
	f.t.Helper()
	if err := c.SendText(text); err != nil {
		f.t.Fatal(err)
	}
	var got string
	if f.pull {
		got = string(receive(f.t, c).Data)
	} else {
		got = testwait.Receive(f.t, f.messages)
	}
	if got != text {
		f.t.Errorf("answered %q, want %q", got, text)
	}
}

// The client's handler gets each end. A server that refuses the client delays it, and the client ends with its pool.
func TestClientThatComesBack(t *testing.T) {
	for name, pull := range map[string]bool{"events": false, "asking": true} {
		t.Run(name, func(t *testing.T) {
			f := newComeback(t, pull)
			for _, end := range []struct {
				text string
				code uint16
			}{{"close", 4001}, {"cut", websocket.CloseAbnormal}, {"close", 4001}} {
				c := f.open()
				f.ask(c, "hello")
				f.ask(c, end.text)
				if pull {
					if _, err := c.Receive(within(t)); websocket.CodeOf(err) != end.code {
						t.Errorf("%s: the receiver is told %v", end.text, err)
					}
				}
				if code := testwait.Receive(t, f.closed); code != end.code {
					t.Errorf("%s: told code %d", end.text, code)
				}
				testwait.Receive(t, f.told)
			}
			c := f.open()
			f.refuses.Store(true)
			c.CloseNow()
			testwait.Receive(t, f.told)
			_ = f.next(reconnect.BackingOff) // of the end
			refused, ok := errors.AsType[*wire.HandshakeError](f.next(reconnect.BackingOff).Err)
			if !ok || refused.Status != http.StatusServiceUnavailable {
				t.Errorf("refused with %v", refused)
			}
			f.refuses.Store(false)
			_ = f.open()
			if err := f.pool.Shutdown(within(t)); err != nil {
				t.Error(err)
			}
			if got := testwait.Receive(t, f.told); got.code != websocket.CloseGoingAway {
				t.Errorf("the server is told %+v", got)
			}
		})
	}
}

// The pool does not reconnect after its client is closed.
func TestClientThatIsClosed(t *testing.T) {
	f := newComeback(t, true)
	_ = f.open()
	_ = f.client.Close()
	_ = f.next(reconnect.Failed)
	if _, err := f.client.Dial(within(t), f.url); !errors.Is(err, session.ErrClientClosed) {
		t.Errorf("dialed after Close: %v", err)
	}
}

// With a nil wrapper, DialSession returns an ordinary session.
func TestDialSession(t *testing.T) {
	_, url := serve(t, echo, nil)
	client := websocket.NewClient(nil, nil)
	defer client.Close()
	s, err := client.DialSession(within(t), url, nil)
	if err != nil {
		t.Fatal(err)
	}
	c := s.Value().(*websocket.Conn)
	if err := c.SendText("hello"); err != nil || string(receive(t, c).Data) != "hello" {
		t.Error(err)
	}
	if _, err := client.DialSession(within(t), "ws://127.0.0.1:1/", nil); err == nil {
		t.Error("nobody answers, and it is no error")
	}
}
