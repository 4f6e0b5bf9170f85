package wire_test

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/sluice-push/sluice/websocket/wire"
)

// message is a result of Decode.
type message struct {
	text bool
	data string
}

// outcome is the visible result of a codec that was fed a stream, for the peer and the application.
type outcome struct {
	messages []message
	replies  string
	used     int    // bytes reported as used
	verdict  string // the error; empty while the connection lives
}

func (o outcome) String() string {
	var b strings.Builder
	for _, m := range o.messages {
		fmt.Fprintf(&b, "message text=%t %d %.40q\n", m.text, len(m.data), m.data)
	}
	fmt.Fprintf(&b, "replies %q\nused %d\nverdict %q\n", o.replies, o.used, o.verdict)
	return b.String()
}

// feed feeds the stream to a new codec in pieces; next chooses their sizes. It also checks the promises of Decode about unread bytes: they do
// not change, may move, and are not needed before the stated number has arrived.
func feed(tb testing.TB, c *wire.Codec, stream []byte, patient bool, next func() int) outcome {
	tb.Helper()
	var out outcome
	enough := 0
	for have := 0; have < len(stream); {
		have = min(have+max(next(), 1), len(stream))
		if patient && have < enough {
			continue
		}
		for {
			in := bytes.Clone(stream[out.used:have])
			msg, n, err := c.Decode(in)
			if msg != nil {
				out.messages = append(out.messages, message{c.Text(), string(msg)})
			}
			out.replies = string(c.AppendReplies([]byte(out.replies)))
			if err != nil {
				if n != 0 || msg != nil {
					tb.Fatalf("Decode returned %q, %d with the error %v", msg, n, err)
				}
				if _, _, again := c.Decode(in); again == nil || again.Error() != err.Error() {
					tb.Fatalf("after %v the next Decode returned %v", err, again)
				}
				out.verdict = err.Error()
				return out
			}
			if rest := stream[out.used+max(n, 0) : have]; !bytes.Equal(in[max(n, 0):], rest) {
				tb.Fatalf("unread bytes changed: %q, were %q", in[max(n, 0):], rest)
			}
			if n <= 0 {
				enough = have - n
				break
			}
			out.used += n
		}
	}
	return out
}

// agree feeds the stream whole, byte by byte and in random pieces. It requires the same outcome each time and returns it.
func agree(tb testing.TB, open func() *wire.Codec, stream []byte) outcome {
	tb.Helper()
	whole := feed(tb, open(), stream, false, func() int { return len(stream) })
	compare := func(how string, got outcome) {
		tb.Helper()
		if got.String() != whole.String() {
			tb.Fatalf("fed %s:\n%v\nfed whole:\n%v", how, got, whole)
		}
		for i := range got.messages {
			if got.messages[i] != whole.messages[i] {
				tb.Fatalf("fed %s: message %d is %q; fed whole: %q", how, i, got.messages[i].data, whole.messages[i].data)
			}
		}
	}
	one := func() int { return 1 }
	if len(stream) <= 4096 { // quadratic, since each call gets its own copy
		compare("byte by byte", feed(tb, open(), stream, false, one))
		compare("byte by byte, waiting as told", feed(tb, open(), stream, true, one))
	}
	for seed := range uint64(3) {
		random := rand.New(rand.NewPCG(seed, uint64(len(stream))))
		longest := 1 + len(stream)/[]int{20, 5, 2}[seed]
		compare(fmt.Sprintf("at random places, seed %d", seed),
			feed(tb, open(), stream, seed == 1, func() int { return 1 + random.IntN(longest) }))
	}
	return whole
}

// The frames of clients and servers are built here by hand, without the package, so that the two check each other.
const (
	fin     = 0x80
	cont    = 0x0
	text    = 0x1
	bin     = 0x2
	closing = 0x8
	ping    = 0x9
	pong    = 0xA
)

// rfcKey is the masking key of the examples in RFC 6455 §5.7.
var rfcKey = [4]byte{0x37, 0xfa, 0x21, 0x3d}

// client builds a masked frame as a client sends it.
func client(first byte, payload string) string {
	return clientWith(first, payload, rfcKey)
}

func clientWith(first byte, payload string, key [4]byte) string {
	b := []byte{first}
	switch n := len(payload); {
	case n < 126:
		b = append(b, 0x80|byte(n))
	case n < 1<<16:
		b = binary.BigEndian.AppendUint16(append(b, 0x80|126), uint16(n))
	default:
		b = binary.BigEndian.AppendUint64(append(b, 0x80|127), uint64(n))
	}
	b = append(b, key[:]...)
	for i := range len(payload) {
		b = append(b, payload[i]^key[i%4])
	}
	return string(b)
}

// server builds a short unmasked frame as a server sends it.
func server(first byte, payload string) string {
	return string([]byte{first, byte(len(payload))}) + payload
}

// closeBody is the payload of a close frame.
func closeBody(code uint16, reason string) string {
	return string(binary.BigEndian.AppendUint16(nil, code)) + reason
}
