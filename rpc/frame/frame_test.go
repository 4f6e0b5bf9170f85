package frame_test

import (
	"bytes"
	"math/rand/v2"
	"testing"

	"github.com/sluice-push/sluice/rpc/frame"
	"pgregory.net/rapid"
)

// drawFrame returns a random frame, of any dialect, that can be encoded.
func drawFrame(t *rapid.T) *frame.Frame {
	d := rapid.SampledFrom(dialects).Draw(t, "dialect")
	f := &frame.Frame{Dialect: d, Kind: rapid.SampledFrom(kinds(d)).Draw(t, "kind")}
	f.SetMethod(rapid.StringN(0, 20, 40).Draw(t, "method"))
	if f.Kind != frame.Control {
		f.Sequence = rapid.Int32Min(1).Draw(t, "sequence")
		if rapid.Bool().Draw(t, "negative") {
			f.Sequence = -f.Sequence
		}
	}
	text := rapid.StringN(0, 12, 24)
	if d.Framing.HasHeader() {
		f.Flags = rapid.SampledFrom([]uint16{0, frame.FlagOutOfOrder, 0xFFFD}).Draw(t, "flags")
		for range rapid.IntRange(0, 4).Draw(t, "pairs") {
			f.Add(text.Draw(t, "key"), text.Draw(t, "value"))
			f.Pairs[len(f.Pairs)-1].Persistent = rapid.Bool().Draw(t, "persistent")
		}
		f.Transforms = rapid.SliceOfN(rapid.SampledFrom([]frame.Transform{frame.Zlib, frame.Gzip}), 0, 2).Draw(t, "transforms")
		if f.Kind != frame.Control && d.Protocol != frame.Bare && rapid.Bool().Draw(t, "has header sequence") {
			f.HeaderSequence = rapid.Int32().Draw(t, "header sequence")
		}
	}
	if d.Framing == frame.THeader {
		f.Flags |= rapid.SampledFrom([]uint16{0, frame.FlagStreaming}).Draw(t, "more flags") // which means nothing here
		for i := range f.Transforms {
			f.Transforms[i] = frame.Zlib
		}
	}
	if d.Framing == frame.TTHeader {
		for range rapid.IntRange(0, 4).Draw(t, "ints") {
			f.AddInt(rapid.Uint16Range(100, 1<<16-1).Draw(t, "int"), text.Draw(t, "value"))
		}
		if rapid.Bool().Draw(t, "has token") {
			f.Token = []byte(text.Draw(t, "token"))
		}
	}
	f.Body = rapid.SliceOfN(rapid.Byte(), 0, 100).Draw(t, "body")
	if d.Framing == frame.Unframed {
		f.Body = thriftStruct(rand.New(rand.NewPCG(rapid.Uint64().Draw(t, "seed"), 0)), d.Protocol, 4)
	}
	return f
}

// said returns what a decoded copy of a frame has to say.
func said(f *frame.Frame) string {
	g := *f
	if f.Dialect.Framing == frame.THeader { // persistent pairs are a block of their own, behind the others
		g.Pairs = nil
		for _, persistent := range []bool{false, true} {
			for _, p := range f.Pairs {
				if p.Persistent == persistent {
					g.Pairs = append(g.Pairs, p)
				}
			}
		}
	}
	if !f.Dialect.Framing.HasHeader() {
		g.HeaderSequence = 0
	}
	switch f.Dialect.Protocol {
	case frame.ThriftStruct, frame.ProtobufStruct, frame.Bare:
		g.HeaderSequence = f.Sequence
		switch f.Kind { // the method of a frame about the connection is not written, and that of a stream is an integer key
		case frame.Control:
			g.Method = nil
		case frame.Stream:
			g.Method = f.Int(frame.KeyMethod)
		}
	}
	if f.Kind == frame.Stream {
		g.Flags |= frame.FlagStreaming
	}
	return show(&g)
}

// A stream of frames of all dialects is read as it was written, whatever the pieces are in which it arrives.
func TestRoundTrip(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		var stream []byte
		var ends []int
		var want []string
		for range rapid.IntRange(1, 3).Draw(rt, "frames") {
			f := drawFrame(rt)
			before := show(f)
			out, err := f.Append(stream)
			if err != nil {
				rt.Fatalf("%s: %v", before, err)
			}
			if show(f) != before || !bytes.Equal(out[:len(stream)], stream) {
				rt.Fatalf("encoding changed the frame or the bytes before it: %s", before)
			}
			stream, want, ends = out, append(want, said(f)), append(ends, len(out))
		}
		for _, step := range []int{1, 2, 3, 7, len(stream) + 1} {
			got, used, err := drain(t, nil, stream, step, ends)
			if err != nil || used != len(stream) || len(got) != len(want) {
				rt.Fatalf("in steps of %d: %d of %d frames, %d of %d bytes, %v", step, len(got), len(want), used, len(stream), err)
			}
			for i := range want {
				if got[i] != want[i] {
					rt.Fatalf("in steps of %d:\n%s\ncame back as\n%s", step, want[i], got[i])
				}
			}
		}
	})
}

// A frame that is complete is found at whatever byte the stream was split in two.
func TestSplitEverywhere(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	for _, d := range dialects {
		t.Run(d.String(), func(t *testing.T) {
			f := sample(r, d)
			whole, err := f.Append(nil)
			if err != nil {
				t.Fatal(err)
			}
			two := append(bytes.Clone(whole), whole...)
			for at := range whole {
				c := frame.New(nil)
				if body, n, err := c.Decode(two[:at:at]); n >= 0 || body != nil || err != nil || at-n > len(whole) {
					t.Fatalf("%d of %d bytes: %q, %d, %v", at, len(whole), body, n, err)
				}
				if _, n, err := c.Decode(two); n != len(whole) || err != nil {
					t.Fatalf("split at %d: %d of %d bytes, %v", at, n, len(whole), err)
				}
				if got := show(c.Frame()); got != said(f) {
					t.Fatalf("split at %d:\n%s\ncame back as\n%s", at, said(f), got)
				}
			}
		})
	}
}

// sample returns a frame of a dialect with some of everything.
func sample(r *rand.Rand, d frame.Dialect) *frame.Frame {
	f := &frame.Frame{Dialect: d, Kind: kinds(d)[0], Sequence: 77, HeaderSequence: 77}
	f.SetMethod("Echo")
	if d.Framing.HasHeader() {
		f.Add("trace", "0123456789")
		f.Add("tenant", "blue")
		f.Pairs[1].Persistent = true
	}
	if d.Framing == frame.TTHeader {
		f.AddInt(frame.KeyFrameType, "3")
		f.AddInt(12, "500")
		f.Token = []byte("secret")
		f.Flags = frame.FlagOutOfOrder
	}
	for len(f.Body) < 60 || len(f.Body) > 600 {
		f.Body = thriftStruct(r, d.Protocol, 5)
	}
	return f
}

// An answer is in the dialect of the call, with each transform once, and needs nothing of the call afterwards.
func TestAnswer(t *testing.T) {
	r := rand.New(rand.NewPCG(3, 4))
	for _, d := range dialects {
		if kinds(d)[0] != frame.Call {
			continue
		}
		t.Run(d.String(), func(t *testing.T) {
			call := sample(r, d)
			call.HeaderSequence = 0
			if d.Framing == frame.TTHeader {
				call.HeaderSequence = 78
				call.Transforms = []frame.Transform{frame.Zlib, frame.Gzip, frame.Zlib}
			}
			wire, err := call.Append(nil)
			if err != nil {
				t.Fatal(err)
			}
			c := frame.New(nil)
			if _, n, err := c.Decode(wire); n != len(wire) || err != nil {
				t.Fatal(n, err)
			}
			reply := frame.Frame{Pairs: []frame.Pair{{}}, Token: []byte("old")}
			reply.Answer(c.Frame(), frame.Reply)
			want := frame.Frame{
				Dialect: d, Kind: frame.Reply, Sequence: call.Sequence, HeaderSequence: call.HeaderSequence, Method: []byte("Echo"),
				Flags: call.Flags, Transforms: call.Transforms[:min(2, len(call.Transforms))],
			}
			if d.Protocol == frame.Bare {
				want.Sequence, want.HeaderSequence = 77, 77
			}
			for i := range wire {
				wire[i] = 0xAA
			}
			if got := show(&reply); got != show(&want) {
				t.Errorf("%s\nwant\n%s", got, show(&want))
			}
		})
	}
}

// Values are found by their keys, and text that was added stays when the storage grows and when it is used again.
func TestStorage(t *testing.T) {
	var f frame.Frame
	for range 3 {
		f.Reset()
		for i := range 100 {
			f.Add(string(rune('a'+i%26))+string(rune('a'+i/26)), "value")
			f.AddInt(uint16(i), string(rune('A'+i%26)))
		}
		f.SetMethod("Method")
		if got := f.Value("bb"); string(got) != "value" {
			t.Errorf("Value(bb) is %q", got)
		}
		if got := f.Int(25); string(got) != "Z" {
			t.Errorf("Int(25) is %q", got)
		}
		if f.Value("none") != nil || f.Int(1000) != nil || string(f.Method) != "Method" {
			t.Errorf("a value that was never set, or the method %q", f.Method)
		}
	}
}

// What is appended to a slice of a decoded frame does not overwrite the bytes of the connection behind it.
func TestAppendingOverwritesNothing(t *testing.T) {
	r := rand.New(rand.NewPCG(9, 10))
	for _, d := range dialects {
		wire, err := sample(r, d).Append(nil)
		if err != nil {
			t.Fatal(err)
		}
		in := append(bytes.Clone(wire), wire...)
		c := frame.New(nil)
		if _, n, err := c.Decode(in); n != len(wire) || err != nil {
			t.Fatal(n, err)
		}
		f := c.Frame()
		slices := [][]byte{f.Method, f.Token, f.Body}
		for _, p := range f.Pairs {
			slices = append(slices, p.Key, p.Value)
		}
		for _, p := range f.Ints {
			slices = append(slices, p.Value)
		}
		for _, s := range slices {
			_ = append(s, 0xEE)
		}
		if !bytes.Equal(in[:len(wire)], wire) || !bytes.Equal(in[len(wire):], wire) {
			t.Errorf("%v: the bytes of the connection have changed", d)
		}
	}
}
