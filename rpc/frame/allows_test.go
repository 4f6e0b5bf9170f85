package frame_test

import (
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/sluice-push/sluice/rpc/frame"
)

// What Allows allows is decoded, and what it does not allow is not decoded. Compressed frames are decoded if they are allowed.
func TestAllows(t *testing.T) {
	dialects := []frame.Dialect{
		{Framing: frame.THeader, Protocol: frame.Binary},
		{Framing: frame.THeader, Protocol: frame.Compact, Wrapped: true},
		{Framing: frame.TTHeader, Protocol: frame.Binary},
		{Framing: frame.TTHeader, Protocol: frame.Protobuf, Wrapped: true},
		{Framing: frame.TTHeader, Protocol: frame.Bare},
		{Framing: frame.Framed, Protocol: frame.Binary},
		{Framing: frame.Unframed, Protocol: frame.Compact},
	}
	wide := frame.Options{MaxFrame: 4000, MaxBody: 1000, MaxHeader: 2000, MaxPairs: 10, MaxPair: 200, MaxMethod: 40}
	narrow := frame.Options{MaxFrame: 1, MaxBody: 1, MaxHeader: 1, MaxPairs: 1, MaxPair: 1, MaxMethod: 1}
	rapid.Check(t, func(t *rapid.T) {
		number := func(name string, most int) int { return rapid.IntRange(1, most).Draw(t, name) }
		text := func(name string, most int) string { return strings.Repeat("x", rapid.IntRange(0, most).Draw(t, name)) }
		limits := &frame.Options{
			MaxFrame: number("MaxFrame", 400), MaxBody: number("MaxBody", 400), MaxHeader: number("MaxHeader", 200),
			MaxPairs: number("MaxPairs", 6), MaxPair: number("MaxPair", 60), MaxMethod: number("MaxMethod", 20),
		}
		f := &frame.Frame{Dialect: rapid.SampledFrom(dialects).Draw(t, "dialect"), Kind: frame.Call, Sequence: 5}
		f.SetMethod(text("method", 20))
		if f.Dialect.Framing.HasHeader() {
			f.HeaderSequence = 5
			for range rapid.IntRange(0, 4).Draw(t, "pairs") {
				f.Add(text("key", 50), text("value", 50))
				f.Pairs[len(f.Pairs)-1].Persistent = rapid.Bool().Draw(t, "persistent")
			}
			for range rapid.IntRange(0, 3).Draw(t, "transforms") {
				f.Transforms = append(f.Transforms, frame.Zlib)
			}
		}
		if f.Dialect.Framing == frame.TTHeader && rapid.Bool().Draw(t, "int") {
			f.AddInt(12, text("value", 50))
		}
		body := make([]byte, rapid.IntRange(0, 300).Draw(t, "size"))
		if f.Dialect.Framing == frame.Unframed {
			body = append([]byte{0x18, byte(len(body) % 128)}, make([]byte, len(body)%128+1)...) // a string and the end
		}
		for i := 2; i < len(body)-1 && f.Dialect.Framing != frame.Unframed; i++ {
			body[i] = byte(i*i*i>>3 ^ i<<5) // does not become much smaller
		}
		wire, err := f.AppendEncode(nil, body)
		if err != nil {
			t.Fatal(err)
		}
		if err := frame.New(&wide).Allows(f, len(body)); err != nil {
			t.Fatalf("not allowed, and far below every limit: %v", err)
		}
		if err := frame.New(&narrow).Allows(f, len(body)); err == nil {
			t.Fatal("allowed, and a frame has more than one byte")
		}
		codec := frame.New(limits)
		err = codec.Allows(f, len(body))
		_, n, decodeErr := codec.Decode(wire)
		switch {
		case err == nil && (n != len(wire) || decodeErr != nil):
			t.Fatalf("allowed, and not decoded: %v", decodeErr)
		case err != nil && decodeErr == nil && len(f.Transforms) == 0:
			t.Fatalf("decoded, and not allowed: %v", err)
		}
	})
}
