package wire_test

import (
	"bytes"
	"compress/flate"
	"fmt"
	"io"
	"math/rand/v2"
	"strings"
	"testing"
	"unsafe"

	"pgregory.net/rapid"

	"github.com/sluice-push/sluice/websocket/wire"
)

// pair is a client and a server after a handshake.
type pair struct{ client, server *wire.Codec }

// connect returns a pair with the given options, which it negotiates by the extension headers.
func connect(tb testing.TB, client, server *wire.Options) pair {
	tb.Helper()
	ce, se := wire.NewEndpoint(client), wire.NewEndpoint(server)
	p := pair{new(wire.Codec), new(wire.Codec)}
	se.Handshake(p.server)
	var extra []string
	if offer := ce.Offer(); offer != "" {
		extra = append(extra, "Sec-WebSocket-Extensions: "+offer)
	}
	in := []byte(request(extra...))
	if _, n, err := p.server.Decode(in); n != len(in) || err != nil {
		tb.Fatal(n, err)
	}
	var answer []string
	for line := range strings.SplitSeq(string(p.server.AppendReplies(nil)), "\r\n") {
		if value, ok := strings.CutPrefix(line, "Sec-WebSocket-Extensions: "); ok {
			answer = append(answer, value)
		}
	}
	if err := ce.Client(p.client, &wire.ClientResponse{Extensions: strings.Join(answer, ", ")}); err != nil {
		tb.Fatal(err, answer)
	}
	return p
}

// drawCompression generates the options of one side.
func drawCompression(t *rapid.T, name string) *wire.Compression {
	if rapid.IntRange(0, 4).Draw(t, name+" off") == 0 {
		return nil
	}
	return &wire.Compression{
		Level: rapid.IntRange(0, 9).Draw(t, name+" level"), Threshold: rapid.SampledFrom([]int{-1, 0, 20}).Draw(t, name+" threshold"),
		Takeover: rapid.Bool().Draw(t, name+" takeover"), PeerTakeover: rapid.Bool().Draw(t, name+" peer takeover"),
		WindowBits: rapid.SampledFrom([]int{0, 8, 9, 12, 15}).Draw(t, name+" window"), ReceiveOnly: rapid.IntRange(0, 5).Draw(t, name+" mute") == 0,
		PeerWindowBits: rapid.SampledFrom([]int{0, 8, 10, 15}).Draw(t, name+" peer window"),
	}
}

// send generates one message and appends it to the stream, in one frame or in fragments.
func send(t *rapid.T, c *wire.Codec, stream []byte) ([]byte, message) {
	op := rapid.SampledFrom([]wire.Opcode{wire.OpText, wire.OpBinary}).Draw(t, "kind")
	data := strings.Repeat(rapid.StringN(0, 40, -1).Draw(t, "data"), rapid.SampledFrom([]int{0, 1, 1, 3, 50, 2000}).Draw(t, "times"))
	var err error
	if rapid.IntRange(0, 2).Draw(t, "fragmented") > 0 {
		stream, err = c.AppendMessage(stream, op, []byte(data))
	} else {
		f, rest := c.Fragments(op), []byte(data)
		for range rapid.IntRange(0, 3).Draw(t, "cuts") {
			n := rapid.IntRange(0, len(rest)).Draw(t, "cut")
			if stream, err = f.Append(stream, rest[:n], false); err != nil {
				t.Fatal(err)
			}
			rest = rest[n:]
			if stream, err = c.AppendControl(stream, wire.OpPing, []byte("between")); err != nil {
				t.Fatal(err)
			}
		}
		stream, err = f.Append(stream, rest, true)
	}
	if err != nil {
		t.Fatal(err)
	}
	return stream, message{op == wire.OpText, data}
}

// TestPairs: whatever two sides agree on, each gets the messages of the other, and holds nothing between them.
func TestPairs(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		const large = 1 << 20
		p := connect(t,
			&wire.Options{MaxMessage: large, Compression: drawCompression(rt, "client")},
			&wire.Options{MaxMessage: large, Compression: drawCompression(rt, "server")})
		for range rapid.IntRange(1, 8).Draw(rt, "turns") {
			from, to := p.client, p.server
			if rapid.Bool().Draw(rt, "direction") {
				from, to = to, from
			}
			var stream []byte
			var want []message
			for range rapid.IntRange(1, 4).Draw(rt, "messages") {
				var m message
				stream, m = send(rt, from, stream)
				want = append(want, m)
			}
			random := rand.New(rand.NewPCG(1, rapid.Uint64().Draw(rt, "seed")))
			got := feed(t, to, stream, false, func() int { return 1 + random.IntN(1+len(stream)/2) })
			if fmt.Sprint(got.messages) != fmt.Sprint(want) || got.verdict != "" || got.used != len(stream) {
				rt.Fatalf("got %v, want %v", got, outcome{messages: want, used: len(stream)})
			}
			to.Release()
			if to.Working() {
				rt.Fatal("something is held between two messages")
			}
		}
	})
}

// collector joins pieces, as a reader of messages does, with compress/flate.
type collector struct {
	messages []message
	raw      []byte
	window   []byte // what was inflated with the context of earlier messages
}

func (c *collector) add(t rapid.TB, piece []byte) {
	tag, payload := piece[0], piece[1:]
	c.raw = append(c.raw, payload...)
	if op := wire.Opcode(tag & wire.TagOpcode); op != wire.OpText && op != wire.OpBinary {
		t.Fatalf("a piece of opcode %v", op)
	}
	if tag&wire.TagLast == 0 {
		return
	}
	data := c.raw
	if tag&wire.TagDeflated != 0 {
		tail := "\x00\x00\xff\xff\x01\x00\x00\xff\xff"
		var err error
		data, err = io.ReadAll(flate.NewReaderDict(io.MultiReader(bytes.NewReader(c.raw), strings.NewReader(tail)), c.window))
		if err != nil {
			t.Fatal(err)
		}
		c.window = append(c.window, data...)
		c.window = c.window[max(0, len(c.window)-32<<10):]
	}
	c.messages = append(c.messages, message{wire.Opcode(tag&wire.TagOpcode) == wire.OpText, string(data)})
	c.raw = c.raw[:0:0]
}

// TestPieces: a message in pieces is the same wherever it is cut, and each piece is returned as soon as its bytes have arrived.
func TestPieces(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		p := connect(t, &wire.Options{Compression: drawCompression(rt, "client")},
			&wire.Options{MaxMessage: 1 << 20, Pieces: true, Compression: drawCompression(rt, "server")})
		var stream []byte
		var want []message
		for range rapid.IntRange(1, 5).Draw(rt, "messages") {
			var m message
			stream, m = send(rt, p.client, stream)
			want = append(want, m)
		}
		var got collector
		used, given := 0, 0
		for have := 0; have < len(stream); {
			have = min(have+rapid.SampledFrom([]int{1, 1, 2, 7, 100, 5000, 1 << 20}).Draw(rt, "arrived"), len(stream))
			for {
				piece, n, err := p.server.Decode(stream[used:have])
				p.server.AppendReplies(nil)
				if err != nil {
					rt.Fatal(err)
				}
				if piece != nil {
					given += len(piece) - 1
					got.add(rt, piece)
				}
				if n <= 0 {
					if have-used > 14 {
						rt.Fatalf("%d bytes are kept back", have-used)
					}
					break
				}
				used += n
			}
		}
		if fmt.Sprint(got.messages) != fmt.Sprint(want) || used != len(stream) {
			rt.Fatalf("got %v, want %v; used %d of %d", got.messages, want, used, len(stream))
		}
		if p.server.Working() {
			rt.Fatal("something is held between two messages")
		}
	})
}

// TestSize checks the size of an idle connection that the documentation states.
func TestSize(t *testing.T) {
	if n := unsafe.Sizeof(wire.Codec{}); n > 40 {
		t.Errorf("a Codec has %d bytes", n)
	}
}
