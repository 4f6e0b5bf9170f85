package session_test

import (
	"fmt"
	"sync/atomic"
	"testing"

	"github.com/sluice-push/sluice/internal/testwait"
	"github.com/sluice-push/sluice/session"
)

// A handler that blocks delays no other session. Datagrams that arrive meanwhile wait, as far as there is room.
func TestPacketBlockedHandler(t *testing.T) {
	overPackets(t, func(t *testing.T, kind packetKind) {
		entered, release := make(chan bool, 1), make(chan bool)
		var got atomic.Int32
		h := echo()
		reply := h.Message
		h.Message = func(s *session.Session, msg []byte) {
			if string(msg) == "block" {
				entered <- true
				testwait.Hold(t, release)
			}
			got.Add(1)
			reply(s, msg)
		}
		f := servePackets(t, kind, &h, nil)
		for round := range 3 { // from the second time on the session is offloaded
			blocked, other := f.dial(t), f.dial(t)
			write(t, blocked, "block\n")
			receive(t, entered)
			const more = session.InboxMax + 30
			before := f.srv.Stats()
			for i := range more {
				write(t, blocked, fmt.Sprintf("%d\n", i))
			}
			for range 10 {
				write(t, other, "hello\n")
				expectPacket(t, other, "hello\n")
			}
			await(t, func() bool {
				return session.PacketBacklog(f.srv) == session.InboxMax && f.srv.Stats().LostDatagrams-before.LostDatagrams == 30
			})
			release <- true
			expectPacket(t, blocked, "block\n")
			for i := range session.InboxMax {
				expectPacket(t, blocked, fmt.Sprintf("%d\n", i))
			}
			if want := int32((round + 1) * (1 + 10 + session.InboxMax)); got.Load() != want {
				t.Fatalf("%d messages were handled, want %d", got.Load(), want)
			}
		}
	})
}
