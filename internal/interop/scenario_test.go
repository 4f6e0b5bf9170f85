// Package interop_test runs package websocket against other implementations: ws and undici under Node, Chromium, websockets and
// aiohttp under Python, and tungstenite.
//
// A scenario is what both sides of one connection do. The peers, in testdata, are small programs that read a scenario as a line of
// JSON, connect or accept, send what it says, and answer with a line that says what arrived and how the connection ended. They know
// nothing of what should arrive: that is compared here, with what our side was told. Payloads are made by the same few lines in every
// language.
//
// `go test` runs the cheapest peer. `make interop` runs all, in every way in which our side can be run, and prints a table.
package interop_test

import (
	"crypto/sha1"
	"encoding/hex"
	"strings"

	"github.com/sluice-push/sluice/websocket"
)

// message is one that is sent: text that repeats itself, or digits that do not, which are text too, or binary. With more than one piece it
// is sent in so many frames or more, if the sender is able to.
type message struct {
	Kind   string `json:"kind"`
	Size   int    `json:"size"`
	Pieces int    `json:"pieces"`
}

// opcode is how it is sent.
func (m message) opcode() websocket.Opcode {
	if m.Kind == "binary" {
		return websocket.OpBinary
	}
	return websocket.OpText
}

// payload makes the data of a message.
func payload(m message) []byte {
	const line = "Grüße, 世界 🎉 "
	if m.Kind == "text" {
		return []byte(strings.Repeat(line, m.Size/len(line)) + strings.Repeat(".", m.Size%len(line)))
	}
	data := make([]byte, m.Size)
	x := 1
	for i := range data {
		x = (x*75 + 74) % 65537
		data[i] = byte(x)
		if m.Kind == "digits" {
			data[i] = "0123456789abcdef"[x>>4&15]
		}
	}
	return data
}

// arrival is a message as it arrived.
type arrival struct {
	Kind string `json:"kind"`
	Size int    `json:"size"`
	SHA1 string `json:"sha1"`
}

// digest says what arrived.
func digest(op websocket.Opcode, data []byte) arrival {
	kind := "text"
	if op == websocket.OpBinary {
		kind = "binary"
	}
	sum := sha1.Sum(data)
	return arrival{kind, len(data), hex.EncodeToString(sum[:])}
}

// arrivals are what messages should look like when they have arrived.
func arrivals(messages []message) []arrival {
	var list []arrival
	for _, m := range messages {
		list = append(list, digest(m.opcode(), payload(m)))
	}
	return list
}

// deflate is how a side is set up to compress.
type deflate struct {
	Takeover bool `json:"takeover"`
	Bits     int  `json:"bits"` // the window, in both directions; zero is whatever the side does by itself
}

// closing is a close frame. Code zero is one without a code.
type closing struct {
	Code   uint16 `json:"code"`
	Reason string `json:"reason"`
}

// scenario is what both sides of a connection do.
type scenario struct {
	name         string
	needs        ability // what a peer must be able to do
	ours, theirs side
	behind       bool    // who closes does not wait for messages of the other side
	abrupt       bool    // our side ends the connection without a close frame
	can          ability // what the peer is able to do
}

// side is what one side does: send a ping, then messages, then wait for those of the other side and the pong, and then begin the closing
// handshake, or leave that to the other side.
type side struct {
	ping    string
	send    []message
	deflate *deflate
	close   *closing
}

// ability is what the interface of a peer can do.
type ability uint

const (
	fragments     ability = 1 << iota // sends messages in pieces
	pings                             // sends pings and shows pongs
	compresses                        // compresses what it sends
	inflates                          // agrees to compression
	windows                           // asks for small windows, as a client
	anyCode                           // closes with codes that browsers do not let pages send
	noCode                            // closes without a code
	serverWindows                     // asks for small windows, as a server
)

var (
	// sizes are those at which the length in a frame's header takes another form.
	texts    = []message{{"text", 0, 1}, {"text", 1, 1}, {"text", 125, 1}, {"text", 126, 1}, {"text", 65535, 1}, {"text", 65536, 1}}
	binaries = []message{
		{"binary", 0, 1}, {"binary", 1, 1}, {"binary", 125, 1}, {"binary", 126, 1}, {"binary", 65535, 1}, {"binary", 65536, 1},
	}
	large  = []message{{"text", 1 << 20, 1}, {"binary", 1 << 20, 1}}
	pieces = []message{{"text", 100_000, 7}, {"binary", 100_000, 5}, {"digits", 40, 3}, {"text", 2, 2}}
	// Alike messages are small only if a sender refers to earlier ones.
	alike = []message{
		{"digits", 1000, 1},
		{"digits", 1000, 1},
		{"digits", 1000, 1},
		{"digits", 1000, 1},
		{"digits", 1000, 1},
		{"digits", 1000, 1},
		{"digits", 1000, 1},
		{"digits", 1000, 1},
		{"digits", 1000, 1},
		{"digits", 1000, 1},
	}
	done    = &closing{1000, "done"}
	longest = strings.Repeat("ü", 61) + "." // 123 bytes
)

// scenarios are what is tried with every peer that is able to.
func scenarios() []scenario {
	alone, takeover, small := &deflate{}, &deflate{Takeover: true}, &deflate{Takeover: true, Bits: 9}
	both := func(name string, messages []message) scenario {
		return scenario{name: name, ours: side{send: messages}, theirs: side{send: messages, close: done}}
	}
	compressed := func(name string, messages []message, ours, theirs *deflate) scenario {
		s := both(name, messages)
		s.ours.deflate, s.theirs.deflate = ours, theirs
		return s
	}
	theirClose := func(name string, needs ability, c closing) scenario {
		return scenario{name: "they close: " + name, needs: needs, theirs: side{close: &c}}
	}
	ourClose := func(name string, c closing) scenario {
		return scenario{name: "we close: " + name, ours: side{close: &c}}
	}
	list := []scenario{
		both("text", texts),
		both("binary", binaries),
		both("large, 1 MiB", large),
		{name: "fragments of ours", ours: side{send: pieces}, theirs: side{close: done}},
		{name: "fragments of theirs", needs: fragments, ours: side{close: done}, theirs: side{send: pieces}},
		{name: "ping of ours", ours: side{ping: "are you there?", close: done}, theirs: side{send: texts[:1]}},
		{name: "ping of theirs", needs: pings, ours: side{send: texts[:1]}, theirs: side{ping: "are you there?", close: done}},
		compressed("deflate", alike, alone, alone),
		compressed("deflate, with context", alike, takeover, takeover),
		compressed("deflate, we want 512 bytes", alike, small, takeover),
		compressed("deflate, they want 512 bytes", alike, takeover, small),
		compressed("deflate, sizes", texts, takeover, takeover),
		compressed("deflate, large", large, takeover, takeover),
		compressed("deflate, fragments", pieces, takeover, takeover),
		compressed("deflate, we do not", alike, nil, takeover),
		theirClose("1000", 0, *done),
		theirClose("3001, ü", 0, closing{3001, "Grüße"}),
		theirClose("4999, 123 bytes", 0, closing{4999, longest}),
		theirClose("1011", anyCode, closing{1011, "it broke"}),
		theirClose("no code", noCode, closing{}),
		{name: "they close: behind 2 MiB", theirs: side{send: large, close: done}, behind: true},
		ourClose("1000", *done),
		ourClose("1001, no reason", closing{1001, ""}),
		ourClose("1011", closing{1011, "it broke"}),
		ourClose("3001, ü", closing{3001, "Grüße"}),
		ourClose("4999, 123 bytes", closing{4999, longest}),
		{name: "we close: behind 2 MiB", ours: side{send: large, close: done}, behind: true},
		{name: "we close: abruptly", ours: side{send: texts[:1]}, theirs: side{send: texts[:1]}, abrupt: true},
	}
	for i := range list {
		s := &list[i]
		if s.theirs.deflate != nil && s.theirs.deflate.Bits != 0 {
			s.needs |= windows
		}
	}
	return list
}
