package wire_test

import (
	"errors"
	"fmt"
	"io"
	"strings"
	"sync"
	"testing"
	"unicode/utf8"

	"github.com/sluice-push/sluice/internal/testwait"
	"github.com/sluice-push/sluice/websocket/wire"
)

// TestCloseFromPeer: close frames that are a clean end, and the answers to them (RFC 6455 §5.5.1, §7.4).
func TestCloseFromPeer(t *testing.T) {
	for _, tt := range []struct {
		name, body string
		code       uint16
		reason     string
		answer     string
	}{
		{"no code", "", wire.CloseNoStatus, "", ""},
		{"code alone", closeBody(1000, ""), 1000, "", closeBody(1000, "")},
		{"code and reason", closeBody(1001, "leaving"), 1001, "leaving", closeBody(1001, "")},
		{"longest reason", closeBody(4999, strings.Repeat("x", 123)), 4999, strings.Repeat("x", 123), closeBody(4999, "")},
		{"reason of many bytes a character", closeBody(3000, "tschüß 👋"), 3000, "tschüß 👋", closeBody(3000, "")},
	} {
		t.Run(tt.name, func(t *testing.T) {
			open := func() *wire.Codec { return wire.New(nil) }
			stream := client(text, "unfinished") + client(fin|closing, tt.body)
			got := agree(t, open, []byte(stream+client(fin|text, "ignored")))
			if want := server(fin|closing, tt.answer); got.replies != want {
				t.Errorf("replies %q, want %q", got.replies, want)
			}
			end := verdict(t, open(), stream)
			if want := (wire.CloseError{Code: tt.code, Reason: tt.reason, Remote: true}); *end != want {
				t.Errorf("ended with %+v, want %+v", *end, want)
			}
			if !errors.Is(end, io.EOF) {
				t.Error("a close by the peer is not io.EOF")
			}
		})
	}
}

// Other goroutines may send until the close frame that answers the peer's is fetched, and not after that. If one of them closes meanwhile, its
// close frame is the one that is sent.
func TestSendingBeforeTheAnswer(t *testing.T) {
	for _, closes := range []bool{false, true} {
		c := wire.New(nil)
		_, _, err := c.Decode([]byte(client(fin|closing, closeBody(4000, ""))))
		if !errors.Is(err, io.EOF) {
			t.Fatal(err)
		}
		out, err := c.AppendEncode(nil, []byte("answer"))
		if err != nil {
			t.Fatal(err)
		}
		want := string(out) + server(fin|closing, closeBody(4000, ""))
		if closes {
			out = c.AppendClose(out, 4001, "")
			want = string(out)
		}
		if got := string(c.AppendReplies(out)); got != want {
			t.Errorf("closes %t: sent %q, want %q", closes, got, want)
		}
		if _, err := c.AppendEncode(nil, []byte("late")); !errors.Is(err, wire.ErrCloseSent) {
			t.Errorf("closes %t: after the end: %v", closes, err)
		}
		if late := c.AppendClose(nil, 4002, ""); len(late) > 0 {
			t.Errorf("closes %t: closed again with %q", closes, late)
		}
	}
}

// TestCloseCodes: the codes that may be sent (RFC 6455 §7.4), in both directions.
func TestCloseCodes(t *testing.T) {
	valid := func(code int) bool {
		switch code {
		case 1000, 1001, 1002, 1003, 1007, 1008, 1009, 1010, 1011, 1012, 1013, 1014:
			return true
		}
		return code >= 3000 && code <= 4999
	}
	for code := range 1 << 16 {
		end := verdict(t, wire.New(nil), client(fin|closing, closeBody(uint16(code), "")))
		if end.Remote != valid(code) || !end.Remote && end.Code != wire.CloseProtocolError {
			t.Fatalf("close frame with code %d ended with %v", code, end)
		}
		want := server(fin|closing, "")
		if valid(code) {
			want = server(fin|closing, closeBody(uint16(code), "why"))
		}
		if got := string(wire.AppendClose(nil, uint16(code), "why")); got != want {
			t.Fatalf("AppendClose with code %d: %q, want %q", code, got, want)
		}
	}
}

func TestAppendCloseReason(t *testing.T) {
	for _, tt := range []struct{ name, reason, want string }{
		{"fits", strings.Repeat("x", 123), strings.Repeat("x", 123)},
		{"a byte too long", strings.Repeat("x", 124), strings.Repeat("x", 123)},
		{"cut between characters", strings.Repeat("€", 42), strings.Repeat("€", 41)},
		{"cut before a character of four bytes", strings.Repeat("x", 120) + "👋", strings.Repeat("x", 120)},
		{"not UTF-8", "a\xffb", "a\uFFFDb"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			got := string(wire.AppendClose([]byte("before"), 4000, tt.reason))
			if want := "before" + server(fin|closing, closeBody(4000, tt.want)); got != want || !utf8.ValidString(tt.want) {
				t.Errorf("got %q, want %q", got, want)
			}
		})
	}
}

// TestCloseFromHere: after this side's close frame only the peer's answer matters, and it is not answered again.
func TestCloseFromHere(t *testing.T) {
	c := wire.New(nil)
	if got, want := string(c.AppendClose(nil, 3001, "shutdown")), server(fin|closing, closeBody(3001, "shutdown")); got != want {
		t.Fatalf("AppendClose: %q, want %q", got, want)
	}
	if again := c.AppendClose([]byte("x"), 3000, ""); string(again) != "x" {
		t.Errorf("a second AppendClose made %q", again)
	}
	if dst, err := c.AppendEncode([]byte("x"), []byte("late")); string(dst) != "x" || !errors.Is(err, wire.ErrCloseSent) {
		t.Errorf("AppendEncode after close: %q, %v", dst, err)
	}
	stream := client(fin|ping, "p") + client(fin|text, "crossed") + client(fin|closing, closeBody(3001, "shutdown"))
	got := feed(t, c, []byte(stream), false, func() int { return len(stream) })
	if got.replies != "" || len(got.messages) != 1 || got.messages[0].data != "crossed" {
		t.Errorf("after our close frame: %v", got)
	}
	_, _, err := c.Decode(nil)
	if end, ok := errors.AsType[*wire.CloseError](err); !ok || !end.Remote || end.Code != 3001 {
		t.Errorf("ended with %v", err)
	}
}

// TestOneClose: if many goroutines close at the same time, one close frame is made.
func TestOneClose(t *testing.T) {
	c := wire.New(nil)
	made := make([][]byte, 8)
	var wg sync.WaitGroup
	for i := range made {
		wg.Go(func() {
			_, _ = c.AppendEncode(nil, []byte("message")) // either is right: the race detector watches
			made[i] = c.AppendClose(nil, wire.CloseGoingAway, "")
		})
	}
	_, _, _ = c.Decode([]byte(client(fin|closing, "")))
	replies := c.AppendReplies(nil)
	testwait.Return(t, wg.Wait)
	frames := min(len(replies), 1)
	for _, frame := range made {
		frames += min(len(frame), 1)
	}
	if frames != 1 {
		t.Errorf("%d close frames were made", frames)
	}
}

// TestPongs: of several pings that wait for an answer, only the newest gets one. Both pings and pongs are counted.
func TestPongs(t *testing.T) {
	c := wire.New(nil)
	in := []byte(client(fin|pong, "") + client(fin|ping, "first") + client(fin|ping, "second, longer") + client(fin|ping, "3rd") +
		client(fin|closing, closeBody(1000, "")))
	for err := error(nil); err == nil; {
		var n int
		_, n, err = c.Decode(in)
		in = in[n:]
	}
	if got, want := string(c.AppendReplies(nil)), server(fin|pong, "3rd")+server(fin|closing, closeBody(1000, "")); got != want {
		t.Errorf("replies %q, want %q", got, want)
	}
	if c.Pings() != 3 || c.Pongs() != 1 {
		t.Errorf("%d pings and %d pongs were counted", c.Pings(), c.Pongs())
	}
	if again := c.AppendReplies(nil); len(again) != 0 {
		t.Errorf("replies came twice: %q", again)
	}
}

// TestLateReplies: replies that are fetched late are still complete and in order.
func TestLateReplies(t *testing.T) {
	for _, tt := range []struct{ name, frames, want string }{
		{"pings", client(fin|ping, "1st") + client(fin|ping, "2nd"), server(fin|pong, "2nd")},
		{"close", client(fin|ping, "1st") + client(fin|closing, ""), server(fin|pong, "1st") + server(fin|closing, "")},
		{"broken rule", "\x83", server(fin|closing, closeBody(1002, "opcode is reserved"))},
	} {
		t.Run(tt.name, func(t *testing.T) {
			c := wire.NewHandshake(nil)
			in := []byte(request() + tt.frames)
			for n, err := 1, error(nil); n > 0 && err == nil; in = in[n:] {
				_, n, err = c.Decode(in)
			}
			if _, err := c.AppendEncode(nil, nil); err == nil {
				t.Error("AppendEncode overtakes the handshake")
			}
			if got, want := string(c.AppendReplies(nil)), acceptance()+tt.want; got != want {
				t.Errorf("got\n%q, want\n%q", got, want)
			}
		})
	}
}

func TestTexts(t *testing.T) {
	for _, tt := range []struct {
		err  wire.CloseError
		want string
	}{
		{wire.CloseError{Code: 1001, Reason: "leaving", Remote: true}, "websocket: closed by peer: 1001 leaving"},
		{wire.CloseError{Code: 1005, Remote: true}, "websocket: closed by peer: 1005"},
		{wire.CloseError{Code: 1002, Reason: "frame is not masked"}, "websocket: closed from here: 1002 frame is not masked"},
	} {
		if got := tt.err.Error(); got != tt.want {
			t.Errorf("got %q, want %q", got, tt.want)
		}
	}
	got := fmt.Sprint(wire.OpContinuation, wire.OpText, wire.OpBinary, wire.OpClose, wire.OpPing,
		wire.OpPong, wire.Opcode(3))
	if want := "continuation text binary close ping pong opcode(0x3)"; got != want {
		t.Errorf("opcodes print as %q, want %q", got, want)
	}
}
