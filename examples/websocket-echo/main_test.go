//go:build unix

package main_test

import (
	"bytes"
	"context"
	"errors"
	"os"
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

// peer is a client.
type peer struct {
	*websocket.Conn
	t   *testing.T
	ctx context.Context
}

// dial makes a connection to a process, which ends with the test.
func dial(t *testing.T, address string, o *websocket.Options) peer {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 40*time.Second)
	t.Cleanup(cancel)
	c, err := websocket.Dial(ctx, "ws://"+address+"/any/path", o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.CloseNow)
	return peer{c, t, ctx}
}

func (p peer) says(op websocket.Opcode, data []byte) {
	p.t.Helper()
	if err := p.Send(op, data); err != nil {
		p.t.Fatal(err)
	}
}

// hears expects a message.
func (p peer) hears(op websocket.Opcode, data []byte) {
	p.t.Helper()
	m, err := p.Receive(p.ctx)
	if err != nil {
		p.t.Fatal(err)
	}
	if m.Op != op || !bytes.Equal(m.Data, data) {
		p.t.Fatalf("%d bytes of kind %d, want %d of %d", len(m.Data), m.Op, len(data), op)
	}
}

// ends expects a close frame with a code.
func (p peer) ends(code uint16) {
	p.t.Helper()
	_, err := p.Receive(p.ctx)
	if end, ok := errors.AsType[*websocket.CloseError](err); !ok || !end.Remote || end.Code != code {
		p.t.Errorf("%v, want the code %d", err, code)
	}
}

// Messages of every size come back, compressed or not, on either engine; SIGUSR1 is answered, and SIGTERM says goodbye.
func TestEcho(t *testing.T) {
	for _, args := range []string{"", "-goroutine", "-compress=false"} {
		t.Run(args, func(t *testing.T) {
			p := program.Start(t, append([]string{"-listen", "127.0.0.1:0"}, strings.Fields(args)...)...)
			address := p.After("listening on ")
			plain := dial(t, address, nil)
			o := &websocket.Options{MaxMessage: 2 << 20, Compression: &websocket.Compression{Takeover: true, PeerTakeover: true}}
			packed := dial(t, address, o)
			for _, size := range []int{0, 1, 125, 126, 60 << 10} {
				text := bytes.Repeat([]byte("x"), size)
				plain.says(websocket.OpText, text)
				packed.says(websocket.OpBinary, text)
				plain.hears(websocket.OpText, text)
				packed.hears(websocket.OpBinary, text)
			}
			large := bytes.Repeat([]byte("large "), 200_000)
			packed.says(websocket.OpText, large)
			packed.hears(websocket.OpText, large)

			p.Signal(syscall.SIGUSR1)
			p.Line("memory returned: ")
			p.Signal(syscall.SIGTERM)
			plain.ends(websocket.CloseGoingAway)
			packed.ends(websocket.CloseGoingAway)
			if status, stdout, stderr := p.Exit(); status != 0 || !strings.HasSuffix(stdout, ": ended") {
				t.Errorf("status %d\n%s\n%s", status, stdout, stderr)
			}
		})
	}
}

// With -broadcast everybody hears what one says.
func TestBroadcast(t *testing.T) {
	p := program.Start(t, "-listen", "127.0.0.1:0", "-broadcast")
	address := p.After("listening on ")
	peers := []peer{dial(t, address, nil), dial(t, address, nil), dial(t, address, nil)}
	for i, one := range peers {
		said := bytes.Repeat([]byte{byte('a' + i)}, 100)
		one.says(websocket.OpText, said)
		for _, other := range peers {
			other.hears(websocket.OpText, said)
		}
	}
	for _, one := range peers {
		one.CloseNow()
	}
	p.End(os.Interrupt)
}

// A message that is too large ends the connection, and no other.
func TestTooLarge(t *testing.T) {
	p := program.Start(t, "-listen", "127.0.0.1:0", "-message", "1000")
	address := p.After("listening on ")
	other := dial(t, address, nil)
	one := dial(t, address, nil)
	one.says(websocket.OpBinary, make([]byte, 1001))
	one.ends(websocket.CloseTooBig)
	other.says(websocket.OpBinary, make([]byte, 1000))
	other.hears(websocket.OpBinary, make([]byte, 1000))
	other.CloseNow()
	p.End(os.Interrupt)
}

// What cannot be is said, and is no success.
func TestMistakes(t *testing.T) {
	for args, want := range map[string]struct {
		status int
		stderr string
	}{
		"-listen 127.0.0.1:no-port": {1, "websocket-echo: listen tcp: "},
		"7006":                      {2, `what is "7006"?`},
		"-port 7006":                {2, "-port"},
	} {
		status, stdout, stderr := program.Start(t, strings.Fields(args)...).Exit()
		if status != want.status || !strings.Contains(stderr, want.stderr) {
			t.Errorf("%s: status %d, want %d\n%s\n%s", args, status, want.status, stdout, stderr)
		}
	}
}
