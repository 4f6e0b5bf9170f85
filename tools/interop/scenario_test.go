// Package interop_test runs package websocket against other implementations: ws and undici under Node, Chromium, websockets and aiohttp under
// Python, and tungstenite.
//
// A scenario describes both sides of one connection. The peers, in testdata, are small programs. Each reads a scenario as a line of JSON,
// connects or accepts, and sends the messages. It answers with a line that says which messages arrived and how the connection ended. The peers
// do not know what should arrive: the test compares their answers, and the events of our side, with the scenario. The same few lines in every
// language generate the payloads.
//
// `go test` runs the cheapest peer. `make interop` runs all peers in every way in which our side can run, and prints a table.
package interop_test

import (
	"crypto/sha1"
	"encoding/hex"
	"strings"

	"github.com/sluice-push/sluice/websocket"
)

// message is a message to send: repetitive text, digits that do not repeat (which are text too), or binary data. A message with several pieces
// is sent in at least that many frames, if the sender can do that.
type message struct {
	Kind   string `json:"kind"`
	Size   int    `json:"size"`
	Pieces int    `json:"pieces"`
}

// opcode returns the opcode of the message.
func (m message) opcode() websocket.Opcode {
	if m.Kind == "binary" {
		return websocket.OpBinary
	}
	return websocket.OpText
}

// payload generates the data of a message.
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

// arrival describes a message that arrived.
type arrival struct {
	Kind string `json:"kind"`
	Size int    `json:"size"`
	SHA1 string `json:"sha1"`
}

// digest describes a received message.
func digest(op websocket.Opcode, data []byte) arrival {
	kind := "text"
	if op == websocket.OpBinary {
		kind = "binary"
	}
	sum := sha1.Sum(data)
	return arrival{kind, len(data), hex.EncodeToString(sum[:])}
}

// arrivals returns the arrivals that messages must lead to.
func arrivals(messages []message) []arrival {
	var list []arrival
	for _, m := range messages {
		list = append(list, digest(m.opcode(), payload(m)))
	}
	return list
}

// deflate is the compression setting of a side.
type deflate struct {
	Takeover bool `json:"takeover"`
	Bits     int  `json:"bits"` // the window, in both directions; zero is the default of the implementation
}

// closing is a close frame. Code zero means a frame without a code.
type closing struct {
	Code   uint16 `json:"code"`
	Reason string `json:"reason"`
}

// scenario describes both sides of a connection.
type scenario struct {
	name         string
	needs        ability // what a peer must be able to do
	ours, theirs side
	closesEarly  bool    // the side that closes does not wait for messages of the other side
	abrupt       bool    // our side ends the connection without a close frame
	can          ability // what the peer is able to do
}

// side describes one side. It sends a ping, then messages. It then waits for the messages of the other side and the pong. At last it starts the
// closing handshake, or leaves that to the other side.
type side struct {
	ping    string
	send    []message
	deflate *deflate
	close   *closing
}

// ability is a set of features that the interface of a peer may have.
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
	// The sizes around which a frame's header encodes the length in another way.
	texts    = []message{{"text", 0, 1}, {"text", 1, 1}, {"text", 125, 1}, {"text", 126, 1}, {"text", 65535, 1}, {"text", 65536, 1}}
	binaries = []message{
		{"binary", 0, 1}, {"binary", 1, 1}, {"binary", 125, 1}, {"binary", 126, 1}, {"binary", 65535, 1}, {"binary", 65536, 1},
	}
	large  = []message{{"text", 1 << 20, 1}, {"binary", 1 << 20, 1}}
	pieces = []message{{"text", 100_000, 7}, {"binary", 100_000, 5}, {"digits", 40, 3}, {"text", 2, 2}}
	// Equal messages compress well only if the sender refers to earlier messages.
	repeated = []message{
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
	longest = strings.Repeat("ü", 61) + "." // 123 bytes, the longest reason of a close frame
)

// scenarios returns the scenarios, which every peer runs if it has the abilities.
func scenarios() []scenario {
	noTakeover, takeover, small := &deflate{}, &deflate{Takeover: true}, &deflate{Takeover: true, Bits: 9}
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
		compressed("deflate", repeated, noTakeover, noTakeover),
		compressed("deflate, with context", repeated, takeover, takeover),
		compressed("deflate, we want 512 bytes", repeated, small, takeover),
		compressed("deflate, they want 512 bytes", repeated, takeover, small),
		compressed("deflate, sizes", texts, takeover, takeover),
		compressed("deflate, large", large, takeover, takeover),
		compressed("deflate, fragments", pieces, takeover, takeover),
		compressed("deflate, we do not", repeated, nil, takeover),
		theirClose("1000", 0, *done),
		theirClose("3001, ü", 0, closing{3001, "Grüße"}),
		theirClose("4999, 123 bytes", 0, closing{4999, longest}),
		theirClose("1011", anyCode, closing{1011, "it broke"}),
		theirClose("no code", noCode, closing{}),
		{name: "they close: behind 2 MiB", theirs: side{send: large, close: done}, closesEarly: true},
		ourClose("1000", *done),
		ourClose("1001, no reason", closing{1001, ""}),
		ourClose("1011", closing{1011, "it broke"}),
		ourClose("3001, ü", closing{3001, "Grüße"}),
		ourClose("4999, 123 bytes", closing{4999, longest}),
		{name: "we close: behind 2 MiB", ours: side{send: large, close: done}, closesEarly: true},
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
