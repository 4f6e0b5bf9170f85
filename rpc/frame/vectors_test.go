package frame_test

import (
	"encoding/hex"
	"strings"
	"testing"

	"github.com/sluice-push/sluice/rpc/frame"
)

// unhex returns the bytes of hexadecimal digits; spaces and bars are for the reader.
func unhex(s string) []byte {
	b, err := hex.DecodeString(strings.NewReplacer(" ", "", "|", "", "\n", "", "\t", "").Replace(s))
	if err != nil {
		panic(err)
	}
	return b
}

// echo is the body of the call Echo("hi") in the binary protocol.
const echo = "0b 0001 00000002 6869 00"

// pair returns a list of one pair.
func pair(key, value string) []frame.Pair {
	return []frame.Pair{{Key: []byte(key), Value: []byte(value)}}
}

// call returns the frame of the call Echo("hi") in the binary protocol, changed.
func call(change func(*frame.Frame)) frame.Frame {
	f := frame.Frame{Kind: frame.Call, Sequence: 7, Method: []byte("Echo"), Body: unhex(echo)}
	change(&f)
	return f
}

// vectors are frames as other programs write them: Apache's libraries 0.25 for Go and 0.24 for Node, gopkg 0.1.10 and Kitex 0.16.1; and the forms
// that follow from them.
var vectors = []struct {
	name, wire string
	want       frame.Frame
}{
	{
		"THeader of Apache for Go",
		"00000030 0fff 0000 00000007 0003 | 00 00 01 01 01 6b 02 67 6f 000000 | 80010001 00000004 4563686f 00000007" + echo,
		call(func(f *frame.Frame) {
			f.Dialect = frame.Dialect{Framing: frame.THeader, Protocol: frame.Binary}
			f.HeaderSequence, f.Pairs = 7, pair("k", "go")
		}),
	},
	{
		"THeader of Apache for Node, which never sets the sequence id, in a TFramedTransport",
		"00000031 0000002d 0fff 0000 00000000 0001 00000000 | 80010001 00000004 4563686f 00000001 0b 0001 00000007 68656c6c6f2030 00",
		call(func(f *frame.Frame) {
			f.Dialect = frame.Dialect{Framing: frame.THeader, Protocol: frame.Binary, Wrapped: true}
			f.Sequence, f.Body = 1, unhex("0b 0001 00000007 68656c6c6f2030 00")
		}),
	},
	{
		"exception of Kitex in Protobuf",
		"0000002d 1000 0000 00000007 0001 00000000 | 0000001b 90010003 00000004 4563686f 00000007 | 0801 1207 6e6f2073756368",
		call(func(f *frame.Frame) {
			f.Dialect = frame.Dialect{Framing: frame.TTHeader, Protocol: frame.Protobuf, Wrapped: true}
			f.Kind, f.HeaderSequence, f.Body = frame.Exception, 7, unhex("0801 1207 6e6f2073756368")
		}),
	},
	{
		"exception of Kitex in binary, with another length",
		"00000038 1000 0000 00000007 0001 00000000 | 00000026 80010003 00000004 4563686f 00000007 |" +
			"0b 0001 00000007 6e6f2073756368 08 0002 00000001 00",
		call(func(f *frame.Frame) {
			f.Dialect = frame.Dialect{Framing: frame.TTHeader, Protocol: frame.Binary, Wrapped: true}
			f.Kind, f.HeaderSequence, f.Body = frame.Exception, 7, unhex("0b 0001 00000007 6e6f2073756368 08 0002 00000001 00")
		}),
	},
	{
		"exception with the sequence id 0, which is no control frame",
		"00000023 1000 0000 00000000 0001 00000000 | 80010003 00000004 4563686f 00000000 00 0000 00 00",
		call(func(f *frame.Frame) {
			f.Dialect = frame.Dialect{Framing: frame.TTHeader, Protocol: frame.Binary}
			f.Kind, f.Sequence, f.Body = frame.Exception, 0, make([]byte, 5)
		}),
	},
	{
		"call with the sequence id 0, which is no control frame",
		"0000001f 1000 0000 00000000 0001 00000000 | 80010001 00000004 4563686f 00000000 00",
		call(func(f *frame.Frame) {
			f.Dialect, f.Sequence, f.Body = frame.Dialect{Framing: frame.TTHeader, Protocol: frame.Binary}, 0, []byte{0}
		}),
	},
	{
		"THeader, compact",
		"0000001b 0fff 0000 00000007 0001 | 02 00 00 00 | 82 21 07 04 4563686f 18 02 6869 00",
		call(func(f *frame.Frame) {
			f.Dialect = frame.Dialect{Framing: frame.THeader, Protocol: frame.Compact}
			f.HeaderSequence, f.ProtocolID, f.Body = 7, 2, unhex("18 02 6869 00")
		}),
	},
	{
		"TTHeader of gopkg",
		"00000033 1000 0001 00000007 0006 | 00 00 | 01 0001 0001 6b 0001 76 | 10 0001 0009 0004 4563686f | 0000 |" +
			"80010001 00000004 4563686f 00000007 00",
		call(func(f *frame.Frame) {
			f.Dialect = frame.Dialect{Framing: frame.TTHeader, Protocol: frame.Binary}
			f.HeaderSequence, f.Flags, f.Pairs, f.Body = 7, frame.FlagOutOfOrder, pair("k", "v"), []byte{0}
			f.Ints = []frame.IntPair{{Key: frame.KeyMethod, Value: []byte("Echo")}}
		}),
	},
	{
		"TTHeader of Kitex with Protobuf",
		"00000026 1000 0000 00000007 0001 | 00 00 0000 | 00000014 90010001 00000004 4563686f 00000007 0a02 6869",
		call(func(f *frame.Frame) {
			f.Dialect = frame.Dialect{Framing: frame.TTHeader, Protocol: frame.Protobuf, Wrapped: true}
			f.HeaderSequence, f.Body = 7, unhex("0a02 6869")
		}),
	},
	{
		"control frame of Kitex",
		"0000002b 1000 0000 00000000 0004 | 00 00 01 0001 0005 6372727374 0001 31 00 | 80010002 00000004 6e6f6e65 00000000 00",
		frame.Frame{
			Dialect: frame.Dialect{Framing: frame.TTHeader, Protocol: frame.Binary}, Kind: frame.Control, Method: []byte("none"),
			Pairs: pair("crrst", "1"), Body: []byte{0},
		},
	},
	{
		"TTHeader with a token and a persistent pair",
		"00000037 1000 0000 00000007 0007 | 00 00 | 11 0002 6162 | 01 0001 000d 5250435f504552534953545f 6b 0001 76 |" +
			"80010001 00000004 4563686f 00000007 00",
		call(func(f *frame.Frame) {
			f.Dialect = frame.Dialect{Framing: frame.TTHeader, Protocol: frame.Binary}
			f.HeaderSequence, f.Token, f.Pairs, f.Body = 7, []byte("ab"), pair("k", "v"), []byte{0}
			f.Pairs[0].Persistent = true
		}),
	},
	{
		"framed binary", "0000001a 80010001 00000004 4563686f 00000007" + echo,
		call(func(f *frame.Frame) { f.Dialect = frame.Dialect{Framing: frame.Framed, Protocol: frame.Binary} }),
	},
	{
		"framed compact, one-way", "0000000d 82 81 07 04 4563686f 18 02 6869 00",
		call(func(f *frame.Frame) {
			f.Dialect, f.Kind = frame.Dialect{Framing: frame.Framed, Protocol: frame.Compact}, frame.OneWay
			f.Body = unhex("18 02 6869 00")
		}),
	},
	{
		"framed Protobuf of Kitex", "00000014 90010001 00000004 4563686f 00000007 0a02 6869",
		call(func(f *frame.Frame) {
			f.Dialect, f.Body = frame.Dialect{Framing: frame.Framed, Protocol: frame.Protobuf}, unhex("0a02 6869")
		}),
	},
	{
		"unframed binary", "80010001 00000004 4563686f 00000007" + echo,
		call(func(f *frame.Frame) { f.Dialect = frame.Dialect{Framing: frame.Unframed, Protocol: frame.Binary} }),
	},
	{
		"unframed compact, a negative sequence id", "82 21 ffffffff0f 04 4563686f 18 02 6869 00",
		call(func(f *frame.Frame) {
			f.Dialect, f.Sequence = frame.Dialect{Framing: frame.Unframed, Protocol: frame.Compact}, -1
			f.Body = unhex("18 02 6869 00")
		}),
	},
	{
		"part of a stream of Kitex",
		"00000018 1000 0002 00000007 0003 | 10 00 | 10 0001 001b 0001 33 | 0000 | 0a0b",
		frame.Frame{
			Dialect: frame.Dialect{Framing: frame.TTHeader, Protocol: frame.ThriftStruct}, Kind: frame.Stream, Sequence: 7,
			HeaderSequence: 7, Flags: frame.FlagStreaming, Ints: []frame.IntPair{{Key: frame.KeyFrameType, Value: []byte("3")}},
			Body: []byte{0x0a, 0x0b},
		},
	},
}

// Frames of other programs are read, and written again byte for byte.
func TestVectors(t *testing.T) {
	for _, v := range vectors {
		t.Run(v.name, func(t *testing.T) {
			wire := unhex(v.wire)
			c := frame.New(nil)
			if _, n, err := c.Decode(wire); n != len(wire) || err != nil {
				t.Fatalf("%d of %d bytes, %v", n, len(wire), err)
			}
			if got := show(c.Frame()); got != show(&v.want) {
				t.Errorf("%s\nwant\n%s", got, show(&v.want))
			}
			for from, f := range map[string]*frame.Frame{"the frame": &v.want, "what was decoded": c.Frame()} {
				if out, err := f.Append(nil); err != nil || hex.EncodeToString(out) != hex.EncodeToString(wire) {
					t.Errorf("%s is written as\n%x, %v\nwant\n%x", from, out, err, wire)
				}
			}
		})
	}
}
