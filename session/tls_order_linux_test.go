package session_test

import (
	"strings"
	"sync"
	"testing"

	"github.com/sluice-push/sluice/internal/testwait"
	"github.com/sluice-push/sluice/session"
)

// records reads the data that a peer has sent, without records that TLS sends by itself.
type records struct {
	p    *tlsPeer
	rest []byte
}

func (r *records) Read(p []byte) (int, error) {
	for len(r.rest) == 0 {
		typ, data, err := r.p.open()
		if err != nil {
			return 0, err
		}
		if typ == recordApplication {
			r.rest = data
		}
	}
	n := copy(p, r.rest)
	r.rest = r.rest[n:]
	return n, nil
}

// Records that TLS sends by itself during a dispatch do not overtake corked frames, nor do frames of other goroutines.
func TestTLSLoopAnswersInOrder(t *testing.T) {
	const rounds, messages, others = 60, 80, 200 // messages of one write are longer than MaxMessage together, so they arrive in two steps
	sessions := make(chan *session.Session, 2)
	_, dial := overTLSLoop(t, session.Handler{
		Open: func(s *session.Session) error {
			g := newEncoderSet()
			s.SetValue(g)
			s.SetCodec(g.own)
			sessions <- s
			return nil
		},
		Message: func(s *session.Session, msg []byte) {
			if err := s.Send(msg); err != nil {
				t.Error(err)
			}
		},
	}, &session.Options{MaxMessage: 4 << 10, QueueBytes: 4 << 20, QueueFrames: -1})
	receive(t, sessions)
	p := newTLSPeer(t, dial())
	s := receive(t, sessions)
	from := &records{p: p}
	blob := strings.Repeat(strings.Repeat("x", 99)+"\n", messages)
	next := uint64(0)
	for range rounds {
		all := append(p.seal(recordApplication, []byte(blob)), p.updateKeys(5)...)
		all = append(all, p.seal(recordApplication, []byte("last\n"))...)
		var wg sync.WaitGroup
		wg.Go(func() {
			for range others {
				if err := s.SendAs(s.Value().(*encoderSet).text, []byte("other")); err != nil {
					t.Error(err)
					return
				}
			}
		})
		write(t, p.conn, string(all))
		for range messages + 1 + others {
			if _, number, msg := readSent(t, from); number != next {
				t.Fatalf("number %d (%.9q) came when it was the turn of %d", number, msg, next)
			}
			next++
		}
		testwait.Return(t, wg.Wait)
	}
}
