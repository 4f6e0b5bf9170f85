package session_test

import (
	"net"
	"testing"
	"time"

	"github.com/sluice-push/sluice/session"
)

// Sends and ticks of a session do not reset the idle timeout of its silent peer.
func TestPacketIdleWithTicks(t *testing.T) {
	overPackets(t, func(t *testing.T, kind packetKind) {
		closed := make(chan session.CloseInfo, 1)
		f := servePackets(t, kind, &session.Handler{
			Tick:  func(*session.Session) {},
			Close: func(_ *session.Session, info *session.CloseInfo) { closed <- *info },
		}, &session.Options{IdleTimeout: 100 * time.Millisecond, TickInterval: 5 * time.Millisecond})
		write(t, f.dial(t), "hello\n")
		if info := receive(t, closed); info.By != session.ByTimeout {
			t.Errorf("ended by %v, %v", info.By, info.Err)
		}
	})
}

// A session that ended while sending leaves a write deadline in the past. It does not keep other sessions from sending.
func TestPacketWriteDeadlineThatHasPassed(t *testing.T) {
	for _, limit := range []time.Duration{-1, time.Minute} {
		overPackets(t, func(t *testing.T, kind packetKind) {
			var socket net.PacketConn
			listening := kind.listen
			kind.listen = func(t testing.TB) net.PacketConn {
				socket = listening(t)
				return socket
			}
			h := echo()
			f := servePackets(t, kind, &h, &session.Options{WriteTimeout: limit})
			conn := f.dial(t)
			for range 3 {
				if err := socket.SetWriteDeadline(time.Unix(1, 0)); err != nil {
					t.Fatal(err)
				}
				write(t, conn, "hello\n")
				expectPacket(t, conn, "hello\n")
			}
		})
	}
}
