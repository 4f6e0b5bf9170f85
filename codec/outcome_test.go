package codec_test

import (
	"errors"
	"testing"

	"github.com/sluice-push/sluice/codec"
)

// TestOutcomes has a case for each field of the table in the package comment.
func TestOutcomes(t *testing.T) {
	compressed := newComp(codec.CompressionOptions{Max: 9}, codec.Length{Bytes: 2, Max: 10})
	tests := []struct {
		name    string
		make    func() codec.Framer
		broken  string // input that gives err
		err     error  // nil if the codec refuses no input
		head    string // input from which the length of the frame is not known
		headN   int
		body    string // input from which the number of missing bytes is known
		bodyN   int
		several string // "a", "bcd" and a beginning; the first is used alone as well
		first   int    // bytes of the first
	}{
		{
			"length", stateless(codec.Length{Bytes: 2, Max: 9}), "\x00\x0a", codec.ErrTooLarge,
			"\x00", -1, "\x00\x05ab", -3, "\x00\x01a\x00\x03bcd\x00", 3,
		},
		{
			"length of itself", stateless(codec.Length{Bytes: 2, Max: 9, Adjust: -2}), "\x00\x01", codec.ErrLength,
			"\x00", -1, "\x00\x07ab", -3, "\x00\x03a\x00\x05bcd\x00", 3,
		},
		{
			"varint", stateless(codec.Length{Varint: true}), "\xff\xff\xff\xff\xff\xff\xff\xff\xff\x02", codec.ErrLength,
			"\x80", -1, "\x85\x00ab", -3, "\x01a\x03bcd\x01", 2,
		},
		{
			"line", stateless(codec.Line{Max: 9}), "1234567890", codec.ErrTooLarge,
			"ab", 0, "ab\r", 0, "a\nbcd\r\ne", 2,
		},
		{
			"delimiter", stateless(codec.Delimiter{End: "\r\n\r\n", Max: 9}), "1234567890", codec.ErrTooLarge,
			"ab", -4, "ab\r\n\r", -1, "a\r\n\r\nbcd\r\n\r\ne", 5,
		},
		{
			"compressed", compressed, "\x00\x02\x03x", codec.ErrCorrupt,
			"\x00", -1, "\x00\x05\x01a", -3, "\x00\x02\x00a\x00\x04\x00bcd\x00", 4,
		},
	}
	for _, tt := range tests {
		expect := func(t *testing.T, in, msg string, n int, err error) {
			t.Helper()
			got, gotN, gotErr := decode(t, tt.make(), []byte(in))
			if string(got) != msg || gotN != n || !errors.Is(gotErr, err) {
				t.Errorf("%q gives %q, %d, %v, want %q, %d, %v", in, got, gotN, gotErr, msg, n, err)
			}
		}
		t.Run(tt.name+"/error", func(t *testing.T) { expect(t, tt.broken, "", 0, tt.err) })
		t.Run(tt.name+"/head incomplete", func(t *testing.T) { expect(t, tt.head, "", tt.headN, nil) })
		t.Run(tt.name+"/body incomplete", func(t *testing.T) { expect(t, tt.body, "", tt.bodyN, nil) })
		t.Run(tt.name+"/one", func(t *testing.T) { expect(t, tt.several[:tt.first], "a", tt.first, nil) })
		t.Run(tt.name+"/several", func(t *testing.T) {
			msgs, used, err := drain(t, tt.make(), []byte(tt.several), 1000, nil)
			if err != nil || used != len(tt.several)-1 || len(msgs) != 2 || string(msgs[0]) != "a" || string(msgs[1]) != "bcd" {
				t.Errorf("%q, %d bytes, %v", msgs, used, err)
			}
		})
	}
}

// TestOutcomesWithoutError is for the codecs that cannot fail and have no header.
func TestOutcomesWithoutError(t *testing.T) {
	for _, tt := range []struct {
		name, in, msg string
		c             codec.Framer
		n             int
	}{
		{"fixed/body incomplete", "abc", "", codec.Fixed{Size: 5}, -2},
		{"fixed/one", "abcde", "abcde", codec.Fixed{Size: 5}, 5},
		{"fixed/several", "abcdefghijk", "abcde", codec.Fixed{Size: 5}, 5},
		{"raw/nothing", "", "", codec.Raw{}, 0},
		{"raw/one", "abc", "abc", codec.Raw{}, 3},
		{"raw/several", "abcde", "abc", codec.Raw{Max: 3}, 3},
	} {
		t.Run(tt.name, func(t *testing.T) {
			if msg, n, err := decode(t, tt.c, []byte(tt.in)); string(msg) != tt.msg || n != tt.n || err != nil {
				t.Errorf("%q, %d, %v", msg, n, err)
			}
		})
	}
}
