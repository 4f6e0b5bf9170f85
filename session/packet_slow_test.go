package session_test

import (
	"fmt"
	"sync/atomic"
	"testing"

	"github.com/sluice-push/sluice/internal/testwait"
	"github.com/sluice-push/sluice/session"
)

// A handler that blocks holds up nobody else, and what comes meanwhile waits, as much as there is room for.
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
		for round := range 3 { // the second time it is known to be slow
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

// One whose handler blocks in one of many turns keeps those inline, where one that blocks at first gets goroutines.
func TestPacketOneThatSeldomBlocks(t *testing.T) {
	for _, quick := range []int{0, 10} {
		entered, release := make(chan bool, 1), make(chan bool)
		f := servePackets(t, packetKinds[0], &session.Handler{Message: func(s *session.Session, msg []byte) {
			if string(msg) == "block" {
				entered <- true
				testwait.Hold(t, release)
			}
			_ = s.Send(msg)
		}}, nil)
		conn := f.dial(t)
		say := func(what string) {
			write(t, conn, what)
			expectPacket(t, conn, what)
		}
		for range quick {
			say("hello\n")
		}
		if f.srv.Stats().TakenOver > 0 {
			return // the machine is busy
		}
		write(t, conn, "block\n")
		receive(t, entered)
		await(t, func() bool { return f.srv.Stats().TakenOver == 1 })
		release <- true
		expectPacket(t, conn, "block\n")
		moved := func() bool {
			say("hello\n")
			return f.srv.Stats().Moved > 0
		}
		if quick == 0 {
			await(t, moved)
			continue
		}
		for range 3 {
			if moved() {
				t.Errorf("after %d quick turns and a slow one a turn was given to a goroutine", quick)
			}
		}
	}
}
