package websocket_test

import (
	"bytes"
	"compress/flate"
	"errors"
	"io"
	"strings"
	"testing"

	"github.com/sluice-push/sluice/websocket"
	"github.com/sluice-push/sluice/websocket/wire"
)

// deflated is the payload of a message, with the flush at its end if it is not the last part.
func deflated(p []byte, flushed bool) []byte {
	var b bytes.Buffer
	w, _ := flate.NewWriter(&b, 9)
	_, _ = w.Write(p)
	_ = w.Flush()
	if flushed {
		return b.Bytes()
	}
	return bytes.TrimSuffix(b.Bytes(), []byte("\x00\x00\xff\xff"))
}

// sends sends bytes on a server's connection as soon as it is open.
func sends(parts ...[]byte) *websocket.Handler {
	return &websocket.Handler{Open: func(c *websocket.Conn, _ *websocket.Request) error {
		return c.Session().Write(bytes.Join(parts, nil))
	}}
}

// serverFrame is a frame of a server with a first byte of its own.
func serverFrame(first byte, payload []byte) []byte {
	b := wire.AppendFrame(nil, websocket.OpBinary, payload)
	b[0] = first
	return b
}

// A compressed message that is cut off is an error, wherever the cut is.
func TestCutOffCompressed(t *testing.T) {
	o := &websocket.Options{Compression: &websocket.Compression{}}
	for name, part := range map[string][]byte{"before a flush": deflated(text(500), false), "behind one": deflated(text(500), true)} {
		_, url := serve(t, sends(serverFrame(0x42, part), wire.AppendClose(nil, 4000, "")), o)
		c := dial(t, url, o)
		_, r, err := c.NextReader(within(t))
		if err != nil {
			t.Fatal(err)
		}
		got, err := io.ReadAll(r)
		if !errors.Is(err, io.ErrUnexpectedEOF) || websocket.CodeOf(err) != 4000 {
			t.Errorf("%s: %d bytes, %v", name, len(got), err)
		}
	}
}

// Blocks may be final anywhere in a message (RFC 7692 §7.2.3.4): a stream has the same bytes as Receive returns.
func TestFinalBlocks(t *testing.T) {
	final := func(p []byte) []byte {
		var b bytes.Buffer
		w, _ := flate.NewWriter(&b, 9)
		_, _ = w.Write(p)
		_ = w.Close()
		return b.Bytes()
	}
	for _, takeover := range []bool{false, true} {
		o := &websocket.Options{Compression: &websocket.Compression{PeerTakeover: takeover, Takeover: takeover}}
		one, two := final([]byte("hello, ")), final([]byte("world"))
		h := sends(
			serverFrame(0x42, one), serverFrame(0x80, append(bytes.Clone(two), 0)),
			serverFrame(0xc2, append(bytes.Clone(one), two...)),
			serverFrame(0xc2, bytes.Join([][]byte{one, deflated([]byte("world"), false)}, nil)),
			serverFrame(0xc2, one))
		_, url := serve(t, h, o)
		c, d := dial(t, url, o), dial(t, url, o)
		for _, want := range []string{"hello, world", "hello, world", "hello, world", "hello, "} {
			if m := receive(t, c); string(m.Data) != want {
				t.Errorf("received %q", m.Data)
			}
			_, r, err := d.NextReader(within(t))
			if err != nil {
				t.Fatal(err)
			}
			if got, err := io.ReadAll(r); err != nil || string(got) != want {
				t.Errorf("read %q, %v, want %q", got, err, want)
			}
		}
	}
}

// A goroutine that reads a stream gets an error if this side closes the connection, whether the message is compressed or not.
func TestClosedWhileStreaming(t *testing.T) {
	for _, first := range []byte{0x02, 0x42} {
		o := &websocket.Options{Compression: &websocket.Compression{}}
		_, url := serve(t, sends(serverFrame(first, deflated(text(500), true))), o)
		c := dial(t, url, o)
		_, r, err := c.NextReader(within(t))
		if err != nil {
			t.Fatal(err)
		}
		if _, err := io.ReadFull(r, make([]byte, 1)); err != nil {
			t.Fatal(err)
		}
		if err := c.Close(4000, "enough"); err != nil {
			t.Fatal(err)
		}
		_, err = io.ReadAll(r)
		if !errors.Is(err, websocket.ErrClosed) || websocket.CodeOf(err) != 4000 || strings.Contains(err.Error(), "decode") {
			t.Errorf("%#x: %v", first, err)
		}
	}
}
