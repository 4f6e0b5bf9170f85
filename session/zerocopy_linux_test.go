package session_test

import (
	"bytes"
	"runtime"
	"testing"

	"github.com/sluice-push/sluice/session"
)

// Without options nothing is sent without copying; with them it is, the kernel's reports are heard, and when it says that it has copied,
// as it does on the loopback interface, it is given up for this connection.
func TestZeroCopyIsGivenUp(t *testing.T) {
	for _, from := range []int{0, 100_000} {
		overSome(t, func(tr transport) bool { return tr.name == "tcp" }, func(t *testing.T, tr transport) {
			f := newFixture(t, tr, line, session.Handler{}, &session.Options{ZeroCopy: from})
			frame := bytes.Repeat([]byte("x"), 100_000)
			send := func(n int) {
				t.Helper()
				fail := make(chan error, 1)
				go func() { fail <- f.s.WriteLarge(frame[:n]) }()
				expect(t, f.client, string(frame[:n]))
				if err := receive(t, fail); err != nil {
					t.Error(err)
				}
			}
			send(99_999)
			if calls, off := session.ZeroCopied(f.s); calls != 0 || off {
				t.Errorf("%d calls, given up: %v", calls, off)
			}
			send(100_000)
			calls, off := session.ZeroCopied(f.s)
			if able := from > 0 && runtime.GOARCH != "386"; calls > 0 != able || off != (from > 0) {
				t.Errorf("%d calls, given up: %v", calls, off)
			}
			send(100_000)
			if more, _ := session.ZeroCopied(f.s); more != calls {
				t.Errorf("%d calls after it was given up", more-calls)
			}
			f.s.Close()
			if n := session.ZeroCopying(f.srv); n != 0 {
				t.Errorf("%d sessions are remembered", n)
			}
		})
	}
}
