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

// TLV is a codec of one's own: a byte that says what kind of message it is, a byte of length, the value. The message it hands out
// is the kind and the value.
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
	in[1] = in[0] // in may be changed as far as it is used
	return in[1:whole:whole], whole, nil
}

func (TLV) AppendEncode(dst, msg []byte) ([]byte, error) {
	if len(msg) < 1 || len(msg) > 256 {
		return dst, errTLV
	}
	dst = append(dst, msg[0], byte(len(msg)-1))
	return append(dst, msg[1:]...), nil
}

// A codec of one's own, and a server that speaks it: messages of kind 1 come back as kind 2.
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

// A protocol whose frames begin with 4 bytes of length that count themselves, followed by a command and an id. The handler may see
// the whole frame, which is what a proxy wants, or what comes after the length.
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
	frames := codec.Length{Max: 64 << 10} // of what is compressed
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
