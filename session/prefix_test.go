package session_test

import (
	"bytes"
	"testing"

	"github.com/sluice-push/sluice/codec"
	"github.com/sluice-push/sluice/session"
)

// Large messages of codecs with a header are written in place. The peer gets the same bytes, also if the connection does not take them at once,
// and if small messages come before and after them.
func TestLargeMessagesWithAHeader(t *testing.T) {
	over(t, func(t *testing.T, tr transport) {
		framing := codec.Length{Max: 1 << 20}
		o := smallBuffers()
		o.MaxMessage = 1 << 20
		f := newFixture(t, tr, framing, session.Handler{Message: func(s *session.Session, msg []byte) {
			for _, m := range [][]byte{msg[:10], msg, msg[:100], msg} {
				if err := s.Send(m); err != nil {
					t.Error(err)
				}
			}
			clear(msg) // the caller may use msg again
		}}, o)
		for _, size := range []int{100, 8 << 10, 64 << 10, 300_000} {
			msg := bytes.Repeat([]byte("0123456789"), size/10)
			frame, err := framing.AppendEncode(nil, msg)
			if err != nil {
				t.Fatal(err)
			}
			go func() { _, _ = f.client.Write(frame) }()
			for _, m := range [][]byte{msg[:10], msg, msg[:100], msg} {
				want, err := framing.AppendEncode(nil, m)
				if err != nil {
					t.Fatal(err)
				}
				expect(t, f.client, string(want))
			}
		}
	})
}
