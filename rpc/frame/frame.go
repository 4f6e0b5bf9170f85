package frame

import (
	"slices"
	"strconv"
)

// Framing says how the bytes of one frame are told from those of the next.
type Framing uint8

// The framings. The package comment has their layouts.
const (
	THeader  Framing = iota + 1 // length, header with magic 0x0FFF, message: Apache Thrift
	TTHeader                    // length, header with magic 0x1000, message: Kitex
	Framed                      // length, message: TFramedTransport of Thrift, and Framed of Kitex
	Unframed                    // messages one after the other: TSocket and TBufferedTransport of Thrift
)

// HasHeader reports whether frames have a header, with a sequence id of its own, flags, transforms and pairs.
func (f Framing) HasHeader() bool { return f == THeader || f == TTHeader }

// String returns the name of the framing.
func (f Framing) String() string {
	switch f {
	case THeader:
		return "THeader"
	case TTHeader:
		return "TTHeader"
	case Framed:
		return "framed"
	case Unframed:
		return "unframed"
	}
	return "framing " + strconv.Itoa(int(f))
}

// Protocol says how the message in a frame is written.
type Protocol uint8

// The protocols. A message of the first three begins with an envelope: kind, method and sequence id. The others have none, and exist in TTHeader
// frames only: the header says it all.
const (
	Binary         Protocol = iota + 1 // Thrift's binary protocol, strict
	Compact                            // Thrift's compact protocol
	Protobuf                           // the envelope of Kitex, in which the body is a Protobuf message
	ThriftStruct                       // only the struct in the binary protocol: streams of Kitex
	ProtobufStruct                     // only the Protobuf message: streams of Kitex
	Bare                               // only the body, of any form: frames between programs that use this package
)

// hasEnvelope reports whether messages begin with an envelope.
func (p Protocol) hasEnvelope() bool { return p >= Binary && p <= Protobuf }

// String returns the name of the protocol.
func (p Protocol) String() string {
	switch p {
	case Binary:
		return "binary"
	case Compact:
		return "compact"
	case Protobuf:
		return "Protobuf"
	case ThriftStruct:
		return "Thrift struct"
	case ProtobufStruct:
		return "Protobuf struct"
	case Bare:
		return "bare"
	}
	return "protocol " + strconv.Itoa(int(p))
}

// Dialect is all that a peer has to be answered in. Dialects can be compared with ==.
type Dialect struct {
	Framing  Framing
	Protocol Protocol
	// Wrapped is set if there is one more length field. In THeader it precedes the whole frame: Thrift's client for Node sends that if a
	// TFramedTransport is around its THeader. In TTHeader it precedes the message: Kitex calls that TTHeaderFramed, and always does it with
	// Protobuf.
	Wrapped bool
}

// String returns the names of the framing and the protocol.
func (d Dialect) String() string {
	name := d.Framing.String() + " " + d.Protocol.String()
	if d.Wrapped {
		name += ", wrapped"
	}
	return name
}

// Kind says what a frame is for. The first four are the message types of Thrift, with the same numbers.
type Kind uint8

// The kinds.
const (
	Call      Kind = iota + 1 // a request that is answered
	Reply                     // the answer
	Exception                 // the answer that the call failed: see AppendException
	OneWay                    // a request that is not answered
	Control                   // a TTHeader frame with the header sequence 0: about the connection, not about a call
	Stream                    // a TTHeader frame with FlagStreaming: a part of a stream. The pair with the key KeyFrameType says which
)

// String returns the name of the kind.
func (k Kind) String() string {
	switch k {
	case Call:
		return "call"
	case Reply:
		return "reply"
	case Exception:
		return "exception"
	case OneWay:
		return "one-way"
	case Control:
		return "control"
	case Stream:
		return "stream"
	}
	return "kind " + strconv.Itoa(int(k))
}

// Flags of TTHeader frames.
const (
	FlagOutOfOrder uint16 = 1 << 0 // replies may come in another order than their calls
	FlagStreaming  uint16 = 1 << 1 // a frame of a stream
)

// Keys of integer pairs that this package knows. Kitex has more: metakey.go of the package ttheader in cloudwego/gopkg.
const (
	KeyMethod    uint16 = 9  // the method of the call
	KeyKind      uint16 = 22 // the kind, as a decimal number
	KeyFrameType uint16 = 27 // the part of a stream: "1" meta, "2" header, "3" data, "4" trailer, "5" reset
)

// persistPrefix marks the keys of pairs that a service passes on to the services that it calls itself.
const persistPrefix = "RPC_PERSIST_"

// Pair is a string key and its value in a header.
type Pair struct {
	Key, Value []byte
	// Persistent asks the receiver to pass the pair on in the calls that it makes for this one. In THeader such pairs are a block of their
	// own; in TTHeader their keys begin with "RPC_PERSIST_", which Key does not include.
	Persistent bool
}

// IntPair is an integer key and its value in a TTHeader header.
type IntPair struct {
	Key   uint16
	Value []byte
}

// Frame is one frame of any dialect: a call, a reply, or whatever else Kind says. The zero value with a Dialect, a Kind and a Method can be
// encoded. A Frame must not be used by several goroutines at once.
//
// The slices of a decoded Frame point into the bytes given to [Codec.Decode], or into a buffer of the [Codec] if the message was compressed.
// They are valid until the next Decode. The lists (Pairs, Ints, Transforms) are storage of the Frame, which the next Decode overwrites.
type Frame struct {
	Dialect Dialect
	Kind    Kind
	// Sequence is the id by which a reply finds its call. Decode takes it from the envelope, or from the header if there is no envelope.
	Sequence int32
	// HeaderSequence is the sequence id in the header, and 0 without a header. It is usually that of the envelope. Thrift's client for Node
	// always sends 0 and has to get it back. Encoding writes it as it is, except with a protocol that has no envelope: then Sequence is written.
	HeaderSequence int32
	// Method is the name of the method. It is empty in a frame without envelope that does not name one.
	Method []byte
	// Flags are the flags in the header: [FlagOutOfOrder] and others.
	Flags uint16
	// ProtocolID is the protocol id in the header. Encoding writes it in TTHeader only, with a protocol that has an envelope, because Kitex
	// gives Protobuf messages the id of binary; zero is always fine. Otherwise the id follows from Dialect.Protocol.
	ProtocolID uint8
	// Transforms are how the message is compressed, in the order in which the sender did it. They need a header.
	Transforms []Transform
	// Pairs are the string keys and values in the header.
	Pairs []Pair
	// Ints are the integer keys and values in the header of a TTHeader frame. With the protocol [Bare], [KeyMethod] and [KeyKind] are not
	// among them: they are in Method and Kind.
	Ints []IntPair
	// Token is the access token in the header of a TTHeader frame; nil is none.
	Token []byte
	// Body is what follows the envelope, or the whole message if there is none.
	Body []byte

	text []byte // what Add, AddInt and Answer have copied
}

// Reset empties the frame and keeps its storage for the next.
func (f *Frame) Reset() {
	clear(f.Pairs) // the slices in them would keep the bytes of the connection alive
	clear(f.Ints)
	*f = Frame{Transforms: f.Transforms[:0], Pairs: f.Pairs[:0], Ints: f.Ints[:0], text: f.text[:0]}
}

// Add adds a pair to Pairs, with copies of key and value.
func (f *Frame) Add(key, value string) {
	f.Pairs = append(f.Pairs, Pair{Key: f.keep(key), Value: f.keep(value)})
}

// AddInt adds a pair to Ints, with a copy of value.
func (f *Frame) AddInt(key uint16, value string) {
	f.Ints = append(f.Ints, IntPair{Key: key, Value: f.keep(value)})
}

// SetMethod sets Method to a copy of name.
func (f *Frame) SetMethod(name string) { f.Method = f.keep(name) }

// keep returns a copy of s in the storage of the frame. What was kept before stays where it is if the storage has to grow.
func (f *Frame) keep(s string) []byte {
	from := len(f.text)
	f.text = append(f.text, s...)
	return f.text[from:len(f.text):len(f.text)]
}

// Answer makes f an answer of the given kind to call: in the same dialect, with the same method, sequence ids, [FlagOutOfOrder] and
// transforms (each one once, as Apache's libraries do it), and without pairs and body. It copies what it takes, so call may be gone afterwards.
// The two must not be the same Frame.
func (f *Frame) Answer(call *Frame, kind Kind) {
	f.Reset()
	f.Dialect, f.Kind, f.Sequence, f.HeaderSequence = call.Dialect, kind, call.Sequence, call.HeaderSequence
	f.Flags, f.ProtocolID = call.Flags&FlagOutOfOrder, call.ProtocolID
	for _, t := range call.Transforms { // a peer could have one answer compressed many times
		if !slices.Contains(f.Transforms, t) {
			f.Transforms = append(f.Transforms, t)
		}
	}
	f.text = append(f.text, call.Method...)
	f.Method = f.text[:len(f.text):len(f.text)]
}

// Value returns the value of the first pair with the key, nil if there is none.
func (f *Frame) Value(key string) []byte {
	for i := range f.Pairs {
		if string(f.Pairs[i].Key) == key {
			return f.Pairs[i].Value
		}
	}
	return nil
}

// Int returns the value of the first integer pair with the key, nil if there is none.
func (f *Frame) Int(key uint16) []byte {
	for i := range f.Ints {
		if f.Ints[i].Key == key {
			return f.Ints[i].Value
		}
	}
	return nil
}
