package wire_test

import (
	"bytes"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/sluice-push/sluice/websocket/wire"
)

// script is a stream of valid frames with its expected result.
type script struct {
	stream strings.Builder
	want   outcome
}

// drawScript generates messages in random fragments with random control frames between them, and sometimes a close frame.
func drawScript(t *rapid.T) *script {
	s := &script{}
	key := rapid.Custom(func(t *rapid.T) (k [4]byte) {
		for i := range k {
			k[i] = rapid.Byte().Draw(t, "key")
		}
		return k
	})
	frame := func(first byte, payload string) {
		s.stream.WriteString(clientWith(first, payload, key.Draw(t, "key")))
	}
	control := func() {
		payload := string(rapid.SliceOfN(rapid.Byte(), 0, 125).Draw(t, "control"))
		switch {
		case rapid.Bool().Draw(t, "ping"):
			frame(fin|ping, payload)
			s.want.replies += server(fin|pong, payload)
		default:
			frame(fin|pong, payload)
		}
	}
	for range rapid.IntRange(0, 5).Draw(t, "messages") {
		m := message{text: rapid.Bool().Draw(t, "text")}
		op := byte(bin)
		if m.text {
			op = text
			m.data = rapid.StringN(0, 200, -1).Draw(t, "data")
		} else {
			m.data = string(rapid.SliceOfN(rapid.Byte(), 0, 300).Draw(t, "data"))
		}
		s.want.messages = append(s.want.messages, m)
		rest := m.data
		for range rapid.IntRange(0, 3).Draw(t, "cuts") {
			n := rapid.IntRange(0, len(rest)).Draw(t, "cut")
			frame(op, rest[:n])
			rest, op = rest[n:], cont
			for range rapid.IntRange(0, 2).Draw(t, "controls") {
				control()
			}
		}
		frame(fin|op, rest)
		if rapid.Bool().Draw(t, "control") {
			control()
		}
	}
	s.want.used = s.stream.Len()
	if rapid.Bool().Draw(t, "close") {
		code := uint16(rapid.IntRange(3000, 4999).Draw(t, "code"))
		frame(fin|closing, closeBody(code, "bye"))
		s.want.replies += server(fin|closing, closeBody(code, ""))
		s.want.verdict = (&wire.CloseError{Code: code, Reason: "bye", Remote: true}).Error()
	}
	return s
}

// TestRandomFrames: valid frames in any pieces give the expected messages, replies and end.
func TestRandomFrames(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		s := drawScript(rt)
		got := agree(t, func() *wire.Codec { return wire.New(nil) }, []byte(s.stream.String()))
		compareOutcomes(rt, got, s.want)
	})
}

// compareOutcomes compares messages of any length exactly.
func compareOutcomes(t rapid.TB, got, want outcome) {
	t.Helper()
	if got.String() != want.String() {
		t.Fatalf("got\n%v\nwant\n%v", got, want)
	}
	for i := range got.messages {
		if got.messages[i] != want.messages[i] {
			t.Fatalf("message %d is %q, want %q", i, got.messages[i].data, want.messages[i].data)
		}
	}
}

// TestRandomViolation: a broken rule ends the connection with its code, after all valid messages before it.
func TestRandomViolation(t *testing.T) {
	broken := rapid.SampledFrom([]struct {
		frame string
		code  uint16
	}{
		{"\x81\x00", 1002},
		{client(0xc1, ""), 1002},
		{client(fin|cont, ""), 1002},
		{client(fin|3, ""), 1002},
		{client(ping, ""), 1002},
		{client(fin|text, "\xff"), 1007},
		{"\x82\xff\x00\x00\x00\x00\xff\xff\xff\xff", 1009},
		{client(fin|closing, "\x00\x00"), 1002},
	})
	rapid.Check(t, func(rt *rapid.T) {
		s := drawScript(rt)
		if s.want.verdict != "" {
			return
		}
		bad := broken.Draw(rt, "bad")
		stream := s.stream.String() + bad.frame + string(rapid.SliceOfN(rapid.Byte(), 0, 50).Draw(rt, "behind"))
		end := verdict(t, wire.New(nil), stream)
		if end.Code != bad.code || end.Remote {
			rt.Fatalf("ended with %v, want code %d", end, bad.code)
		}
		s.want.verdict = end.Error()
		s.want.replies += server(fin|closing, closeBody(end.Code, end.Reason))
		compareOutcomes(rt, agree(t, func() *wire.Codec { return wire.New(nil) }, []byte(stream)), s.want)
	})
}

// TestByRote: the fast path decodeWhole and the general path give the same result, also for cut or damaged frames.
func TestByRote(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		s := drawScript(rt)
		if rapid.Bool().Draw(rt, "long") {
			s.stream.WriteString(client(fin|bin, strings.Repeat("x", rapid.IntRange(120, 70000).Draw(rt, "length"))))
		}
		stream := []byte(s.stream.String())
		for range rapid.IntRange(0, 2).Draw(rt, "damage") {
			if len(stream) > 0 {
				stream[rapid.IntRange(0, len(stream)-1).Draw(rt, "at")] = rapid.Byte().Draw(rt, "byte")
			}
		}
		stream = stream[:rapid.IntRange(0, len(stream)).Draw(rt, "end")]
		o := &wire.Options{MaxMessage: rapid.SampledFrom([]int{0, 100, 1000}).Draw(rt, "limit"), SkipUTF8: rapid.Bool().Draw(rt, "skip")}
		whole := func() int { return len(stream) }
		quick := feed(t, wire.New(o), bytes.Clone(stream), false, whole)
		compareOutcomes(rt, quick, feed(t, wire.New(o).Step(), bytes.Clone(stream), false, whole))
	})
}
