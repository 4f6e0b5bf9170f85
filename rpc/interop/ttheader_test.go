package interop_test

import (
	"bytes"
	"context"
	"encoding/binary"
	"maps"
	"testing"

	"github.com/cloudwego/gopkg/protocol/ttheader"
	"github.com/sluice-push/sluice/rpc/frame"
	"pgregory.net/rapid"
)

// message is a call in the binary protocol: Echo, without arguments, with the sequence id 5.
const message = "\x80\x01\x00\x01\x00\x00\x00\x04Echo\x00\x00\x00\x05\x00"

// theirs returns a random header, and the bytes of a frame with it, as gopkg writes them.
func theirs(t *rapid.T) (ttheader.EncodeParam, []byte) {
	text := rapid.StringN(0, 30, 60)
	key := rapid.OneOf(text, rapid.SampledFrom([]string{"RPC_PERSIST_user", "RPC_PERSIST_", "RPC_TRANSIT_x", ttheader.GDPRToken, "crrst"}))
	p := ttheader.EncodeParam{
		Flags:      ttheader.HeaderFlags(rapid.Uint16().Draw(t, "flags")) &^ ttheader.HeaderFlagsStreaming,
		SeqID:      rapid.Int32().Draw(t, "sequence"),
		ProtocolID: rapid.SampledFrom([]ttheader.ProtocolID{0, 3, 4}).Draw(t, "protocol"),
		IntInfo:    rapid.MapOfN(rapid.Uint16(), text, 0, 10).Draw(t, "ints"),
		StrInfo:    rapid.MapOfN(key, text, 0, 10).Draw(t, "strings"),
	}
	if rapid.Bool().Draw(t, "streaming") {
		p.Flags |= ttheader.HeaderFlagsStreaming
		p.ProtocolID = rapid.SampledFrom([]ttheader.ProtocolID{ttheader.ProtocolIDThriftStruct, ttheader.ProtocolIDProtobufStruct}).Draw(t, "struct")
	}
	wire, err := ttheader.EncodeToBytes(context.Background(), p)
	if err != nil {
		t.Fatal(err)
	}
	wire = append(wire, message...)
	binary.BigEndian.PutUint32(wire, uint32(len(wire)-4)) // the caller's task
	return p, wire
}

// Frames of gopkg are read, say the same, and are written again byte for byte.
func TestReadsGopkg(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		p, wire := theirs(t)
		c := frame.New(nil)
		body, n, err := c.Decode(wire)
		if n != len(wire) || err != nil {
			t.Fatalf("%d of %d bytes of %+v: %v", n, len(wire), p, err)
		}
		f := c.Frame()
		if f.Flags != uint16(p.Flags) || f.HeaderSequence != p.SeqID || f.ProtocolID != uint8(p.ProtocolID) {
			t.Fatalf("%+v was read as %+v", p, f)
		}
		if p.Flags&ttheader.HeaderFlagsStreaming != 0 {
			if f.Kind != frame.Stream || string(body) != message {
				t.Fatalf("a part of a stream was read as %v with the body %q", f.Kind, body)
			}
		} else if f.Kind != frame.Call || string(f.Method) != "Echo" || f.Sequence != 5 || string(body) != "\x00" {
			t.Fatalf("the call was read as %v %s %d with the body %q", f.Kind, f.Method, f.Sequence, body)
		}
		text, ints := infos(f)
		if !maps.Equal(text, p.StrInfo) || !maps.Equal(ints, p.IntInfo) {
			t.Fatalf("%+v was read as %v, %v", p, text, ints)
		}
		if out, err := f.Append(nil); err != nil || !bytes.Equal(out, wire) {
			t.Fatalf("written again:\n%x, %v\nwant\n%x", out, err, wire)
		}
	})
}

// infos returns the pairs of a frame as gopkg has them.
func infos(f *frame.Frame) (text map[string]string, ints map[uint16]string) {
	text, ints = make(map[string]string), make(map[uint16]string)
	for _, p := range f.Pairs {
		key := string(p.Key)
		if p.Persistent {
			key = "RPC_PERSIST_" + key
		}
		text[key] = string(p.Value)
	}
	for _, p := range f.Ints {
		ints[p.Key] = string(p.Value)
	}
	if f.Token != nil {
		text[ttheader.GDPRToken] = string(f.Token)
	}
	return text, ints
}

// Frames that package frame writes are read by gopkg, and say the same.
func TestGopkgReads(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		text := rapid.StringN(0, 30, 60)
		f := frame.Frame{
			Dialect: rapid.SampledFrom([]frame.Dialect{
				{Framing: frame.TTHeader, Protocol: frame.Binary},
				{Framing: frame.TTHeader, Protocol: frame.Binary, Wrapped: true},
				{Framing: frame.TTHeader, Protocol: frame.Protobuf, Wrapped: true},
			}).Draw(t, "dialect"),
			Kind: frame.Call, Sequence: 5, HeaderSequence: rapid.Int32().Draw(t, "sequence"),
			Flags:      rapid.Uint16().Draw(t, "flags") &^ frame.FlagStreaming,
			ProtocolID: rapid.SampledFrom([]uint8{0, 3, 4}).Draw(t, "protocol"),
			Method:     []byte(text.Draw(t, "method")), Body: []byte(text.Draw(t, "body")),
		}
		for key, value := range rapid.MapOfN(text, text, 0, 10).Draw(t, "pairs") {
			f.Add(key, value)
			f.Pairs[len(f.Pairs)-1].Persistent = rapid.Bool().Draw(t, "persistent")
		}
		for key, value := range rapid.MapOfN(rapid.Uint16(), text, 0, 10).Draw(t, "ints") {
			f.AddInt(key, value)
		}
		if rapid.Bool().Draw(t, "has token") {
			f.Token = []byte(text.Draw(t, "token"))
		}
		wire, err := f.Append(nil)
		if err != nil {
			t.Fatal(err)
		}
		p, err := ttheader.DecodeFromBytes(context.Background(), wire)
		if err != nil {
			t.Fatalf("%x: %v", wire, err)
		}
		strings, ints := infos(&f)
		if uint16(p.Flags) != f.Flags || p.SeqID != f.HeaderSequence || uint8(p.ProtocolID) != f.ProtocolID ||
			p.HeaderLen+p.PayloadLen != len(wire) || !maps.Equal(p.StrInfo, strings) || !maps.Equal(p.IntInfo, ints) {
			t.Fatalf("%+v was read as %+v", f, p)
		}
	})
}

// What gopkg refuses is refused, too, and the other way round, but for what one of the two does not have: transforms and compact messages, the
// protocol id 20 hex, and limits.
func TestRefusesLikeGopkg(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		p, wire := theirs(t)
		end := 14 + 4*int(binary.BigEndian.Uint16(wire[12:]))
		for range rapid.IntRange(1, 3).Draw(t, "changes") {
			wire[rapid.IntRange(14, end-1).Draw(t, "where")] = rapid.Byte().Draw(t, "what")
		}
		if wire[15] != 0 || wire[14] == 2 || wire[14] == 0x20 {
			return // transforms, or a protocol that gopkg does not have
		}
		if streaming := p.Flags&ttheader.HeaderFlagsStreaming != 0; streaming != (wire[14] >= 0x10) {
			return // gopkg does not look at what belongs together
		}
		_, wantErr := ttheader.DecodeFromBytes(context.Background(), wire)
		c := frame.New(&frame.Options{MaxPair: -1, MaxPairs: -1})
		if _, _, err := c.Decode(wire); (err == nil) != (wantErr == nil) {
			t.Fatalf("%x: %v, gopkg: %v", wire, err, wantErr)
		}
	})
}
