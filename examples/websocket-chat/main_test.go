//go:build unix

package main_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"os"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/sluice-push/sluice/examples/internal/proctest"
	"github.com/sluice-push/sluice/websocket"
)

var program = proctest.New(".")

func TestMain(m *testing.M) {
	goleak.VerifyTestMain(m, goleak.Cleanup(func(code int) {
		program.Remove()
		os.Exit(code)
	}))
}

// event is what the chat tells.
type event struct {
	Kind, Name, Text string
	Here             []string
	Turn             int
}

// person is somebody in a room.
type person struct {
	*websocket.Conn
	t    *testing.T
	ctx  context.Context
	turn int
}

// join comes into a room and expects to be welcome.
func join(t *testing.T, address, room, name string, o *websocket.Options) *person {
	t.Helper()
	p := knock(t, address, room, name, o)
	p.hears("welcome", name)
	return p
}

// knock connects. What comes of it is to be seen.
func knock(t *testing.T, address, room, name string, o *websocket.Options) *person {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 40*time.Second)
	t.Cleanup(cancel)
	c, err := websocket.Dial(ctx, "ws://"+address+"/live/"+url.PathEscape(room)+"?name="+url.QueryEscape(name), o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.CloseNow)
	return &person{Conn: c, t: t, ctx: ctx}
}

// next returns the next event.
func (p *person) next() event {
	p.t.Helper()
	m, err := p.Receive(p.ctx)
	if err != nil {
		p.t.Fatal(err)
	}
	var e event
	if err := json.Unmarshal(m.Data, &e); err != nil || m.Op != websocket.OpText {
		p.t.Fatalf("%q: %v", m.Data, err)
	}
	return e
}

// hears expects an event. Lists of who is there have to get newer.
func (p *person) hears(kind, name string) event {
	p.t.Helper()
	e := p.next()
	if e.Kind != kind || e.Name != name {
		p.t.Fatalf("heard %+v, want %s of %s", e, kind, name)
	}
	if kind != "said" {
		if !slices.IsSorted(e.Here) || e.Turn <= p.turn {
			p.t.Fatalf("after turn %d: %+v", p.turn, e)
		}
		p.turn = e.Turn
	}
	return e
}

func (p *person) says(text string) {
	p.t.Helper()
	if err := p.SendText(text); err != nil {
		p.t.Fatal(err)
	}
}

// ends expects the end with a code.
func (p *person) ends(code uint16) {
	p.t.Helper()
	for {
		_, err := p.Receive(p.ctx)
		if err == nil {
			continue
		}
		if end, ok := errors.AsType[*websocket.CloseError](err); !ok || !end.Remote || end.Code != code {
			p.t.Errorf("%v, want the code %d", err, code)
		}
		return
	}
}

func TestChat(t *testing.T) {
	p := program.Start(t, "-listen", "127.0.0.1:0")
	address := p.After("listening on ")
	ann := join(t, address, "lobby", "ann", nil)
	bob := join(t, address, "lobby", "bob", &websocket.Options{Compression: &websocket.Compression{}})
	if e := ann.hears("came", "bob"); strings.Join(e.Here, " ") != "ann bob" {
		t.Errorf("here: %v", e.Here)
	}
	elsewhere := join(t, address, "küche", "ann", nil)

	long := strings.TrimSpace(strings.Repeat("hello, bob ", 20))
	ann.says(" " + long + "\n")
	ann.says("   ")
	bob.says("<b>hello</b>")
	for _, one := range []*person{ann, bob} {
		heard := map[string]string{}
		for range 2 {
			e := one.next()
			heard[e.Name] = e.Kind + " " + e.Text
		}
		if heard["ann"] != "said "+long || heard["bob"] != "said <b>hello</b>" {
			t.Errorf("heard %v", heard)
		}
	}
	elsewhere.says("alone")
	elsewhere.hears("said", "ann")

	if err := bob.Close(websocket.CloseNormal, ""); err != nil {
		t.Fatal(err)
	}
	if e := ann.hears("left", "bob"); strings.Join(e.Here, " ") != "ann" {
		t.Errorf("here: %v", e.Here)
	}
	join(t, address, "lobby", "bob", nil).CloseNow()
	ann.hears("came", "bob")
	ann.hears("left", "bob")

	p.Signal(syscall.SIGUSR1)
	p.Line("memory returned: ")
	p.Signal(syscall.SIGTERM)
	ann.ends(websocket.CloseGoingAway)
	elsewhere.ends(websocket.CloseGoingAway)
	if status, stdout, stderr := p.Exit(); status != 0 || !strings.HasSuffix(stdout, ": ended") {
		t.Errorf("status %d\n%s\n%s", status, stdout, stderr)
	}
}

// Who is not let in is told why, by a code that a page can see.
func TestRefused(t *testing.T) {
	p := program.Start(t, "-listen", "127.0.0.1:0")
	address := p.After("listening on ")
	bob, ann := join(t, address, "lobby", "bob", nil), join(t, address, "lobby", "ann", nil)
	for _, tt := range []struct {
		room, name string
		code       uint16
	}{
		{"lobby", "ann", 4001},
		{"lobby", "", 4000},
		{"lobby", "ann b", 4000},
		{"lobby", strings.Repeat("n", 21), 4000},
		{"no room", "ann", 4000},
	} {
		knock(t, address, tt.room, tt.name, nil).ends(tt.code)
	}
	ann.says(strings.Repeat("x", 1001))
	ann.ends(websocket.CloseTooBig)
	for e := bob.next(); e.Kind != "left" || e.Name != "ann"; e = bob.next() { // until the name is free again
	}
	again := join(t, address, "lobby", "ann", nil)
	for i := range 98 {
		join(t, address, "lobby", fmt.Sprint("guest", i), nil)
	}
	knock(t, address, "lobby", "late", nil).ends(websocket.CloseTryAgainLater)
	p.Signal(os.Interrupt)
	again.ends(websocket.CloseGoingAway)
}

// Who does not read is sent away, with a code; the others talk on.
func TestSlow(t *testing.T) {
	p := program.Start(t, "-listen", "127.0.0.1:0")
	address := p.After("listening on ")
	small := &websocket.Options{DialContext: func(ctx context.Context, network, address string) (net.Conn, error) {
		conn, err := new(net.Dialer).DialContext(ctx, network, address)
		if err == nil {
			err = conn.(*net.TCPConn).SetReadBuffer(4096)
		}
		return conn, err
	}}
	lazy := join(t, address, "lobby", "lazy", small)
	ann := join(t, address, "lobby", "ann", nil)
	for said, gone := 0, false; !gone; said++ {
		ann.says(fmt.Sprint(said, strings.Repeat(" bla", 200)))
		for heard := false; !heard; {
			e := ann.next()
			heard = e.Kind == "said"
			gone = gone || e.Kind == "left" && e.Name == "lazy"
		}
	}
	lazy.ends(4008)
	ann.CloseNow()
	p.End(syscall.SIGTERM)
}

// The page and what belongs to it are part of the program.
func TestPage(t *testing.T) {
	p := program.Start(t, "-listen", "127.0.0.1:0")
	base := "http://" + p.After("listening on ")
	defer http.DefaultClient.CloseIdleConnections()
	for path, want := range map[string]struct {
		status int
		text   string
	}{
		"/":                   {200, `src="/page/chat.js"`}, // that of the lobby
		"/kitchen":            {200, `href="/page/chat.css"`},
		"/page/chat.js":       {200, "new WebSocket("},
		"/page/chat.css":      {200, "#talk"},
		"/no%20room":          {404, "a room has"},
		"/live/lobby?name=me": {426, ""},
	} {
		r, err := http.Get(base + path)
		if err != nil {
			t.Fatal(err)
		}
		body, err := io.ReadAll(r.Body)
		_ = r.Body.Close()
		if err != nil || r.StatusCode != want.status || !strings.Contains(string(body), want.text) {
			t.Errorf("%s: status %d, want %d, %v\n%s", path, r.StatusCode, want.status, err, body)
		}
	}
	http.DefaultClient.CloseIdleConnections()
	p.End(os.Interrupt)
}
