package wire_test

import (
	"encoding/binary"
	"errors"
	"io"
	"math"
	"reflect"
	"strings"
	"testing"

	"github.com/sluice-push/sluice/websocket/wire"
)

// limits are small, so that tests reach them.
var limits = &wire.Options{MaxMessage: 1000, MaxFragments: 4}

// TestFrames checks the frames that the rules of RFC 6455 §5 allow.
func TestFrames(t *testing.T) {
	long, longer := strings.Repeat("x", 126), strings.Repeat("é", 500)
	for _, tt := range []struct {
		name, stream string
		messages     []message
		replies      string
	}{
		{name: "§5.7 a single masked text message", stream: "\x81\x85\x37\xfa\x21\x3d\x7f\x9f\x4d\x51\x58", messages: []message{{true, "Hello"}}},
		{name: "§5.2 empty text", stream: client(fin|text, ""), messages: []message{{true, ""}}},
		{name: "§5.2 empty binary", stream: client(fin|bin, ""), messages: []message{{false, ""}}},
		{name: "§5.2 longest 7-bit length", stream: client(fin|text, long[1:]), messages: []message{{true, long[1:]}}},
		{name: "§5.2 shortest 16-bit length", stream: client(fin|text, long), messages: []message{{true, long}}},
		{name: "§5.3 key of zeros", stream: clientWith(fin|text, "plain", [4]byte{}), messages: []message{{true, "plain"}}},
		{name: "the largest message", stream: client(fin|text, longer), messages: []message{{true, longer}}},
		{name: "§5.6 binary is any bytes", stream: client(fin|bin, "\xff\xfe\x00"), messages: []message{{false, "\xff\xfe\x00"}}},
		{
			name: "messages one after the other", stream: client(fin|text, "a") + client(fin|bin, "b") + client(fin|text, "c"),
			messages: []message{{true, "a"}, {false, "b"}, {true, "c"}},
		},
		{
			name: "§5.4 fragments", stream: client(text, "Hel") + client(cont, "lo") + client(fin|cont, "!"),
			messages: []message{{true, "Hello!"}},
		},
		{
			name: "§5.4 empty fragments", stream: client(bin, "") + client(cont, "") + client(fin|cont, ""),
			messages: []message{{false, ""}},
		},
		{
			name: "§5.4 empty fragments before the last", stream: client(bin, "") + client(cont, "") + client(fin|cont, "end"),
			messages: []message{{false, "end"}},
		},
		{
			name: "§5.4 control frames between fragments", stream: client(text, "a") + client(fin|ping, "p") + client(fin|pong, "") + client(fin|cont, "b"),
			messages: []message{{true, "ab"}}, replies: server(fin|pong, "p"),
		},
		{
			name:     "as many fragments as are allowed, twice",
			stream:   strings.Repeat(client(bin, "a")+client(cont, "b")+client(cont, "c")+client(fin|cont, "d"), 2),
			messages: []message{{false, "abcd"}, {false, "abcd"}},
		},
		{
			name: "§5.4 control frame inside the largest message", stream: client(bin, longer) + client(fin|ping, "p") + client(fin|cont, ""),
			messages: []message{{false, longer}}, replies: server(fin|pong, "p"),
		},
		{
			name: "§5.4 the largest message in fragments", stream: client(bin, longer[:400]) + client(cont, longer[400:]) + client(fin|cont, ""),
			messages: []message{{false, longer}},
		},
		{
			name: "§8.1 a character cut between fragments", stream: client(text, "\xf0\x9f") + client(cont, "\x98") + client(fin|cont, "\x80é"),
			messages: []message{{true, "😀é"}},
		},
		{name: "§5.5.2 ping is answered with its payload", stream: client(fin|ping, "now"), replies: server(fin|pong, "now")},
		{name: "§5.5.2 empty ping", stream: client(fin|ping, ""), replies: server(fin|pong, "")},
		{name: "§5.5.2 longest ping", stream: client(fin|ping, long[1:]), replies: server(fin|pong, long[1:])},
		{name: "§5.5.3 pong that nobody asked for", stream: client(fin|pong, "\xff")},
	} {
		t.Run(tt.name, func(t *testing.T) {
			want := outcome{messages: tt.messages, replies: tt.replies, used: len(tt.stream)}
			got := agree(t, func() *wire.Codec { return wire.New(limits) }, []byte(tt.stream))
			if !reflect.DeepEqual(got, want) {
				t.Errorf("got\n%v\nwant\n%v", got, want)
			}
		})
	}
}

// TestViolations checks the rules whose violation fails a connection (RFC 6455 §7.1.7). Bytes that follow must not matter. The stream ends at
// the first byte that shows the violation.
func TestViolations(t *testing.T) {
	const valid = "\x81\x82" // text, masked, 2 bytes
	for _, tt := range []struct {
		name, stream string
		code         uint16
	}{
		{"§5.2 RSV1", "\xc1", 1002},
		{"§5.2 RSV2", "\xa1", 1002},
		{"§5.2 RSV3 on a control frame", "\x99", 1002},
		{"§5.2 reserved data opcode", "\x83", 1002},
		{"§5.2 last reserved data opcode", "\x87", 1002},
		{"§5.2 reserved control opcode", "\x8b", 1002},
		{"§5.2 last reserved control opcode", "\x8f", 1002},
		{"§5.1 not masked", "\x81\x05", 1002},
		{"§5.1 control frame not masked", "\x89\x00", 1002},
		{"§5.2 16-bit length of 125", "\x82\xfe\x00\x7d", 1002},
		{"§5.2 64-bit length of 65535", "\x82\xff\x00\x00\x00\x00\x00\x00\xff\xff", 1002},
		{"§5.2 64-bit length with the top bit", "\x82\xff\x80\x00\x00\x00\x00\x00\x00\x00", 1002},
		{"§5.2 all bits of the length", "\x82\xff\xff\xff\xff\xff\xff\xff\xff\xff", 1002},
		{"§10.4 16-bit length above the limit", "\x82\xfe\x03\xe9", 1009},
		{"§10.4 64-bit length above the limit", "\x82\xff\x00\x00\x00\x00\x00\x01\x00\x00", 1009},
		{"§10.4 largest length", "\x82\xff\x7f\xff\xff\xff\xff\xff\xff\xff", 1009},
		{"§10.4 fragments above the limit", client(bin, strings.Repeat("x", 900)) + "\x80\xe5", 1009},
		{"too many fragments", client(bin, "") + client(cont, "") + client(cont, "") + client(cont, "") + "\x80", 1008},
		{"§5.5 long ping", "\x89\xfe", 1002},
		{"§5.5 longer close", "\x88\xff", 1002},
		{"§5.5 fragmented ping", "\x09", 1002},
		{"§5.5 fragmented close", "\x08", 1002},
		{"§5.4 continuation of nothing", "\x80", 1002},
		{"§5.4 continuation after the last fragment", client(text, "a") + client(fin|cont, "b") + "\x80", 1002},
		{"§5.4 message inside a message", client(text, "a") + "\x81", 1002},
		{"§5.4 fragmented message inside a message", client(text, "a") + "\x02", 1002},
		{"§8.1 bad byte", client(fin|text, "ab\xff"), 1007},
		{"§8.1 bad byte in an unfinished frame", client(fin|text, "\xc0"+strings.Repeat("x", 900))[:9], 1007},
		{"§8.1 bad second byte in an unfinished frame", client(fin|text, "a\xed\xa0"+strings.Repeat("x", 50))[:9], 1007},
		{"§8.1 bad byte far into an unfinished frame", client(fin|text, strings.Repeat("é", 300)+"\xff"+strings.Repeat("x", 50))[:609], 1007},
		{"§8.1 bad byte in an unfinished fragment", client(text, "ok\xe2") + client(cont, "(---")[:7], 1007},
		{"§8.1 surrogate across fragments", client(text, "\xed") + client(cont, "\xa0\x80"), 1007},
		{"§8.1 above U+10FFFF", client(fin|text, "\xf4\x90\x80\x80"), 1007},
		{"§8.1 overlong", client(fin|text, "\xc0\xaf"), 1007},
		{"§8.1 text ends inside a character", client(fin|text, "\xe2\x82"), 1007},
		{"§8.1 last fragment ends inside a character", client(text, "\xe2") + client(fin|cont, "\x82"), 1007},
		{"§5.5.1 close with half a code", client(fin|closing, "\x03"), 1002},
		{"§5.5.1 close reason is not UTF-8", client(fin|closing, closeBody(1000, "\xff")), 1007},
	} {
		t.Run(tt.name, func(t *testing.T) {
			open := func() *wire.Codec { return wire.New(limits) }
			got := agree(t, open, []byte(tt.stream))
			end := verdict(t, open(), tt.stream)
			if end.Code != tt.code || end.Remote {
				t.Fatalf("ended with %d %q, remote %t; want code %d", end.Code, end.Reason, end.Remote, tt.code)
			}
			if want := server(fin|closing, closeBody(tt.code, end.Reason)); got.replies != want {
				t.Errorf("replies %q, want %q", got.replies, want)
			}
			more := agree(t, open, []byte(tt.stream+valid+strings.Repeat("\x00", 100)))
			if more.String() != got.String() {
				t.Errorf("with bytes behind it\n%v\nwithout\n%v", more, got)
			}
			if errors.Is(end, io.EOF) {
				t.Error("a broken rule is no clean end")
			}
		})
	}
}

// verdict feeds the stream whole and returns the error at its end.
func verdict(tb testing.TB, c *wire.Codec, stream string) *wire.CloseError {
	tb.Helper()
	for in := []byte(stream); ; {
		_, n, err := c.Decode(in)
		if end, ok := errors.AsType[*wire.CloseError](err); ok {
			return end
		}
		if err != nil || n <= 0 {
			tb.Fatalf("Decode returned %d, %v; want a *CloseError", n, err)
		}
		in = in[n:]
	}
}

// TestNeed: Decode states the number of missing bytes only if none of them can break a rule.
func TestNeed(t *testing.T) {
	for _, tt := range []struct {
		name, stream string
		n            int
	}{
		{"nothing", "", 0},
		{"half a header", client(fin|bin, "x")[:1], 0},
		{"header without key", client(fin|bin, "x")[:4], 0},
		{"binary payload", client(fin|bin, "0123456789")[:6+3], -7},
		{"empty part of a binary payload", client(fin|bin, strings.Repeat("x", 300))[:8], -300},
		{"control payload", client(fin|ping, "0123")[:6], -4},
		{"text payload", client(fin|text, "0123")[:6], 0},
	} {
		t.Run(tt.name, func(t *testing.T) {
			msg, n, err := wire.New(nil).Decode([]byte(tt.stream))
			if msg != nil || n != tt.n || err != nil {
				t.Errorf("Decode returned %q, %d, %v; want %d", msg, n, err, tt.n)
			}
		})
	}
}

// TestLimitsOff: without limits an announced length still allocates nothing.
func TestLimitsOff(t *testing.T) {
	c := wire.New(&wire.Options{MaxMessage: -1, MaxFragments: -1})
	header := func(length int) []byte { // of a frame that is never going to end
		return binary.BigEndian.AppendUint64([]byte{bin, 0x80 | 127}, uint64(length))
	}
	_, n, err := c.Decode(append(header(math.MaxInt-0xff), "\x00\x00\x00\x00abc"...))
	if want := -(math.MaxInt - 0xff - 3); n != want || err != nil {
		t.Errorf("Decode returned %d, %v; want %d", n, err, want)
	}
	if end := verdict(t, c, string(header(math.MaxInt))); end.Code != wire.CloseTooBig {
		t.Errorf("a frame that with its header no int can measure ended with %v", end)
	}
	c = wire.New(&wire.Options{MaxFragments: -1})
	stream := client(bin, "") + strings.Repeat(client(cont, ""), 5000) + client(fin|cont, "x")
	got := feed(t, c, []byte(stream), false, func() int { return 4000 })
	if len(got.messages) != 1 || got.verdict != "" {
		t.Errorf("5,002 fragments: %v", got)
	}
}

// By default a message may have many frames if they are not tiny.
func TestManyFragments(t *testing.T) {
	for _, tt := range []struct {
		name         string
		size, frames int
		ok           bool
	}{
		{"4 MiB in frames of 64 bytes", 64, 65_536, true},
		{"frames of 16 bytes", 16, 70_000, true},
		{"as many of one byte as may be", 1, 1092, true},
		{"one more", 1, 1093, false},
		{"as many empty ones as may be", 0, 1024, true},
		{"one more of those", 0, 1025, false},
	} {
		t.Run(tt.name, func(t *testing.T) {
			payload := strings.Repeat("x", tt.size)
			stream := client(bin, payload) + strings.Repeat(client(cont, payload), tt.frames-2) + client(fin|cont, payload)
			got := feed(t, wire.New(&wire.Options{MaxMessage: 4 << 20}), []byte(stream), false, func() int { return 4000 })
			if tt.ok != (got.verdict == "") || tt.ok && (len(got.messages) != 1) {
				t.Errorf("%d messages, %q", len(got.messages), got.verdict)
			}
		})
	}
}

// TestDefaults checks the default limits.
func TestDefaults(t *testing.T) {
	const size, fragments = 64 << 10, 1024
	for _, tt := range []struct {
		name, stream string
		code         uint16
	}{
		{"largest message", client(fin|bin, strings.Repeat("x", size)), 0},
		{"a byte more", client(fin|bin, strings.Repeat("x", size+1)), wire.CloseTooBig},
		{"most fragments", client(bin, "") + strings.Repeat(client(cont, ""), fragments-2) + client(fin|cont, ""), 0},
		{"one more", client(bin, "") + strings.Repeat(client(cont, ""), fragments-1) + client(fin|cont, ""), wire.ClosePolicyViolation},
	} {
		t.Run(tt.name, func(t *testing.T) {
			c := wire.New(nil)
			got := feed(t, c, []byte(tt.stream), false, func() int { return len(tt.stream) })
			if ok := tt.code == 0; ok != (got.verdict == "") || ok != (len(got.messages) == 1) {
				t.Fatalf("got %v", got)
			}
			if _, _, err := c.Decode(nil); tt.code != 0 {
				if end, ok := errors.AsType[*wire.CloseError](err); !ok || end.Code != tt.code {
					t.Errorf("ended with %v, want code %d", err, tt.code)
				}
			}
		})
	}
}

// TestBytesOfMessages: an unfragmented message is a part of the input, and an append to it does not overwrite the next frame.
func TestBytesOfMessages(t *testing.T) {
	in := []byte(client(fin|bin, "abc") + client(fin|bin, "def"))
	c := wire.New(nil)
	msg, n, err := c.Decode(in)
	if err != nil || string(msg) != "abc" || &msg[0] != &in[6] {
		t.Fatalf("Decode returned %q, %v, which should be a part of the input", msg, err)
	}
	_ = append(msg, "overwritten"...)
	if next, _, err := c.Decode(in[n:]); string(next) != "def" || err != nil {
		t.Errorf("after an append to the first message the second is %q, %v", next, err)
	}
}

// TestIdleSize checks the memory of an idle connection.
func TestIdleSize(t *testing.T) {
	if size := reflect.TypeFor[wire.Codec]().Size(); size >= 200 {
		t.Errorf("a Codec takes %d bytes", size)
	}
}
