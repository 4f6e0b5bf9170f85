//go:build unix

package main_test

import (
	"net"
	"net/http"
	"os"
	"strings"
	"syscall"
	"testing"

	"go.uber.org/goleak"

	"github.com/sluice-push/sluice/examples/internal/proctest"
	"github.com/sluice-push/sluice/session"
	"github.com/sluice-push/sluice/websocket"
)

var program = proctest.New(".")

func TestMain(m *testing.M) {
	goleak.VerifyTestMain(m, goleak.Cleanup(func(code int) {
		program.Remove()
		os.Exit(code)
	}))
}

// serve runs a server and returns its URL.
func serve(t *testing.T, h *websocket.Handler, o *websocket.Options) string {
	t.Helper()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	srv := websocket.NewServer(h, o)
	served := make(chan struct{})
	go func() {
		defer close(served)
		_ = srv.Serve(ln)
	}()
	t.Cleanup(func() {
		_ = srv.Close()
		<-served
	})
	return "ws://" + ln.Addr().String() + "/"
}

// obey does what a message says, or sends it back.
func obey(c *websocket.Conn, m websocket.Message) {
	switch string(m.Data) {
	case "binary":
		_ = c.Send(websocket.OpBinary, make([]byte, 7))
	case "refuse":
		_ = c.Close(4003, "not you")
	case "go away":
		_ = c.Close(websocket.CloseGoingAway, "")
	case "vanish":
		c.CloseNow()
	default:
		_ = c.Send(m.Op, m.Data)
	}
}

// Lines go there and back, and ^D says goodbye behind the last answer.
func TestTalk(t *testing.T) {
	codes := make(chan uint16, 1)
	url := serve(t, &websocket.Handler{Message: obey, Close: func(_ *websocket.Conn, info *session.CloseInfo) {
		codes <- websocket.CodeOf(info.Err)
	}}, &websocket.Options{Compression: &websocket.Compression{}})
	for _, args := range [][]string{{url}, {"-compress", url}} {
		p := program.Start(t, args...)
		p.Type("hello")
		p.Line("hello")
		p.Type("binary")
		p.Line("(7 bytes, not text)")
		p.Type("not \xff UTF-8")
		p.Type(strings.Repeat("and again ", 200))
		p.Type("the last")
		p.EndInput()
		status, stdout, stderr := p.Exit()
		if status != 0 || !strings.HasSuffix(stdout, "again \nthe last") || !strings.HasSuffix(stderr, "closed: 1000\n") {
			t.Errorf("%v: status %d\n%s\n%s", args, status, stdout, stderr)
		}
		if !strings.Contains(stderr, "not sent: the line is not UTF-8") {
			t.Errorf("%v: %s", args, stderr)
		}
		if code := <-codes; code != websocket.CloseNormal {
			t.Errorf("%v: the server was told %d", args, code)
		}
	}
}

// The status tells a connection that ended in order from all others.
func TestEnds(t *testing.T) {
	url := serve(t, &websocket.Handler{Message: obey}, nil)
	for say, want := range map[string]struct {
		status int
		stderr string
	}{
		"refuse":  {1, "closed: 4003 not you\n"},
		"go away": {0, "closed: 1001\n"},
		"vanish":  {1, "closed: 1006 there was no goodbye: "},
	} {
		p := program.Start(t, url)
		p.Type(say)
		if status, stdout, stderr := p.Exit(); status != want.status || !strings.Contains(stderr, want.stderr) {
			t.Errorf("%s: status %d, want %d\n%s\n%s", say, status, want.status, stdout, stderr)
		}
	}
}

// ^C and SIGTERM say goodbye as well.
func TestSignals(t *testing.T) {
	url := serve(t, &websocket.Handler{Message: obey}, nil)
	for _, s := range []os.Signal{os.Interrupt, syscall.SIGTERM} {
		p := program.Start(t, url)
		p.Type("hello")
		p.Line("hello")
		p.Signal(s)
		if status, stdout, stderr := p.Exit(); status != 0 || stderr != "closed: 1000\n" {
			t.Errorf("%v: status %d\n%s\n%s", s, status, stdout, stderr)
		}
	}
}

// What is said about the handshake reaches the server.
func TestHandshake(t *testing.T) {
	url := serve(t, &websocket.Handler{Message: obey}, &websocket.Options{
		Subprotocols: []string{"second"},
		Accept: func(r *websocket.Request, _ *websocket.Response) error {
			if r.Header.Get("Authorization") != "Bearer secret" || strings.Join(r.Header.Values("X-Color"), " ") != "red blue" {
				return &websocket.Refusal{Status: http.StatusUnauthorized, Reason: "who are you?"}
			}
			return nil
		},
	})
	p := program.Start(t, "-header", "Authorization: Bearer secret", "-header", "X-Color:red", "-header", "X-Color:blue",
		"-subprotocol", "first", "-subprotocol", "second", url)
	p.EndInput()
	if status, stdout, stderr := p.Exit(); status != 0 || stderr != "subprotocol second\nclosed: 1000\n" {
		t.Errorf("status %d\n%s\n%s", status, stdout, stderr)
	}
	if status, stdout, stderr := program.Start(t, url).Exit(); status != 1 || !strings.Contains(stderr, "401") {
		t.Errorf("status %d, want 1\n%s\n%s", status, stdout, stderr)
	}
}

// What cannot be is said, and is no success.
func TestMistakes(t *testing.T) {
	for args, want := range map[string]struct {
		status int
		stderr string
	}{
		"":                           {2, "one URL is expected"},
		"ws://127.0.0.1 ws://[::1]":  {2, "one URL is expected"},
		"-header color ws://[::1]":   {2, "NAME:VALUE is expected"},
		"ftp://127.0.0.1:7006":       {1, "websocket-client: websocket: dial: "},
		"ws://127.0.0.1:no-port/":    {1, "websocket-client: websocket: dial: "},
		"-subprotocol a,b ws://[::]": {1, "websocket-client: websocket: dial: "},
	} {
		status, stdout, stderr := program.Start(t, strings.Fields(args)...).Exit()
		if status != want.status || !strings.Contains(stderr, want.stderr) {
			t.Errorf("%s: status %d, want %d\n%s\n%s", args, status, want.status, stdout, stderr)
		}
	}
}
