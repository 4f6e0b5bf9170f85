package rpc_test

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"io"
	"net"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/sluice-push/sluice/internal/testwait"
	"github.com/sluice-push/sluice/rpc"
	"github.com/sluice-push/sluice/rpc/frame"
)

// knock makes the call Echo, with or without what the interceptor of guarded asks for.
func knock(t *testing.T, c *rpc.Conn, isAllowed bool, in string) error {
	t.Helper()
	r := &rpc.Request{Method: "Echo"}
	if isAllowed {
		r.Metadata = []rpc.Pair{{Key: "secret", Value: "s"}}
	}
	var out text
	err := c.Do(testwait.Context(t), r, &text{in}, &out)
	if err == nil && out.Text != in {
		t.Errorf("%d bytes are answered with %d others", len(in), len(out.Text))
	}
	return err
}

// guarded starts a server that refuses calls without a secret.
func guarded(t *testing.T, most int) *place {
	t.Helper()
	refuse := func(ctx context.Context, c *rpc.Call, dst []byte, next rpc.Func) ([]byte, error) {
		if secret, _ := c.Metadata("secret"); secret != "s" {
			return nil, errors.New("no")
		}
		return next(ctx, c, dst)
	}
	return newPlace(t, &rpc.Options{MaxUnproven: most, Interceptors: []rpc.Interceptor{refuse}})
}

// Connections of callers that are refused make room for newer ones, and those of the others stay.
func TestUnprovenMakeRoom(t *testing.T) {
	const most, strangers = 4, 40
	p := guarded(t, most)
	first := p.dial(nil)
	if err := knock(t, first, true, "a"); err != nil {
		t.Fatal(err)
	}
	var all []*rpc.Conn
	for range strangers {
		c := p.dial(nil)
		if err := knock(t, c, false, "a"); err == nil {
			t.Fatal("the call of a stranger was successful")
		}
		all = append(all, c)
	}
	testwait.True(t, "the older ones have ended", func() bool { return p.server.Stats().Conns == 1+most })
	for i, c := range all[strangers-most:] {
		if !c.Usable() {
			t.Errorf("connection %d of the newest ones has ended", i)
		}
	}
	if err := knock(t, first, true, "b"); err != nil {
		t.Error("a proven connection:", err)
	}
	if err := knock(t, p.dial(nil), true, "c"); err != nil {
		t.Error("a new connection:", err)
	}
	for _, c := range all {
		_ = c.Close()
	}
	testwait.True(t, "they have left", func() bool { return p.server.Stats().Conns <= 2 })
	var others []*rpc.Conn
	for range most { // connections that have ended take no room
		c := p.dial(nil)
		_ = knock(t, c, false, "a")
		others = append(others, c)
	}
	for i, c := range others {
		if err := knock(t, c, true, "a"); err != nil {
			t.Errorf("connection %d: %v", i, err)
		}
	}
}

// A connection may send large frames when a call of it was successful, and not before.
func TestUnprovenSendShortFrames(t *testing.T) {
	p := guarded(t, 4)
	long := strings.Repeat("x", 1<<20)
	for _, isAllowed := range []bool{false, true} {
		c := p.dial(nil)
		if err := knock(t, c, isAllowed, long); rpc.CodeOf(err) != rpc.Lost {
			t.Errorf("the first call, allowed %v: %v", isAllowed, err)
		}
	}
	c := p.dial(nil)
	if err := knock(t, c, false, "a"); err == nil {
		t.Error("a call without the secret was successful")
	}
	for _, in := range []string{"a", long} {
		if err := knock(t, c, true, in); err != nil {
			t.Error(err)
		}
	}
	if err := knock(t, newPlace(t, nil).dial(nil), true, long); err != nil {
		t.Error("without a bound:", err)
	}
}

// Of a large frame, little has to arrive before the connection ends: neither its first bytes nor a body that is small while it is compressed are kept.
func TestUnprovenLargeFrames(t *testing.T) {
	whole := binary.BigEndian.AppendUint32(nil, 1<<20)
	whole = append(whole, 0x10, 0x00, 0, 0, 0, 0, 0, 0, 0, 1, 0x20, 0, 0, 0) // TTHeader, a control frame
	f := &frame.Frame{Kind: frame.Call, Sequence: 1, Method: []byte("Echo"), Dialect: bareDialect, Transforms: []frame.Transform{frame.Zlib}}
	small, err := f.AppendEncode(nil, bytes.Repeat([]byte("x"), 1<<20))
	if err != nil {
		t.Fatal(err)
	}
	if len(small) > 16<<10 {
		t.Fatalf("the compressed frame has %d bytes", len(small))
	}
	p := guarded(t, 4)
	for name, sent := range map[string][]byte{"the beginning": whole, "compressed": small} {
		t.Run(name, func(t *testing.T) {
			conn, err := net.Dial("tcp", p.address)
			if err != nil {
				t.Fatal(err)
			}
			defer conn.Close()
			if err := conn.SetDeadline(time.Now().Add(testwait.Bound)); err != nil {
				t.Fatal(err)
			}
			if _, err := conn.Write(sent); err != nil {
				t.Fatal(err)
			}
			if answer, err := io.ReadAll(conn); len(answer) > 0 || errors.Is(err, os.ErrDeadlineExceeded) {
				t.Errorf("it is answered with %d bytes, and ends with %v", len(answer), err)
			}
		})
	}
}
