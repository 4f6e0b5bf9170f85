package session_test

import (
	"bytes"
	"errors"
	"io"
	"net"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/sluice-push/sluice/codec"
	"github.com/sluice-push/sluice/internal/testwait"
	"github.com/sluice-push/sluice/session"
)

// Whatever its peers do, a server stays within its documented bounds of memory.

// heap returns the size of the live heap in bytes.
func heap() int {
	runtime.GC()
	runtime.GC() // the first collection only moves objects of pools to their victim caches
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return int(m.HeapAlloc)
}

// A peer that never reads costs at most the bound of the queue, with the chunks and the index of its frames.
func TestStalledPeersStayWithinTheBound(t *testing.T) {
	const (
		bound    = 1 << 20
		frame    = 4 << 10
		sessions = 20
		slack    = 64 << 10 // for each session: the session, a frame that waits to be admitted, and bytes inside a connection in memory
	)
	tests := []struct {
		name   string
		policy session.Policy
		try    bool
		held   int
	}{
		{"wait", session.Wait, false, bound},
		{"refuse", session.Refuse, false, bound},
		{"drop oldest", session.DropOldest, false, bound},
		{"close slow", session.CloseSlow, false, bound},
		{"try write", session.Wait, true, 64<<10 + frame},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			overSome(t, func(tr transport) bool { return strings.HasPrefix(tr.name, "unix") || tr.name == "pipe" }, func(t *testing.T, tr transport) {
				f := newFixture(t, tr, codec.Length{}, session.Handler{},
					&session.Options{QueueBytes: bound, QueueFrames: -1, Policy: tt.policy, WriteTimeout: -1, HandshakeTimeout: -1, SendBuffer: 16 << 10})
				for range sessions - 1 {
					f.dial()
				}
				await(t, func() bool { return f.srv.Stats().Opened == sessions })
				before := heap()
				var senders sync.WaitGroup
				for s := range f.srv.Sessions() {
					senders.Go(func() { overfill(s, tt.try, frame, 3*bound) })
				}
				settled := func() bool { // every sender has ended or waits
					for s := range f.srv.Sessions() {
						if n := s.Queued(); n > tt.held {
							t.Errorf("%d bytes are waiting", n)
						}
						if tt.policy == session.Wait && !tt.try && s.Waiters() == 0 {
							return false
						}
					}
					return true
				}
				if tt.policy == session.Wait && !tt.try {
					await(t, settled)
				} else {
					testwait.Return(t, senders.Wait)
					settled()
				}
				if grown := heap() - before; grown > sessions*(tt.held+slack) {
					t.Errorf("%d sessions hold %d bytes each", sessions, grown/sessions)
				} else {
					t.Logf("%d KiB a session", grown/sessions>>10)
				}
				_ = f.srv.Close()
				testwait.Return(t, senders.Wait)
			})
		})
	}
}

// overfill offers or writes about total bytes.
func overfill(s *session.Session, try bool, frame, total int) {
	msg := make([]byte, frame)
	for range total / frame {
		var err error
		if try {
			_, err = s.TryWrite([][]byte{bytes.Clone(msg)})
		} else {
			err = s.Send(msg)
		}
		if errors.Is(err, session.ErrClosed) {
			return
		}
	}
}

// A session whose handler blocks is not read. Its peer cannot write any more, nothing is lost, and the server keeps one buffer.
func TestAHandlerThatBlocksStopsItsPeer(t *testing.T) {
	over(t, func(t *testing.T, tr transport) {
		const frame, frames = 16 << 10, 1200 // far more than all buffers on the way hold
		st := newBlocker(t)
		var got atomic.Int64
		f := newFixture(t, tr, codec.Length{}, session.Handler{Message: func(s *session.Session, msg []byte) {
			if n := got.Add(1); n == 1 {
				st.block(s)
			} else if len(msg) != frame || msg[0] != byte(n) || msg[frame-1] != byte(n) {
				t.Errorf("message %d is broken", n)
			}
		}}, nil)
		t.Cleanup(st.release)
		before := heap()
		var wrote atomic.Int64
		result := make(chan error, 1)
		go func() { result <- writeFrames(f.client, frame, frames, &wrote) }()
		receive(t, st.blocked)
		for last := int64(-1); wrote.Load() != last; { // until no more bytes are written
			last = wrote.Load()
			receive(t, time.After(50*time.Millisecond))
		}
		if n := wrote.Load(); n == frames {
			t.Error("the peer felt nothing")
		}
		if tr.name != "memory" && tr.name != "pipe" {
			if grown := heap() - before; grown > 4<<20 { // of 19 MiB that were offered; a client with TLS holds some as well
				t.Errorf("%d bytes are held", grown)
			}
		}
		st.release()
		if err := receive(t, result); err != nil {
			t.Error(err)
		}
		await(t, func() bool { return got.Load() == frames })
	})
}

// writeFrames writes n numbered frames and counts them in wrote.
func writeFrames(c net.Conn, size, n int, wrote *atomic.Int64) error {
	for i := range n {
		p, err := codec.Length{}.AppendEncode(nil, bytes.Repeat([]byte{byte(i + 1)}, size))
		if err != nil {
			return err
		}
		if _, err := c.Write(p); err != nil {
			return err
		}
		wrote.Add(1)
	}
	return nil
}

// plainSocket excludes TLS, whose clients hold more memory than the server.
func plainSocket(tr transport) bool { return tr.direct && !strings.HasPrefix(tr.name, "tls") }

// A peer declares a message of the largest allowed size, and then sends little of it, or sends it very slowly. Its session takes as much memory
// as has arrived.
func TestHalfMessagesCostWhatHasArrived(t *testing.T) {
	const peers, declared = 200, 64 << 10
	tests := []struct {
		name  string
		sent  int
		bytes bool // send byte by byte
		each  int  // the memory that one session may take
	}{
		{"a length", 4, false, 1 << 10},
		{"a little, byte by byte", 60, true, 2 << 10},
		{"a part", 9 << 10, false, 3 * 9 << 10},
		{"nearly all", declared - 1, false, 3 * declared},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			overSome(t, plainSocket, func(t *testing.T, tr transport) {
				f := newFixture(t, tr, codec.Length{Max: declared}, session.Handler{}, &session.Options{HandshakeTimeout: -1})
				clients := []net.Conn{f.client}
				for len(clients) < peers {
					clients = append(clients, f.dial())
				}
				await(t, func() bool { return f.srv.Stats().Opened == peers })
				before := heap()
				msg, err := codec.Length{Max: declared}.AppendEncode(nil, make([]byte, declared))
				if err != nil {
					t.Fatal(err)
				}
				step := tt.sent
				if tt.bytes {
					step = 1
				}
				for at := 0; at < tt.sent; at += step {
					for _, c := range clients {
						if _, err := c.Write(msg[at:min(at+step, tt.sent)]); err != nil {
							t.Fatal(err)
						}
					}
				}
				await(t, func() bool { return f.srv.Stats().BytesIn == uint64(peers*tt.sent) })
				each := 0
				for range 100 { // a dispatch that has not ended yet has a buffer
					if each = (heap() - before) / peers; each <= tt.each {
						break
					}
				}
				if each > tt.each {
					t.Errorf("a session costs %d bytes", each)
				} else {
					t.Logf("%d bytes a session", each)
				}
				msg = msg[tt.sent:]
				if _, err := f.client.Write(msg); err != nil {
					t.Fatal(err)
				}
				await(t, func() bool { return f.srv.Stats().Messages == 1 })
			})
		})
	}
}

// Connections that begin and end in all ways at the same time leave nothing behind, and other sessions are served meanwhile.
func TestStormsOfConnections(t *testing.T) {
	overSome(t, func(tr transport) bool { return tr.name != "pipe" && tr.name != "memory" }, func(t *testing.T, tr transport) {
		f := newFixture(t, tr, line, echo(), nil)
		write(t, f.client, "hello\n")
		expect(t, f.client, "hello\n")
		before := openFiles()
		var storm sync.WaitGroup
		for way := range 4 {
			storm.Go(func() {
				for i := range 20 {
					c := f.dial()
					if way > 0 && i%2 == 0 {
						_, _ = io.WriteString(c, "hello\nhel")
					}
					if tcp, ok := c.(*net.TCPConn); ok && way < 2 {
						_ = tcp.SetLinger(0)
					} else if half, ok := c.(interface{ CloseWrite() error }); ok && way == 2 {
						_ = half.CloseWrite()
						_, _ = io.Copy(io.Discard, c)
					}
					_ = c.Close()
				}
			})
		}
		for range 100 {
			write(t, f.client, "hello\n")
			expect(t, f.client, "hello\n")
		}
		testwait.Return(t, storm.Wait)
		await(t, func() bool { return openFiles() == before && f.srv.Len() == 1 })
	})
}
