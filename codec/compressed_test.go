package codec_test

import (
	"bytes"
	"compress/flate"
	"compress/gzip"
	"encoding/binary"
	"errors"
	"io"
	"runtime"
	"strings"
	"sync"
	"testing"

	"github.com/sluice-push/sluice/codec"
	"github.com/sluice-push/sluice/internal/testwait"
)

// payload returns msg as a peer compresses it that uses the standard library: the first byte, and the data.
func payload(form byte, msg []byte) []byte {
	out := bytes.NewBuffer([]byte{form})
	var w io.WriteCloser
	if form == 2 {
		w = gzip.NewWriter(out)
	} else {
		w, _ = flate.NewWriter(out, 9)
	}
	_, _ = w.Write(msg)
	_ = w.Close()
	return out.Bytes()
}

// header is payload for gzip with all optional fields in the header.
func header(msg []byte) []byte {
	plain := payload(2, msg)[1:]
	head := append([]byte{0x1f, 0x8b, 8, 1 | 2 | 4 | 8 | 16, 1, 2, 3, 4, 0, 3}, "\x05\x00extraname\x00comment\x00"...)
	head = binary.LittleEndian.AppendUint16(head, uint16(crc(head)))
	return append(append([]byte{2}, head...), plain[10:]...)
}

// crc is the checksum of RFC 1952 §8, bit by bit.
func crc(p []byte) uint32 {
	sum := ^uint32(0)
	for _, b := range p {
		sum ^= uint32(b)
		for range 8 {
			sum = sum>>1 ^ 0xedb88320&-(sum&1)
		}
	}
	return ^sum
}

// unpack decodes one payload with a limit.
func unpack(limit int, payload []byte) ([]byte, error) {
	c := codec.NewCompression(&codec.CompressionOptions{Max: limit}).New(codec.Raw{Max: -1})
	msg, _, err := c.Decode(payload)
	return msg, err
}

// payloads are valid and invalid payloads of a peer.
func payloads() [][]byte {
	msg := []byte(strings.Repeat("hello ", 20))
	bomb := payload(1, make([]byte, 1<<20))
	return [][]byte{
		{0},
		{1},
		{2},
		{3},
		append([]byte{0}, msg...), payload(1, msg), payload(2, msg), payload(1, nil), payload(2, nil),
		header(msg), bomb, payload(2, make([]byte, 1<<20)), payload(1, bomb), append([]byte{1}, tables(3)...),
	}
}

func TestUnpack(t *testing.T) {
	const limit = 120
	msg := []byte(strings.Repeat("hello ", 20)) // just as long
	tests := []struct {
		name    string
		payload []byte
		want    []byte
		err     error
	}{
		{"plain", append([]byte{0}, msg...), msg, nil},
		{"plain, empty", []byte{0}, []byte{}, nil},
		{"plain, too large", append([]byte{0, 0}, msg...), nil, codec.ErrTooLarge},
		{"deflate", payload(1, msg), msg, nil},
		{"deflate, empty", payload(1, nil), []byte{}, nil},
		{"deflate, too large", payload(1, append(msg, 0)), nil, codec.ErrTooLarge},
		{"deflate, bomb", payload(1, make([]byte, 1<<20)), nil, codec.ErrTooLarge},
		{"deflate, several blocks", append([]byte{1}, "\x00\x02\x00\xfd\xffhe\x01\x03\x00\xfc\xffllo"...), []byte("hello"), nil},
		{"deflate, nothing", []byte{1}, nil, codec.ErrCorrupt},
		{"deflate, cut off", payload(1, msg)[:10], nil, codec.ErrCorrupt},
		{"deflate, last block missing", append([]byte{1}, "\x00\x02\x00\xfd\xffhe"...), nil, codec.ErrCorrupt},
		{"deflate, bytes behind it", append(payload(1, msg), 0), nil, codec.ErrCorrupt},
		{"deflate, unknown block", []byte{1, 7}, nil, codec.ErrCorrupt},
		{"deflate, too far back", []byte{1, 0x4b, 0x04, 0x61, 0x00}, nil, codec.ErrCorrupt},
		{"deflate, tables", append([]byte{1}, tables(3)...), []byte{}, nil},
		{"gzip", payload(2, msg), msg, nil},
		{"gzip, empty", payload(2, nil), []byte{}, nil},
		{"gzip, all fields", header(msg), msg, nil},
		{"gzip, too large", payload(2, append(msg, 0)), nil, codec.ErrTooLarge},
		{"gzip, two members", append(payload(2, msg[:60]), payload(2, msg[60:])[1:]...), nil, codec.ErrCorrupt},
		{"gzip, bytes behind it", append(payload(2, msg), 0), nil, codec.ErrCorrupt},
		{"gzip, cut off", payload(2, msg)[:len(payload(2, msg))-1], nil, codec.ErrCorrupt},
		{"gzip, no trailer", payload(2, msg)[:len(payload(2, msg))-8], nil, codec.ErrCorrupt},
		{"gzip, wrong checksum", change(payload(2, msg), -8), nil, codec.ErrCorrupt},
		{"gzip, wrong size", change(payload(2, msg), -1), nil, codec.ErrCorrupt},
		{"gzip, wrong magic", change(payload(2, msg), 1), nil, codec.ErrCorrupt},
		{"gzip, wrong magic, second byte", change(payload(2, msg), 2), nil, codec.ErrCorrupt},
		{"gzip, unknown method", change(payload(2, msg), 3), nil, codec.ErrCorrupt},
		{"gzip, reserved flag", change(payload(2, msg), 4), nil, codec.ErrCorrupt},
		{"gzip, wrong checksum of the header", change(header(msg), 5), nil, codec.ErrCorrupt},
		{"gzip, extra field beyond the end", append([]byte{2}, "\x1f\x8b\x08\x04\x00\x00\x00\x00\x00\x03\xff\xff\x00"...), nil, codec.ErrCorrupt},
		{"gzip, extra field and name beyond the end", append([]byte{2}, "\x1f\x8b\x08\x0c\x00\x00\x00\x00\x00\x03\xff\xff\x00"...), nil, codec.ErrCorrupt},
		{"gzip, name without end", append([]byte{2}, "\x1f\x8b\x08\x08\x00\x00\x00\x00\x00\x03name"...), nil, codec.ErrCorrupt},
		{"unknown form", append([]byte{3}, msg...), nil, codec.ErrCorrupt},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			got, err := unpack(limit, tt.payload)
			if !bytes.Equal(got, tt.want) || (got == nil) != (tt.want == nil) || !errors.Is(err, tt.err) || errors.Is(err, io.EOF) {
				t.Errorf("%q, %v", got, err)
			}
		})
	}
	for size := 1; size < len(header(msg)); size++ {
		if _, err := unpack(limit, header(msg)[:size]); err == nil {
			t.Errorf("gzip cut off after %d bytes was understood", size)
		}
	}
}

// change returns p with one byte changed.
func change(p []byte, at int) []byte {
	if at < 0 {
		at += len(p)
	}
	p[at] ^= 0x80
	return p
}

// The decompressors of the standard library read the payloads that are written. A payload is plain if that is no larger.
func TestPack(t *testing.T) {
	text := []byte(strings.Repeat("hello ", 50))
	tests := []struct {
		name string
		o    *codec.CompressionOptions
		msg  []byte
		form byte
	}{
		{"default", nil, text, 1},
		{"gzip", &codec.CompressionOptions{Format: codec.Gzip}, text, 2},
		{"best", &codec.CompressionOptions{Level: 9}, text, 1},
		{"off", &codec.CompressionOptions{Level: -1}, text, 0},
		{"below the threshold", nil, text[:255], 0},
		{"at the threshold", nil, text[:256], 1},
		{"no threshold", &codec.CompressionOptions{Threshold: -1}, text[:150], 1},
		{"does not shrink", nil, random(1, 300), 0},
		{"empty", &codec.CompressionOptions{Threshold: -1}, []byte{}, 0},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			c := codec.NewCompression(tt.o).New(codec.Length{})
			frame, err := c.AppendEncode([]byte("before"), tt.msg)
			if err != nil || string(frame[:6]) != "before" || frame[10] != tt.form {
				t.Fatalf("%q, %v", frame, err)
			}
			var r io.Reader = bytes.NewReader(frame[11:])
			switch tt.form {
			case 1:
				r = flate.NewReader(r)
			case 2:
				if r, err = gzip.NewReader(r); err != nil {
					t.Fatal(err)
				}
			}
			if got, err := io.ReadAll(r); err != nil || !bytes.Equal(got, tt.msg) {
				t.Errorf("%q, %v", got, err)
			}
		})
	}
}

// The limits in both directions, and the limit of the inner codec.
func TestCompressedLimits(t *testing.T) {
	comp := codec.NewCompression(&codec.CompressionOptions{Max: 300})
	small, large := comp.New(codec.Length{Max: 300}), comp.New(codec.Length{Max: 301})
	if _, err := small.AppendEncode(nil, make([]byte, 301)); !errors.Is(err, codec.ErrTooLarge) {
		t.Errorf("over Max: %v", err)
	}
	if out, err := small.AppendEncode([]byte("x"), random(1, 300)); !errors.Is(err, codec.ErrTooLarge) || string(out) != "x" {
		t.Errorf("over the limit of the inner codec: %q, %v", out, err)
	}
	if _, err := large.AppendEncode(nil, random(1, 300)); err != nil {
		t.Errorf("at both limits: %v", err)
	}
	unlimited := codec.NewCompression(&codec.CompressionOptions{Max: -1}).New(codec.Length{Max: -1})
	frame, err := unlimited.AppendEncode(nil, make([]byte, 1<<20))
	if msg, n, err2 := unlimited.Decode(frame); err != nil || err2 != nil || n != len(frame) || !bytes.Equal(msg, make([]byte, 1<<20)) {
		t.Errorf("no limit: %d bytes, %d, %v, %v", len(msg), n, err, err2)
	}
}

// skipper is an inner codec whose frames do not all contain a message, like that of a protocol with pings.
type skipper struct{ codec.Length }

func (c skipper) Decode(in []byte) ([]byte, int, error) {
	msg, n, err := c.Length.Decode(in)
	if len(msg) == 1 {
		return nil, n, err
	}
	return msg, n, err
}

func TestCompressedWithoutMessage(t *testing.T) {
	c := codec.NewCompression(nil).New(skipper{})
	if msg, n, err := c.Decode([]byte("\x00\x00\x00\x01p")); msg != nil || n != 5 || err != nil {
		t.Errorf("%q, %d, %v", msg, n, err)
	}
	if _, _, err := c.Decode([]byte("\x00\x00\x00\x00")); !errors.Is(err, codec.ErrCorrupt) {
		t.Errorf("a frame without payload: %v", err)
	}
}

// A message is valid until the next Decode of its own codec, whatever other codecs do meanwhile. A violation shows in the contents or under
// -race.
func TestCompressedConcurrently(t *testing.T) {
	comp := codec.NewCompression(nil)
	var wg sync.WaitGroup
	for i := range 4 {
		wg.Go(func() {
			c, want := comp.New(codec.Length{}), bytes.Repeat([]byte{byte(i)}, 1000*(i+1))
			for range 200 {
				frame, err := c.AppendEncode(nil, want)
				if err != nil {
					t.Error(err)
					return
				}
				msg, _, err := c.Decode(frame)
				runtime.Gosched()
				if err != nil || !bytes.Equal(msg, want) {
					t.Errorf("%d bytes, %v", len(msg), err)
					return
				}
				if i%2 == 0 {
					c.Rest()
					c.Rest()
				}
			}
		})
	}
	testwait.Return(t, wg.Wait)
}

func TestBufferReleasedTwicePanics(t *testing.T) {
	defer func() {
		if recover() == nil {
			t.Error("a buffer was released twice")
		}
	}()
	codec.ReleaseTwice(codec.NewCompression(nil))
}
