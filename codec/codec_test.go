package codec_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/sluice-push/sluice/codec"
)

// decodeTest is one call of Decode.
type decodeTest struct {
	name string
	c    codec.Framer
	in   string
	msg  string
	n    int
	err  error
}

func testDecode(t *testing.T, tests []decodeTest) {
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			msg, n, err := decode(t, tt.c, []byte(tt.in))
			if !errors.Is(err, tt.err) || (err == nil) != (tt.err == nil) {
				t.Fatalf("error %v, want %v", err, tt.err)
			}
			if string(msg) != tt.msg || n != tt.n {
				t.Errorf("got %q, %d, want %q, %d", msg, n, tt.msg, tt.n)
			}
		})
	}
}

func TestDecodeLength(t *testing.T) {
	testDecode(t, []decodeTest{
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

		{"length: little, over the default", codec.Length{Little: true}, "\x01\x00\x01\x00", "", 0, codec.ErrTooLarge},
	})
}

func TestDecodeVarint(t *testing.T) {
	big := strings.Repeat("x", 300)
	testDecode(t, []decodeTest{
		{"varint: nothing", codec.Length{Varint: true}, "", "", -1, nil},
		{"varint: 1 byte", codec.Length{Varint: true}, "\x02hi!", "hi", 3, nil},
		{"varint: 2 bytes", codec.Length{Varint: true}, "\xac\x02" + big, big, 302, nil},
		{"varint: half", codec.Length{Varint: true}, "\xac", "", -1, nil},
		{"varint: not the shortest", codec.Length{Varint: true}, "\x82\x80\x80\x80\x80\x80\x80\x80\x80\x00hi", "hi", 12, nil},
		{"varint: 10 bytes without end", codec.Length{Varint: true}, "\x80\x80\x80\x80\x80\x80\x80\x80\x80\x80", "", 0, codec.ErrLength},
		{"varint: 9 bytes without end", codec.Length{Varint: true}, "\x80\x80\x80\x80\x80\x80\x80\x80\x80", "", -1, nil},
		{"varint: 65 bits", codec.Length{Varint: true}, "\xff\xff\xff\xff\xff\xff\xff\xff\xff\x02", "", 0, codec.ErrLength},
		{"varint: 64 bits", codec.Length{Varint: true, Max: -1}, "\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01", "", 0, codec.ErrTooLarge},
		{"varint: over Max", codec.Length{Varint: true, Max: 4}, "\x05", "", 0, codec.ErrTooLarge},
	})
}

func TestDecodeAdjusted(t *testing.T) {
	testDecode(t, []decodeTest{
		{"itself: empty message", codec.Length{Adjust: -4}, "\x00\x00\x00\x04", "", 4, nil},
		{"itself: part of it", codec.Length{Adjust: -4}, "\x00\x00\x00\x06h", "", -1, nil},
		{"itself: whole", codec.Length{Adjust: -4}, "\x00\x00\x00\x06hi!", "hi", 6, nil},
		{"itself: at Max", codec.Length{Adjust: -4, Max: 2}, "\x00\x00\x00\x06hi", "hi", 6, nil},
		{"itself: over Max", codec.Length{Adjust: -4, Max: 1}, "\x00\x00\x00\x06hi", "", 0, codec.ErrTooLarge},
		{"itself: too little", codec.Length{Adjust: -4}, "\x00\x00\x00\x03", "", 0, codec.ErrLength},
		{"itself: nothing", codec.Length{Adjust: -4, Max: -1}, "\x00\x00\x00\x00", "", 0, codec.ErrLength},
		{"header: whole", codec.Length{Bytes: 1, Adjust: 2}, "\x02xyhi!", "xyhi", 5, nil},
		{"header: only", codec.Length{Bytes: 1, Adjust: 2}, "\x00xy", "xy", 3, nil},
		{"header: top bit", codec.Length{Bytes: 8, Adjust: 2, Max: -1}, "\xff\xff\xff\xff\xff\xff\xff\xff", "", 0, codec.ErrTooLarge},
		{"header: largest int", codec.Length{Bytes: 8, Adjust: 2, Max: -1}, "\x7f\xff\xff\xff\xff\xff\xff\xff", "", 0, codec.ErrTooLarge},
		{"header: just below it", codec.Length{Bytes: 8, Adjust: 2, Max: -1}, "\x7f\xff\xff\xff\xff\xff\xff\xf6", "", 0, codec.ErrTooLarge},
	})
}

func TestDecodeWhole(t *testing.T) {
	testDecode(t, []decodeTest{
		{"whole: field only", codec.Length{Adjust: -4, Whole: true}, "\x00\x00\x00\x04", "\x00\x00\x00\x04", 4, nil},
		{"whole: more", codec.Length{Adjust: -4, Whole: true}, "\x00\x00\x00\x06hi!", "\x00\x00\x00\x06hi", 6, nil},
		{"whole: at Max", codec.Length{Adjust: -4, Whole: true, Max: 6}, "\x00\x00\x00\x06h", "", -1, nil},
		{"whole: over Max", codec.Length{Adjust: -4, Whole: true, Max: 5}, "\x00\x00\x00\x06h", "", 0, codec.ErrTooLarge},
		{"offset: before the field", codec.Length{Bytes: 2, Offset: 3, Whole: true}, "ma", "", -3, nil},
		{"offset: half the field", codec.Length{Bytes: 2, Offset: 3, Whole: true}, "mag\x00", "", -1, nil},
		{"offset: whole", codec.Length{Bytes: 2, Offset: 3, Whole: true}, "mag\x00\x02hi!", "mag\x00\x02hi", 7, nil},
		{"offset: varint", codec.Length{Varint: true, Offset: 1, Whole: true}, "\x30\x02hi!", "\x30\x02hi", 4, nil},
		{"offset: before the varint", codec.Length{Varint: true, Offset: 1, Whole: true}, "", "", -2, nil},
		{"offset: varint without end", codec.Length{Varint: true, Offset: 1, Whole: true}, "\x30\x80", "", -1, nil},
	})
}

func TestDecodeLine(t *testing.T) {
	big := strings.Repeat("x", 300)
	testDecode(t, []decodeTest{
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
	})
}

func TestDecodeDelimiter(t *testing.T) {
	big := strings.Repeat("x", 300)
	testDecode(t, []decodeTest{
		{"delimiter: nothing", codec.Delimiter{End: "\r\n"}, "", "", -2, nil},
		{"delimiter: part of it", codec.Delimiter{End: "\r\n"}, "hel", "", -2, nil},
		{"delimiter: half the end", codec.Delimiter{End: "\r\n"}, "hel\r", "", -1, nil},
		{"delimiter: half the end, and no more", codec.Delimiter{End: "\r\n"}, "hel\rl", "", -2, nil},
		{"delimiter: half the end twice", codec.Delimiter{End: "\r\n"}, "hel\r\r", "", -1, nil},
		{"delimiter: begun in its beginning", codec.Delimiter{End: "aabaac"}, "xaabaab", "", -3, nil},
		{"delimiter: whole", codec.Delimiter{End: "\r\n"}, "hello\r\n", "hello", 7, nil},
		{"delimiter: and more", codec.Delimiter{End: "\r\n"}, "a\r\nb\r\n", "a", 3, nil},
		{"delimiter: empty", codec.Delimiter{End: "\r\n"}, "\r\n\r\n", "", 2, nil},
		{"delimiter: one byte", codec.Delimiter{End: "|"}, "a|b", "a", 2, nil},
		{"delimiter: at Max", codec.Delimiter{End: "\r\n", Max: 3}, "abc\r\n", "abc", 5, nil},
		{"delimiter: at Max, end to come", codec.Delimiter{End: "\r\n", Max: 3}, "abc", "", -1, nil},
		{"delimiter: not far from Max", codec.Delimiter{End: "\r\n\r\n", Max: 3}, "ab", "", -2, nil},
		{"delimiter: at Max, half the end", codec.Delimiter{End: "\r\n", Max: 3}, "abc\r", "", -1, nil},
		{"delimiter: over Max", codec.Delimiter{End: "\r\n", Max: 3}, "abcd\r\n", "", 0, codec.ErrTooLarge},
		{"delimiter: over Max, no end", codec.Delimiter{End: "\r\n", Max: 3}, "abcd", "", 0, codec.ErrTooLarge},
		{"delimiter: over Max, half the end", codec.Delimiter{End: "\r\n", Max: 3}, "abc\rd", "", 0, codec.ErrTooLarge},
		{"delimiter: over Max, end far away", codec.Delimiter{End: "\r\n", Max: 3}, "abcdefgh\r\n", "", 0, codec.ErrTooLarge},
		{"delimiter: no limit", codec.Delimiter{End: "\r\n", Max: -1}, big + "\r\n", big, 302, nil},
	})
}

func TestAppendEncode(t *testing.T) {
	big := strings.Repeat("x", 300)
	tests := []struct {
		name string
		c    codec.Framer
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
		{"length: a field of 8 bytes, over the default", codec.Length{Bytes: 8}, strings.Repeat("x", 65537), "", codec.ErrTooLarge},
		{"length: varint", codec.Length{Varint: true}, strings.Repeat("x", 300), "\xac\x02" + strings.Repeat("x", 300), nil},
		{"length: varint, over Max", codec.Length{Varint: true, Max: 1}, "hi", "", codec.ErrTooLarge},
		{"length: itself", codec.Length{Adjust: -4}, "hi", "\x00\x00\x00\x06hi", nil},
		{"length: itself, over the field", codec.Length{Bytes: 1, Adjust: -1}, strings.Repeat("x", 255), "", codec.ErrTooLarge},
		{"length: header", codec.Length{Bytes: 1, Adjust: 2}, "xyhi", "\x02xyhi", nil},
		{"length: header, more than the field says", codec.Length{Bytes: 1, Adjust: 2}, big[:257], "\xff" + big[:257], nil},
		{"length: header is not there", codec.Length{Bytes: 1, Adjust: 2}, "x", "", codec.ErrLength},
		{"whole", codec.Length{Adjust: -4, Whole: true}, "\x00\x00\x00\x06hi", "\x00\x00\x00\x06hi", nil},
		{"whole: declares less", codec.Length{Adjust: -4, Whole: true}, "\x00\x00\x00\x05hi", "", codec.ErrLength},
		{"whole: declares more", codec.Length{Adjust: -4, Whole: true}, "\x00\x00\x00\x07hi", "", codec.ErrLength},
		{"whole: no field", codec.Length{Adjust: -4, Whole: true}, "\x00", "", codec.ErrLength},
		{"whole: empty", codec.Length{Adjust: -4, Whole: true}, "", "", codec.ErrLength},
		{"whole: over Max", codec.Length{Adjust: -4, Whole: true, Max: 5}, "\x00\x00\x00\x06hi", "", codec.ErrTooLarge},
		{"whole: offset", codec.Length{Bytes: 2, Offset: 3, Whole: true}, "mag\x00\x02hi", "mag\x00\x02hi", nil},
		{"line", codec.Line{}, "hi", "hi\n", nil},
		{"line: carriage return and line feed", codec.Line{CRLF: true}, "hi", "hi\r\n", nil},
		{"line: empty", codec.Line{}, "", "\n", nil},
		{"line: carriage return inside", codec.Line{}, "a\rb", "a\rb\n", nil},
		{"line: over Max", codec.Line{Max: 1}, "hi", "", codec.ErrTooLarge},
		{"line: line feed", codec.Line{}, "a\nb", "", codec.ErrNewline},
		{"line: carriage return at the end", codec.Line{}, "a\r", "", codec.ErrNewline},
		{"delimiter", codec.Delimiter{End: "\r\n"}, "hi", "hi\r\n", nil},
		{"delimiter: empty", codec.Delimiter{End: "\r\n"}, "", "\r\n", nil},
		{"delimiter: half of it", codec.Delimiter{End: "\r\n"}, "a\n\r", "a\n\r\r\n", nil},
		{"delimiter: inside", codec.Delimiter{End: "\r\n"}, "a\r\nb", "", codec.ErrDelimiter},
		{"delimiter: with the one behind", codec.Delimiter{End: "aba"}, "ab", "", codec.ErrDelimiter},
		{"delimiter: over Max", codec.Delimiter{End: "\r\n", Max: 1}, "hi", "", codec.ErrTooLarge},
		{"fixed", codec.Fixed{Size: 2}, "hi", "hi", nil},
		{"fixed: too short", codec.Fixed{Size: 3}, "hi", "", codec.ErrSize},
		{"fixed: too long", codec.Fixed{Size: 1}, "hi", "", codec.ErrSize},
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

// An invalid setting is a mistake of the programmer, and the first call panics with its name.
func TestBadSettingsPanic(t *testing.T) {
	decodes := func(c codec.Framer) func() { return func() { _, _, _ = c.Decode(nil) } }
	encodes := func(c codec.Framer) func() { return func() { _, _ = c.AppendEncode(nil, nil) } }
	tests := []struct {
		name, says string
		call       func()
	}{
		{"length of 3 bytes, decoding", "use 1, 2, 4 or 8", decodes(codec.Length{Bytes: 3})},
		{"length of 3 bytes, encoding", "use 1, 2, 4 or 8", encodes(codec.Length{Bytes: 3})},
		{"varint of 2 bytes", "use one of them", decodes(codec.Length{Varint: true, Bytes: 2})},
		{"varint of 2 bytes, encoding", "use one of them", encodes(codec.Length{Varint: true, Bytes: 2})},
		{"negative offset", "use a positive one", decodes(codec.Length{Offset: -1, Whole: true})},
		{"offset of what is lost", "and Whole", decodes(codec.Length{Offset: 1})},
		{"offset of what is lost, encoding", "and Whole", encodes(codec.Length{Offset: 1})},
		{"no delimiter, decoding", "set it to", decodes(codec.Delimiter{})},
		{"no delimiter, encoding", "set it to", encodes(codec.Delimiter{})},
		{"fixed without size, decoding", "set it to", decodes(codec.Fixed{})},
		{"fixed without size, encoding", "set it to", encodes(codec.Fixed{Size: -1})},
		{"level", "use 1 to 9", func() { codec.NewCompression(&codec.CompressionOptions{Level: 10}) }},
		{"format", "use Deflate or Gzip", func() { codec.NewCompression(&codec.CompressionOptions{Format: 7}) }},
		{"no inner codec", "give it one", func() { codec.NewCompression(nil).New(nil) }},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			defer func() {
				if got := fmt.Sprint(recover()); !strings.HasPrefix(got, "codec: ") || !strings.Contains(got, tt.says) {
					t.Errorf("it says %q", got)
				}
			}()
			tt.call()
		})
	}
}
