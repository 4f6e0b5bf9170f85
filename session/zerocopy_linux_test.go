package session_test

import (
	"bufio"
	"bytes"
	"errors"
	"io"
	"net"
	"runtime"
	"sync"
	"testing"
	"time"

	"github.com/sluice-push/sluice/internal/testwait"
	"github.com/sluice-push/sluice/session"
)

// Without options nothing is sent without copying; with them it is, the kernel's reports are heard, and when it says that it has copied,
// as it does on the loopback interface, it is given up for this connection.
func TestZeroCopyIsGivenUp(t *testing.T) {
	for _, from := range []int{0, 100_000} {
		overSome(t, bareTCP, func(t *testing.T, tr transport) {
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

// A report is heard also when it comes while nothing else is awaited of the connection: the handler that waits for it keeps the session
// from being read.
func TestReportsWhileTheHandlerWaits(t *testing.T) {
	overSome(t, bareTCP, func(t *testing.T, tr transport) {
		const first, second = 8 << 20, 100 << 10
		fail := make(chan error, 1)
		h := session.Handler{Message: func(s *session.Session, _ []byte) {
			_ = s.Write(make([]byte, first))
			fail <- s.WriteLarge(make([]byte, second))
		}}
		f := newFixture(t, tr, line, h, &session.Options{ZeroCopy: 1000, SendBuffer: 1 << 20})
		write(t, f.client, "go\n")
		if _, err := io.CopyN(io.Discard, f.client, first+second); err != nil {
			t.Fatal(err)
		}
		if err := receive(t, fail); err != nil {
			t.Error(err)
		}
	})
}

// Or after the peer has ended its side.
func TestReportsWhenNothingIsRead(t *testing.T) {
	overSome(t, bareTCP, func(t *testing.T, tr transport) {
		const first, second = 8 << 20, 100 << 10
		fail := make(chan error, 1)
		f := newFixture(t, tr, line, session.Handler{}, &session.Options{ZeroCopy: 1000, SendBuffer: 1 << 20})
		_ = f.s.Write(make([]byte, first))
		go func() { fail <- f.s.WriteLarge(make([]byte, second)) }()
		await(t, func() bool { return session.Larges(f.s) == 1 })
		if err := f.client.(*net.TCPConn).CloseWrite(); err != nil {
			t.Fatal(err)
		}
		await(t, func() bool { return session.Ending(f.s) })
		if n, err := io.Copy(io.Discard, f.client); err != nil || n != first+second {
			t.Errorf("%d bytes came, error %v", n, err)
		}
		if err := receive(t, fail); err != nil {
			t.Error(err)
		}
	})
}

// A peer that reads nothing does not keep anybody waiting for longer than WriteTimeout, also when the kernel has taken all.
func TestZeroCopyToAPeerThatDoesNotRead(t *testing.T) {
	overSome(t, bareTCP, func(t *testing.T, tr transport) {
		f := newFixture(t, tr, line, session.Handler{},
			&session.Options{ZeroCopy: 1000, SendBuffer: 4 << 20, WriteTimeout: 50 * time.Millisecond})
		if err := f.client.(*net.TCPConn).SetReadBuffer(4 << 10); err != nil {
			t.Fatal(err)
		}
		fail := make(chan error, 1)
		go func() {
			var err error
			for err == nil {
				err = f.s.WriteLarge(make([]byte, 100<<10))
			}
			fail <- err
		}()
		if err := receive(t, fail); !errors.Is(err, session.ErrTimeout) {
			t.Errorf("error %v", err)
		}
		if info := receive(t, f.closed); info.By != session.ByTimeout {
			t.Errorf("ended by %v, %v", info.By, info.Err)
		}
	})
}

// Several frames may be on their way at a time, each in several calls. The kernel's numbers are counted for the right ones: everybody who
// waits is told, a gentle end waits for the last, and the connection's numbers go on from frame to frame.
func TestManyZeroCopiesInFlight(t *testing.T) {
	overSome(t, bareTCP, func(t *testing.T, tr transport) {
		const senders, each = 8, 20
		opened := make(chan *session.Session, 1)
		h := session.Handler{Open: func(s *session.Session) error { opened <- s; return nil }}
		srv := session.NewServer(line, &h, &session.Options{ZeroCopy: 1000, SendBuffer: 256 << 10, Engine: tr.engine})
		session.KeepZeroCopy(srv)
		client, err := tr.start(t, srv)()
		if err != nil {
			t.Fatal(err)
		}
		_ = client.SetDeadline(time.Now().Add(limit))
		s := receive(t, opened)
		var all sync.WaitGroup
		defer func() { _ = client.Close(); testwait.Return(t, all.Wait) }()
		for who := range senders {
			all.Go(func() {
				for i := range each {
					p := numbered(who, i, []int{1100, 30_000, 300_000}[(who+i)%3])
					if err := s.WriteLarge(p); err != nil {
						t.Error(err)
						return
					}
					clear(p)
				}
			})
		}
		next := make([]int, senders)
		in := bufio.NewReader(client)
		for range senders * each {
			who, i := readNumbered(t, in)
			if next[who] != i {
				t.Fatalf("frame %d of sender %d came, expected %d", i, who, next[who])
			}
			next[who]++
		}
		testwait.Return(t, all.Wait)
		calls, off := session.ZeroCopied(s)
		if able := runtime.GOARCH != "386"; off == able || able && calls < senders*each {
			t.Errorf("%d calls for %d frames, given up: %v", calls, senders*each, off)
		}
		last := bytes.Repeat([]byte("x"), 1<<20)
		fail := make(chan error, 1)
		go func() { fail <- s.WriteLarge(last) }()
		expect(t, in, string(last[:1000]))
		s.End([]byte("bye"), nil)
		expect(t, in, string(last[1000:])+"bye")
		if err := receive(t, fail); err != nil {
			t.Error(err)
		}
		if rest := expectEnd(t, in); rest != "" {
			t.Errorf("%d bytes too many", len(rest))
		}
	})
}

// bareTCP are the transports that send without copying.
func bareTCP(tr transport) bool { return tr.name == "tcp" || tr.name == "tcp staying" }
