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

// Without Options.ZeroCopy nothing is sent without copying. With it large frames are, and the kernel's reports are read. If the kernel reports
// that it has copied, as on the loopback interface, zero copy is given up for this connection.
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

// A report is read also while the session waits for no other event: the handler that waits for the report keeps the session from being read.
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

// A report is read also after the peer has ended its side.
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

// If a peer reads nothing, callers wait no longer than WriteTimeout, also if the kernel has taken all bytes.
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

// Several frames may be in flight at a time, each in several calls. Reports are counted for the right frames: each waiting caller gets its
// result, a gentle end waits for the last frame, and the numbers of the connection go on from frame to frame.
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
		for sender := range senders {
			all.Go(func() {
				for i := range each {
					p := numbered(sender, i, []int{1100, 30_000, 300_000}[(sender+i)%3])
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
			sender, i := readNumbered(t, in)
			if next[sender] != i {
				t.Fatalf("frame %d of sender %d came, expected %d", i, sender, next[sender])
			}
			next[sender]++
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

// bareTCP selects the transports that send without copying.
func bareTCP(tr transport) bool { return tr.name == "tcp" || tr.name == "tcp offloaded" }
