package wire_test

import (
	"bytes"
	"encoding/binary"
	"errors"
	"strings"
	"testing"
	"unicode/utf8"

	"pgregory.net/rapid"

	"github.com/sluice-push/sluice/websocket/wire"
)

// wantHeader returns the header of a server's frame, written from RFC 6455 §5.2.
func wantHeader(op byte, n int) []byte {
	switch {
	case n <= 125:
		return []byte{0x80 | op, byte(n)}
	case n <= 65535:
		return []byte{0x80 | op, 126, byte(n >> 8), byte(n)}
	}
	return binary.BigEndian.AppendUint64([]byte{0x80 | op, 127}, uint64(n))
}

func TestAppendFrame(t *testing.T) {
	for _, n := range []int{0, 1, 125, 126, 127, 255, 256, 65535, 65536, 100_000} {
		payload := bytes.Repeat([]byte{'x'}, n)
		want := append(wantHeader(bin, n), payload...)
		if got := wire.AppendFrame([]byte("before"), wire.OpBinary, payload); string(got) != "before"+string(want) {
			t.Errorf("AppendFrame of %d bytes begins with %x", n, got[:min(len(got), 20)])
		}
		if got := wire.AppendHeader(nil, wire.OpBinary, n); !bytes.Equal(got, wantHeader(bin, n)) {
			t.Errorf("AppendHeader of %d bytes: %x", n, got)
		}
		buf := append(bytes.Repeat([]byte{0xEE}, wire.HeaderSpace), payload...)
		if got := wire.FrameInPlace(buf, wire.OpBinary); !bytes.Equal(got, want) {
			t.Errorf("FrameInPlace of %d bytes begins with %x", n, got[:min(len(got), 20)])
		} else if &got[len(got)-1] != &buf[len(buf)-1] {
			t.Errorf("FrameInPlace of %d bytes moved the payload", n)
		}
	}
	if got, want := string(wire.AppendPing(nil, []byte("now"))), server(fin|ping, "now"); got != want {
		t.Errorf("AppendPing: %q, want %q", got, want)
	}
}

func TestAppendPanics(t *testing.T) {
	long := make([]byte, 126)
	for name, f := range map[string]func(){
		"long ping":         func() { wire.AppendPing(nil, long) },
		"long close":        func() { wire.AppendFrame(nil, wire.OpClose, long) },
		"negative length":   func() { wire.AppendHeader(nil, wire.OpText, -1) },
		"no space reserved": func() { wire.FrameInPlace(long[:wire.HeaderSpace-1], wire.OpText) },
	} {
		t.Run(name, func(t *testing.T) {
			defer func() {
				if recover() == nil {
					t.Error("no panic")
				}
			}()
			f()
		})
	}
}

func TestAppendEncode(t *testing.T) {
	for _, tt := range []struct {
		name   string
		opcode wire.Opcode
		want   byte
	}{
		{"default", 0, text}, {"text", wire.OpText, text}, {"binary", wire.OpBinary, bin}, {"no kind of message", wire.OpPing, text},
	} {
		t.Run(tt.name, func(t *testing.T) {
			c := wire.New(&wire.Options{Opcode: tt.opcode})
			got, err := c.AppendEncode([]byte("before"), []byte("hello"))
			if want := "before" + server(fin|tt.want, "hello"); string(got) != want || err != nil {
				t.Errorf("got %q, %v, want %q", got, err, want)
			}
		})
	}
	c := wire.NewHandshake(nil)
	if got, err := c.AppendEncode([]byte("x"), nil); string(got) != "x" || !errors.Is(err, wire.ErrNotOpen) {
		t.Errorf("before the handshake: %q, %v", got, err)
	}
	if got := c.AppendClose([]byte("x"), 1000, ""); string(got) != "x" {
		t.Errorf("close before the handshake: %q", got)
	}
}

// TestUnmask compares with the definition in RFC 6455 §5.3, at all small lengths and alignments. Bytes outside must not change.
func TestUnmask(t *testing.T) {
	key := [4]byte{0x11, 0x22, 0x84, 0xf8}
	k := binary.LittleEndian.Uint32(key[:])
	for n := range 200 {
		for offset := range 8 {
			room := make([]byte, 300)
			whole := room[offset : offset+n]
			for i := range whole {
				whole[i] = byte(i * 7)
			}
			pieces := bytes.Clone(whole)
			wire.Unmask(whole, k)
			for i := range whole {
				if want := byte(i*7) ^ key[i%4]; whole[i] != want {
					t.Fatalf("%d bytes at %d: byte %d is %#x, want %#x", n, offset, i, whole[i], want)
				}
			}
			if beside := append(room[:offset:offset], room[offset+n:]...); len(bytes.Trim(beside, "\x00")) > 0 {
				t.Fatalf("%d bytes at %d: something beside is not as it was", n, offset)
			}
			cut := min(n, offset*3+1)
			wire.Unmask(pieces[:cut], k)
			wire.Unmask(pieces[cut:], wire.KeyAt(k, cut))
			if !bytes.Equal(pieces, whole) {
				t.Fatalf("%d bytes cut at %d differ", n, cut)
			}
		}
	}
}

// TestTextCheck: in pieces or whole, the result is that of package utf8, and it is known at the first byte that decides it.
func TestTextCheck(t *testing.T) {
	pieces := rapid.OneOf(
		rapid.StringN(0, 8, -1),
		rapid.SampledFrom([]string{"\xff", "\xc0\xaf", "\xed\xa0\x80", "\xf4\x90", "\xe2\x82", "\xf0\x9f\x98", "\x80", "\xf8\x88", strings.Repeat("a", 40)}),
	)
	rapid.Check(t, func(t *rapid.T) {
		all := strings.Join(rapid.SliceOfN(pieces, 0, 6).Draw(t, "pieces"), "")
		var check wire.TextCheck
		var seen string
		for seen != all {
			n := rapid.IntRange(1, len(all)-len(seen)).Draw(t, "n")
			piece := all[len(seen) : len(seen)+n]
			seen += piece
			// A text can still become UTF-8 if some characters' beginnings at its end are all that is wrong with it.
			can := utf8.ValidString(seen)
			for _, rest := range []string{"\x80", "\x80\x80", "\x80\x80\x80", "\xbf", "\xbf\xbf", "\xbf\xbf\xbf", "\xa0\x80", "\x90\x80\x80"} {
				can = can || utf8.ValidString(seen+rest)
			}
			if got := check.Add([]byte(piece)); got != can {
				t.Fatalf("after %q: %t, want %t", seen, got, can)
			}
			if !can {
				return
			}
			if check.Complete() != utf8.ValidString(seen) {
				t.Fatalf("after %q: complete is %t", seen, check.Complete())
			}
		}
	})
}
