package deflate_test

import (
	"fmt"

	"github.com/sluice-push/sluice/internal/deflate"
)

// Two ends of a connection that keeps its context: the second message refers to the first.
func Example() {
	encoder := deflate.NewEncoder(1, 12)
	var decoder deflate.Decoder
	window := deflate.NewWindow(12)

	var payload, msg []byte
	for _, text := range []string{`{"symbol":"BTCUSDT","price":"60123.45"}`, `{"symbol":"BTCUSDT","price":"60123.50"}`} {
		payload = encoder.Append(payload[:0], []byte(text))
		var err error
		if msg, err = decoder.Append(msg[:0], payload, window.Bytes(), 1<<16); err != nil {
			fmt.Println(err)
			return
		}
		window.Append(msg)
		fmt.Printf("%d bytes as %d: %s\n", len(text), len(payload), msg)
	}
	// Output:
	// 39 bytes as 41: {"symbol":"BTCUSDT","price":"60123.45"}
	// 39 bytes as 8: {"symbol":"BTCUSDT","price":"60123.50"}
}
