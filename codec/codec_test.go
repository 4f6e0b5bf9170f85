package codec_test

import (
	"bytes"
	"encoding/binary"
	"errors"
	"strings"
	"testing"

	"github.com/sluice-push/sluice/codec"
)

type framer interface {
	Decode(in []byte) ([]byte, int, error)
	AppendEncode(dst, msg []byte) ([]byte, error)
}

func TestDecode(t *testing.T) {
	big := strings.Repeat("x", 300)
	tests := []struct {
		name string
		c    framer
		in   string
		msg  string
		n    int
		err  error
	}{
		{"length: nothing", codec.Length{}, "", "", -4, nil},
		{"length: half a field", codec.Length{}, "\x00\x00", "", -2, nil},
		{"length: field only", codec.Length{}, "\x00\x00\x00\x05", "", -5, nil},
		{"length: part of it", codec.Length{}, "\x00\x00\x00\x05hel", "", -2, nil},
		{"length: whole", codec.Length{}, "\x00\x00\x00\x05hello", "hello", 9, nil},
		{"length: and more", codec.Length{}, "\x00\x00\x00\x05hello\x00", "hello", 9, nil},
		{"length: empty message", codec.Length{}, "\x00\x00\x00\x00", "", 4, nil},
		{"length: 1 byte", codec.Length{Bytes: 1}, "\x02hi!", "hi", 3, nil},
		{"length: 2 bytes", codec.Length{Bytes: 2}, "\x00\x02hi", "hi", 4, nil},
		{"length: 2 bytes little", codec.Length{Bytes: 2, Little: true}, "\x02\x00hi", "hi", 4, nil},
		{"length: 4 bytes little", codec.Length{Little: true}, "\x02\x00\x00\x00hi", "hi", 6, nil},
		{"length: 8 bytes", codec.Length{Bytes: 8}, "\x00\x00\x00\x00\x00\x00\x00\x02hi", "hi", 10, nil},
		{"length: 8 bytes little", codec.Length{Bytes: 8, Little: true}, "\x02\x00\x00\x00\x00\x00\x00\x00hi", "hi", 10, nil},
		{"length: over the default", codec.Length{}, "\x00\x01\x00\x01", "", 0, codec.ErrTooLarge},
		{"length: at the default", codec.Length{}, "\x00\x01\x00\x00", "", -65536, nil},
		{"length: over Max", codec.Length{Max: 4}, "\x00\x00\x00\x05", "", 0, codec.ErrTooLarge},
		{"length: no limit, top bit", codec.Length{Bytes: 8, Max: -1}, "\xff\xff\xff\xff\xff\xff\xff\xff", "", 0, codec.ErrTooLarge},
		{"length: no limit, largest int", codec.Length{Bytes: 8, Max: -1}, "\x7f\xff\xff\xff\xff\xff\xff\xff", "", 0, codec.ErrTooLarge},

		{"line: nothing", codec.Line{}, "", "", 0, nil},
		{"line: part of it", codec.Line{}, "hel", "", 0, nil},
		{"line: whole", codec.Line{}, "hello\n", "hello", 6, nil},
		{"line: with carriage return", codec.Line{}, "hello\r\n", "hello", 7, nil},
		{"line: only one is taken off", codec.Line{}, "hello\r\r\n", "hello\r", 8, nil},
		{"line: carriage return inside", codec.Line{}, "a\rb\n", "a\rb", 4, nil},
		{"line: and more", codec.Line{}, "a\nb\n", "a", 2, nil},
		{"line: empty", codec.Line{}, "\n", "", 1, nil},
		{"line: empty with carriage return", codec.Line{}, "\r\n", "", 2, nil},
		{"line: at Max", codec.Line{Max: 3}, "abc\r\n", "abc", 5, nil},
		{"line: at Max, end to come", codec.Line{Max: 3}, "abc", "", 0, nil},
		{"line: at Max, half the end", codec.Line{Max: 3}, "abc\r", "", 0, nil},
		{"line: over Max", codec.Line{Max: 3}, "abcd\n", "", 0, codec.ErrTooLarge},
		{"line: over Max, no end", codec.Line{Max: 3}, "abcd", "", 0, codec.ErrTooLarge},
		{"line: over Max, carriage return but no end", codec.Line{Max: 3}, "abc\rd", "", 0, codec.ErrTooLarge},
		{"line: over Max, end far away", codec.Line{Max: 3}, "abcdefgh\n", "", 0, codec.ErrTooLarge},
		{"line: no limit", codec.Line{Max: -1}, big + "\n", big, 301, nil},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			msg, n, err := tt.c.Decode([]byte(tt.in))
			if !errors.Is(err, tt.err) || (err == nil) != (tt.err == nil) {
				t.Fatalf("error %v, want %v", err, tt.err)
			}
			if string(msg) != tt.msg || n != tt.n {
				t.Errorf("got %q, %d, want %q, %d", msg, n, tt.msg, tt.n)
			}
			if (msg != nil) != (n > 0) {
				t.Errorf("message %v although %d bytes were used", msg, n)
			}
			if cap(msg) != len(msg) {
				t.Error("appending to the message would overwrite the bytes after it")
			}
		})
	}
}

func TestAppendEncode(t *testing.T) {
	tests := []struct {
		name string
		c    framer
		msg  string
		want string
		err  error
	}{
		{"length", codec.Length{}, "hi", "\x00\x00\x00\x02hi", nil},
		{"length: empty", codec.Length{}, "", "\x00\x00\x00\x00", nil},
		{"length: little", codec.Length{Bytes: 8, Little: true}, "hi", "\x02\x00\x00\x00\x00\x00\x00\x00hi", nil},
		{"length: 2 bytes", codec.Length{Bytes: 2}, "hi", "\x00\x02hi", nil},
		{"length: over Max", codec.Length{Max: 1}, "hi", "", codec.ErrTooLarge},
		{"length: over the field", codec.Length{Bytes: 1, Max: -1}, strings.Repeat("x", 256), "", codec.ErrTooLarge},
		{"line", codec.Line{}, "hi", "hi\n", nil},
		{"line: carriage return and line feed", codec.Line{CRLF: true}, "hi", "hi\r\n", nil},
		{"line: empty", codec.Line{}, "", "\n", nil},
		{"line: carriage return inside", codec.Line{}, "a\rb", "a\rb\n", nil},
		{"line: over Max", codec.Line{Max: 1}, "hi", "", codec.ErrTooLarge},
		{"line: line feed", codec.Line{}, "a\nb", "", codec.ErrNewline},
		{"line: carriage return at the end", codec.Line{}, "a\r", "", codec.ErrNewline},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			got, err := tt.c.AppendEncode([]byte("before"), []byte(tt.msg))
			if !errors.Is(err, tt.err) || (err == nil) != (tt.err == nil) {
				t.Fatalf("error %v, want %v", err, tt.err)
			}
			if string(got) != "before"+tt.want {
				t.Errorf("got %q, want %q", got, "before"+tt.want)
			}
		})
	}
}

func TestLengthOfAnotherSizePanics(t *testing.T) {
	defer func() {
		if recover() == nil {
			t.Error("a length field of 3 bytes was accepted")
		}
	}()
	_, _, _ = codec.Length{Bytes: 3}.Decode(nil)
}

// codecs are what the fuzz targets try, chosen by their first argument.
var codecs = []framer{
	codec.Length{Bytes: 1, Max: 40},
	codec.Length{Bytes: 2, Max: 40},
	codec.Length{Bytes: 2, Little: true},
	codec.Length{Max: 300},
	codec.Length{Bytes: 8, Max: -1},
	codec.Length{Bytes: 8, Little: true},
	codec.Line{Max: 5},
	codec.Line{Max: -1},
	codec.Line{CRLF: true},
}

// decodeAll feeds in to c, where steps says how many more bytes are there each time.
func decodeAll(c framer, in []byte, step int) (msgs [][]byte, used int, failed bool) {
	for have := min(step, len(in)); ; have = min(have+step, len(in)) {
		for {
			msg, n, err := c.Decode(in[used:have])
			if err != nil {
				return msgs, used, true
			}
			if n <= 0 {
				break
			}
			msgs = append(msgs, bytes.Clone(msg))
			used += n
		}
		if have == len(in) {
			return msgs, used, false
		}
	}
}

// FuzzDecode checks that it makes no difference in which pieces the bytes arrive, and that what is asked for is right.
func FuzzDecode(f *testing.F) {
	for i := range codecs {
		f.Add(uint8(i), []byte("\x00\x03abc\x03\x00abc\nline\r\n\x00\x00\x00\x02hi"))
		f.Add(uint8(i), binary.BigEndian.AppendUint64(nil, 1<<63))
	}
	f.Fuzz(func(t *testing.T, which uint8, in []byte) {
		c := codecs[int(which)%len(codecs)]
		whole, used, failed := decodeAll(c, in, len(in)+1)
		pieces, used2, failed2 := decodeAll(c, in, 1)
		if len(whole) != len(pieces) || used != used2 || failed != failed2 {
			t.Fatalf("whole: %d messages, %d bytes, failed %v; byte by byte: %d, %d, %v",
				len(whole), used, failed, len(pieces), used2, failed2)
		}
		for i := range whole {
			if !bytes.Equal(whole[i], pieces[i]) {
				t.Fatalf("message %d is %q, byte by byte %q", i, whole[i], pieces[i])
			}
		}
		if _, n, err := c.Decode(in[used:]); err == nil && n < 0 && len(in)-used-n < len(in)-used {
			t.Fatalf("asked for %d bytes", -n)
		}
	})
}

// FuzzRoundTrip checks that what was encoded is decoded again, alone and with another message behind it.
func FuzzRoundTrip(f *testing.F) {
	for i := range codecs {
		f.Add(uint8(i), []byte("hello"))
		f.Add(uint8(i), []byte{})
		f.Add(uint8(i), []byte("a\r"))
	}
	f.Fuzz(func(t *testing.T, which uint8, msg []byte) {
		c := codecs[int(which)%len(codecs)]
		frame, err := c.AppendEncode(nil, msg)
		if err != nil {
			if len(frame) != 0 {
				t.Fatalf("left %q behind with %v", frame, err)
			}
			return
		}
		for size := range len(frame) {
			if _, n, err := c.Decode(frame[:size]); n > 0 || err != nil || n < 0 && size-n > len(frame) {
				t.Fatalf("%d of %d bytes gave %d, %v", size, len(frame), n, err)
			}
		}
		got, n, err := c.Decode(append(frame, "more"...))
		if err != nil || n != len(frame) || !bytes.Equal(got, msg) {
			t.Fatalf("%q came back as %q, %d of %d bytes, %v", msg, got, n, len(frame), err)
		}
	})
}

func BenchmarkLength(b *testing.B) {
	msg := make([]byte, 1024)
	var buf []byte
	b.ReportAllocs()
	b.SetBytes(1024)
	for b.Loop() {
		buf, _ = codec.Length{}.AppendEncode(buf[:0], msg)
		if _, n, err := (codec.Length{}).Decode(buf); n != len(buf) || err != nil {
			b.Fatal(n, err)
		}
	}
}

func BenchmarkLine(b *testing.B) {
	msg := bytes.Repeat([]byte("x"), 100)
	var buf []byte
	b.ReportAllocs()
	b.SetBytes(100)
	for b.Loop() {
		buf, _ = codec.Line{}.AppendEncode(buf[:0], msg)
		if _, n, err := (codec.Line{}).Decode(buf); n != len(buf) || err != nil {
			b.Fatal(n, err)
		}
	}
}
