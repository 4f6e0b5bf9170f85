package codec_test

import (
	"bufio"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"

	"github.com/sluice-push/sluice/codec"
	"github.com/sluice-push/sluice/session"
)

func Example() {
	c := codec.Length{Bytes: 2}
	stream, _ := c.AppendEncode(nil, []byte("hello"))
	stream, _ = c.AppendEncode(stream, []byte("world"))
	stream = append(stream, 0, 7, 'm')

	for {
		msg, n, err := c.Decode(stream)
		if err != nil {
			fmt.Println(err)
			return
		}
		if n <= 0 {
			fmt.Println("at least", -n, "bytes more are needed")
			return
		}
		fmt.Printf("%s\n", msg)
		stream = stream[n:]
	}
	// Output:
	// hello
	// world
	// at least 6 bytes more are needed
}

// TLV is a custom codec: a byte for the kind of message, a byte of length, the value. The decoded message is the kind and the value.
type TLV struct{}

var errTLV = errors.New("tlv: a message is its kind and at most 255 bytes")

func (TLV) Decode(in []byte) (msg []byte, n int, err error) {
	if len(in) < 2 {
		return nil, len(in) - 2, nil // the rest of the header is missing
	}
	whole := 2 + int(in[1])
	if len(in) < whole {
		return nil, len(in) - whole, nil // the rest of the value is missing
	}
	in[1] = in[0] // the bytes of in that are used may be changed
	return in[1:whole:whole], whole, nil
}

func (TLV) AppendEncode(dst, msg []byte) ([]byte, error) {
	if len(msg) < 1 || len(msg) > 256 {
		return dst, errTLV
	}
	dst = append(dst, msg[0], byte(len(msg)-1))
	return append(dst, msg[1:]...), nil
}

// A custom codec, and a server that uses it: messages of kind 1 come back as kind 2.
func Example_ownCodec() {
	srv := session.NewServer(TLV{}, &session.Handler{
		Message: func(s *session.Session, msg []byte) {
			if msg[0] == 1 {
				_ = s.Send(append([]byte{2}, msg[1:]...))
			}
		},
	}, nil)
	client, server := net.Pipe()
	if _, err := srv.ServeConn(server, nil); err != nil {
		panic(err)
	}

	go func() { _, _ = client.Write([]byte("\x01\x05hello\x01\x05world")) }()
	r := bufio.NewReader(client)
	for range 2 {
		reply, _ := r.Peek(7)
		fmt.Printf("%q\n", reply)
		_, _ = r.Discard(7)
	}
	_ = srv.Close()
	// Output:
	// "\x02\x05hello"
	// "\x02\x05world"
}

// A protocol whose frames begin with 4 bytes of length that count themselves, followed by a command and an id. The handler may see the whole
// frame, which is what a proxy wants, or only the part after the length.
func ExampleLength() {
	frame := []byte("\x00\x00\x00\x12\x02\x00\x00\x00\x00\x00\x00\x00\x07hello")

	whole, _, _ := codec.Length{Adjust: -4, Whole: true}.Decode(frame)
	fmt.Printf("%q\n", whole)

	msg, _, _ := codec.Length{Adjust: -4}.Decode(frame)
	fmt.Printf("command %d, id %d, %s\n", msg[0], binary.BigEndian.Uint64(msg[1:]), msg[9:])
	// Output:
	// "\x00\x00\x00\x12\x02\x00\x00\x00\x00\x00\x00\x00\ahello"
	// command 2, id 7, hello
}

// Compression is shared, the codec belongs to one session and is made in Open.
func ExampleCompression() {
	comp := codec.NewCompression(&codec.CompressionOptions{Max: 1 << 20})
	frames := codec.Length{Max: 64 << 10} // the limit of the compressed size
	srv := session.NewServer(nil, &session.Handler{
		Open:    func(s *session.Session) error { s.SetCodec(comp.New(frames)); return nil },
		Message: func(s *session.Session, msg []byte) { _ = s.Send(msg) },
	}, nil)
	client, server := net.Pipe()
	if _, err := srv.ServeConn(server, nil); err != nil {
		panic(err)
	}

	c := comp.New(frames)
	frame, _ := c.AppendEncode(nil, make([]byte, 50_000))
	go func() { _, _ = client.Write(frame) }()
	reply := make([]byte, len(frame))
	if _, err := io.ReadFull(client, reply); err != nil {
		panic(err)
	}
	msg, _, err := c.Decode(reply)
	fmt.Println(len(msg), "bytes in a frame of less than 1,000:", len(frame) < 1000, err)
	_ = srv.Close()
	// Output:
	// 50000 bytes in a frame of less than 1,000: true <nil>
}

// found prints the messages that a codec finds in a stream, and the number of bytes that are left.
func found(c codec.Framer, stream string) {
	in := []byte(stream)
	for {
		msg, n, err := c.Decode(in)
		if err != nil || n <= 0 {
			fmt.Println("left:", len(in), err)
			return
		}
		fmt.Printf("%q ", msg)
		in = in[n:]
	}
}

// Lines may end as they do on the Internet or on Unix, and a line that is too long is an error as soon as that is certain.
func ExampleLine() {
	found(codec.Line{}, "HELO example.com\r\nQUIT\nno end")
	found(codec.Line{Max: 3}, "NOOP\n")

	frame, err := codec.Line{CRLF: true}.AppendEncode(nil, []byte("250 OK"))
	fmt.Printf("%q %v\n", frame, err)
	_, err = codec.Line{}.AppendEncode(nil, []byte("two\nlines"))
	fmt.Println(err)
	// Output:
	// "HELO example.com" "QUIT" left: 6 <nil>
	// left: 5 codec: message is too large: a line is longer than 3 bytes
	// "250 OK\r\n" <nil>
	// codec: message contains a line end
}

// XML over sockets, as some players of video speak it, ends its documents with a zero byte.
func ExampleDelimiter() {
	c := codec.Delimiter{End: "\x00"}
	found(c, "<a/>\x00<b/>\x00<c")

	_, err := c.AppendEncode(nil, []byte("a\x00b"))
	fmt.Println(err)
	// Output:
	// "<a/>" "<b/>" left: 2 <nil>
	// codec: message contains the delimiter
}

// A sensor that sends four bytes a measurement.
func ExampleFixed() {
	found(codec.Fixed{Size: 4}, "0021002300")
	// Output: "0021" "0023" left: 2 <nil>
}

// Raw passes on the bytes that have arrived, for programs with their own parser. The boundaries mean nothing.
func ExampleRaw() {
	found(codec.Raw{}, "GET / HT")
	found(codec.Raw{Max: 5}, "GET / HT")
	// Output:
	// "GET / HT" left: 0 <nil>
	// "GET /" " HT" left: 0 <nil>
}
