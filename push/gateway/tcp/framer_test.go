package tcp_test

import (
	"bytes"
	"testing"

	"github.com/sluice-push/sluice/push/gateway/tcp"
	"github.com/sluice-push/sluice/push/protocol/protobuf"
)

// Whatever comes, and in whatever pieces, the codec finds messages that the form accepts, one at a time, and then the end or a mistake.
func FuzzFramer(f *testing.F) {
	for _, seed := range []string{"", "\x00", "\x01a\x02bc\x05d", "\x80\x00\x81\x00a", "\xff\xff\xff\xff\xff\xff\xff\xff\xff\x02", "\xe9\x07"} {
		f.Add([]byte(seed), 1)
		f.Add([]byte(seed), 100)
	}
	const most = 1000
	codec := tcp.NewFramer(most)
	f.Fuzz(func(t *testing.T, in []byte, piece int) {
		piece = min(max(piece, 1), len(in)+1)
		var at, end, need int
		for at < len(in) && end < len(in) || end-at >= max(need, 1) {
			if end-at < max(need, 1) {
				end = min(end+piece, len(in))
				continue
			}
			msg, n, err := codec.Decode(in[at:end])
			switch {
			case err != nil:
				t.Fatal(err)
			case n <= 0:
				if msg != nil {
					t.Fatalf("a message of %d bytes although more is needed", len(msg))
				}
				need = end - at + max(-n, 1)
				if end == len(in) {
					return
				}
				continue
			case len(msg) == 0:
				if n != end-at {
					t.Fatalf("%d of %d bytes are used by a mistake", n, end-at)
				}
				return
			}
			need = 0
			body, rest, err := protobuf.Next(msg)
			if err != nil || body == nil || len(rest) != 0 || len(body) > most || !bytes.Equal(msg, in[at:at+n]) {
				t.Fatalf("%q: %q, %q, %v", msg, body, rest, err)
			}
			at += n
		}
	})
}
