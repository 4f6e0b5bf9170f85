package wire_test

import (
	"fmt"
	"runtime"
	"strings"
	"testing"

	"github.com/sluice-push/sluice/websocket/wire"
)

// The memory for a message under way is proportional to the bytes that have arrived, also if an earlier large message left a large buffer in the
// pool.
func TestHeldForFragments(t *testing.T) {
	c := deflated(t, wire.Options{MaxMessage: 1 << 20})
	for range 10 {
		in := []byte(client(fin|0x40|bin, squeeze(strings.Repeat("x", 300_000))))
		if msg, _, err := c.Decode(in); err != nil || len(msg) != 300_000 {
			t.Fatal(len(msg), err)
		}
		c.Release()
		if _, _, err := c.Decode([]byte(client(bin, "x"))); err != nil {
			t.Fatal(err)
		}
		if n := c.Held(); n > 16<<10 {
			t.Errorf("%d bytes are held for one", n)
		}
		if msg, _, err := c.Decode([]byte(client(fin|cont, "y"))); err != nil || string(msg) != "xy" {
			t.Fatal(msg, err)
		}
		c.Release()
	}
}

// A connection does not keep its request, although Accept may choose a subprotocol from it.
func TestRequestIsForgotten(t *testing.T) {
	e := wire.NewEndpoint(&wire.Options{Accept: func(r *wire.Request, res *wire.Response) error {
		res.Subprotocol = r.Protocols[0]
		return nil
	}})
	inUse := func() uint64 {
		for range 3 {
			runtime.GC()
		}
		var m runtime.MemStats
		runtime.ReadMemStats(&m)
		return m.HeapAlloc
	}
	before := inUse()
	codecs := make([]wire.Codec, 1000)
	for i := range codecs {
		c := &codecs[i]
		e.Handshake(c)
		request := "GET / HTTP/1.1\r\nHost: a\r\nUpgrade: websocket\r\nConnection: Upgrade\r\nSec-WebSocket-Version: 13\r\n" +
			"Sec-WebSocket-Key: AAAAAAAAAAAAAAAAAAAAAA==\r\nX: " + strings.Repeat("x", 7000) + "\r\nSec-WebSocket-Protocol: p" + fmt.Sprint(i) + "\r\n\r\n"
		if _, _, err := c.Decode([]byte(request)); err != nil {
			t.Fatal(err)
		}
		c.AppendReplies(nil)
		c.Release()
	}
	if n := inUse() - before; n > 2<<20 {
		t.Errorf("%d bytes for 1000 connections", n)
	}
	if p := codecs[7].Subprotocol(); p != "p7" {
		t.Errorf("subprotocol %q", p)
	}
}
