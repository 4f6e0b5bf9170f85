package session_test

import (
	"testing"
	"time"

	"github.com/sluice-push/sluice/session"
)

func TestTCPOptions(t *testing.T) {
	for _, o := range []session.Options{
		{Delay: true, KeepAlive: -1},
		{KeepAlive: time.Minute, SendBuffer: 8 << 10, NotSentLowat: 16 << 10},
	} {
		for _, name := range []string{"tcp", "tls"} {
			overSome(t, func(tr transport) bool { return tr.name == name }, func(t *testing.T, tr transport) {
				f := newFixture(t, tr, line, echo(), &o)
				write(t, f.client, "hello\n")
				expect(t, f.client, "hello\n")
				noDelay, lowat := session.SocketOptions(t, f.s)
				if noDelay == o.Delay || o.NotSentLowat > 0 && lowat != o.NotSentLowat {
					t.Errorf("no delay %v, not sent %d", noDelay, lowat)
				}
			})
		}
	}
}
