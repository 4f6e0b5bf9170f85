package wire_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/sluice-push/sluice/websocket/wire"
)

// BenchmarkDecode decodes one complete frame. Unmasking is in place, so that every other round finds the payload as it was sent;
// the key keeps the text ASCII either way.
func BenchmarkDecode(b *testing.B) {
	for _, op := range []byte{text, bin} {
		for _, n := range []int{128, 1 << 10, 64 << 10} {
			b.Run(fmt.Sprintf("%v/%d", wire.Opcode(op), n), func(b *testing.B) {
				in := []byte(clientWith(fin|op, strings.Repeat("m", n), [4]byte{1, 2, 3, 4}))
				c := wire.New(nil)
				b.SetBytes(int64(n))
				b.ReportAllocs()
				for b.Loop() {
					if msg, _, err := c.Decode(in); len(msg) != n || err != nil {
						b.Fatal(len(msg), err)
					}
				}
			})
		}
	}
}

// BenchmarkPing is the whole exchange of a heartbeat.
func BenchmarkPing(b *testing.B) {
	in := []byte(clientWith(fin|ping, "12345678", [4]byte{}))
	c := wire.New(nil)
	out := make([]byte, 0, 128)
	b.ReportAllocs()
	for b.Loop() {
		if _, _, err := c.Decode(in); err != nil {
			b.Fatal(err)
		}
		out = c.AppendReplies(out[:0])
	}
}

// BenchmarkUnmask compares the SSE2 code, where it is used, with the code that works in words.
func BenchmarkUnmask(b *testing.B) {
	for _, n := range []int{125, 1 << 10, 64 << 10} {
		for name, unmask := range map[string]func([]byte, uint32){"blocks": wire.Unmask, "words": wire.UnmaskWords} {
			b.Run(fmt.Sprintf("%s/%d", name, n), func(b *testing.B) {
				buf := make([]byte, n)
				b.SetBytes(int64(n))
				b.ReportAllocs()
				for b.Loop() {
					unmask(buf, 0x12345678)
				}
			})
		}
	}
}

func BenchmarkAppendFrame(b *testing.B) {
	for _, n := range []int{128, 1 << 10} {
		b.Run(fmt.Sprint(n), func(b *testing.B) {
			payload := make([]byte, n)
			dst := make([]byte, 0, wire.HeaderSpace+n)
			b.SetBytes(int64(n))
			b.ReportAllocs()
			for b.Loop() {
				dst = wire.AppendFrame(dst[:0], wire.OpText, payload)
			}
		})
	}
}

func BenchmarkHandshake(b *testing.B) {
	in := []byte(request("Origin: https://server.example.com", "User-Agent: Mozilla/5.0 (X11; Linux x86_64)", "Accept-Encoding: gzip, deflate"))
	out := make([]byte, 0, 1024)
	b.ReportAllocs()
	for b.Loop() {
		c := wire.NewHandshake(nil)
		if _, n, err := c.Decode(in); n != len(in) || err != nil {
			b.Fatal(n, err)
		}
		out = c.AppendReplies(out[:0])
	}
}
