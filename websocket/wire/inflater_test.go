package wire_test

import (
	"bytes"
	"compress/flate"
	"io"
	"math/rand/v2"
	"testing"
	"testing/iotest"

	"github.com/sluice-push/sluice/websocket/wire"
)

// blocks returns a payload of some runs of blocks. Each run ends with a final block or with a flush. The payload may be broken.
func blocks(r *rand.Rand) []byte {
	var b bytes.Buffer
	for range r.IntN(4) {
		w, _ := flate.NewWriter(&b, r.IntN(10))
		_, _ = w.Write(bytes.Repeat([]byte("abcde")[:1+r.IntN(5)], r.IntN(300)))
		if r.IntN(3) == 0 {
			_ = w.Close()
		} else {
			_ = w.Flush()
		}
	}
	p := b.Bytes()
	if r.IntN(2) == 0 {
		p = p[:max(len(p)-4, 0)] // as RFC 7692 §7.2.1 wants it
	}
	for range r.IntN(2) * len(p) / 16 {
		p[r.IntN(len(p))] ^= 1 << r.IntN(8)
	}
	return p
}

// A stream has the same bytes as the whole message, whatever its blocks are and in whatever pieces it arrives.
func TestInflaterLikeWhole(t *testing.T) {
	var c wire.Codec
	e := wire.NewEndpoint(&wire.Options{MaxMessage: 2000, Compression: &wire.Compression{}})
	answer := &wire.ClientResponse{Extensions: "permessage-deflate; server_no_context_takeover; client_no_context_takeover"}
	if err := e.Client(&c, answer); err != nil {
		t.Fatal(err)
	}
	r := rand.New(rand.NewPCG(1, 2))
	good := 0
	for range 1000 {
		p, kind := blocks(r), wire.OpText+wire.Opcode(r.IntN(2))
		want, err := c.AppendInflated(nil, p, kind)
		if err != nil {
			continue
		}
		good++
		var in io.Reader = bytes.NewReader(p)
		if r.IntN(2) == 0 {
			in = iotest.OneByteReader(in)
		}
		if got, err := io.ReadAll(c.Inflate(in, kind)); err != nil || !bytes.Equal(got, want) {
			t.Fatalf("%x: a stream of %d bytes, %v, want %d", p, len(got), err, len(want))
		}
	}
	if good < 100 {
		t.Errorf("only %d messages were whole", good)
	}
}
