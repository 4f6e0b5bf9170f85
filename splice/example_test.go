package splice_test

import (
	"encoding/binary"
	"fmt"
	"io"
	"net"

	"github.com/sluice-push/sluice/splice"
)

// A proxy reads the length of a message, and has the message itself moved.
func ExamplePool_Move() {
	pool := splice.New(nil)
	defer pool.Close()
	client, src := net.Pipe()
	dst, server := net.Pipe()
	go func() { _, _ = client.Write([]byte("\x00\x00\x00\x05hello")) }()
	go func() {
		head := make([]byte, 4)
		if _, err := io.ReadFull(src, head); err != nil {
			fmt.Println(err)
			return
		}
		_, err := pool.Move(dst, src, head, int64(binary.BigEndian.Uint32(head)))
		if err != nil {
			fmt.Println(err)
		}
		_ = dst.Close()
	}()
	got, err := io.ReadAll(server)
	fmt.Printf("%q %v\n", got, err)
	// Output: "\x00\x00\x00\x05hello" <nil>
}
