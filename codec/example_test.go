package codec_test

import (
	"fmt"

	"github.com/sluice-push/sluice/codec"
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
