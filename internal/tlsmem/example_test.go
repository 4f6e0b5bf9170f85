package tlsmem_test

import (
	"errors"
	"fmt"

	"github.com/sluice-push/sluice/internal/tlsmem"
)

func Example() {
	// The handshake was made: see the tests. What the client writes ...
	server, client, err := tlsmem.Pair(tlsmem.Versions()[0])
	if err != nil {
		panic(err)
	}
	if err := client.Write([]byte("hello")); err != nil {
		panic(err)
	}
	var wire []byte
	_, _ = client.Flush(func(p []byte) (int, error) {
		wire = append(wire, p...)
		return len(p), nil
	})

	// ... the server is fed byte by byte.
	buf := make([]byte, 100)
	for i := range wire {
		server.Feed(wire[i : i+1])
		if n, err := server.Read(buf); !errors.Is(err, tlsmem.ErrNeedMore) || n > 0 {
			fmt.Printf("%s, %v\n", buf[:n], err)
		}
	}
	// Output: hello, <nil>
}
