package datagram_test

import (
	"fmt"
	"net"
	"net/netip"
	"os"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/sluice-push/sluice/internal/buffer"
	"github.com/sluice-push/sluice/internal/datagram"
	"github.com/sluice-push/sluice/internal/testwait"
)

// member is a session of a server: it notes the datagrams that it gets.
type member struct {
	sync.Mutex
	reg datagram.Registration
	srv *server
	at  netip.AddrPort

	// Guarded by the mutex.
	got       []string
	inside    bool // in Dispatch
	pulled    bool
	concluded bool
	lost      int
	ticks     int
	handedOff int
}

func (m *member) Registration() *datagram.Registration         { return &m.reg }
func (m *member) Address() (at netip.AddrPort, other net.Addr) { return m.at, nil }
func (m *member) Sent(int)                                     {}
func (m *member) Dropped()                                     {}
func (m *member) Want() bool                                   { return false }
func (m *member) Writable()                                    {}
func (m *member) IsPulled() bool                               { return m.pulled }
func (m *member) UsesExecutor() bool                           { return false }
func (m *member) SubmitAndUnlock()                             { panic("there is no executor") }
func (m *member) LeavesExecutor() bool                         { return false }
func (m *member) RunEnded()                                    {}
func (m *member) TakeDrain() bool                              { return false }
func (m *member) Drain()                                       { panic("nothing is drained") }
func (m *member) Received(int64)                               {}
func (m *member) TimerFired() bool                             { return true }
func (m *member) InboxBytes() int                              { return 100 }
func (m *member) IsQuiet() bool                                { return true }
func (m *member) Fail(error)                                   { m.end() }
func (m *member) Offloaded()                                   {}
func (m *member) Truncated()                                   {}
func (m *member) Lost()                                        { m.lost++ }

func (m *member) Ended() bool {
	m.srv.mu.Lock()
	defer m.srv.mu.Unlock()
	return m.srv.over[m]
}

func (m *member) HandedOff() {
	m.Lock()
	defer m.Unlock()
	m.handedOff++
}

func (m *member) ConcludeAndUnlock() {
	m.concluded = true
	m.Unlock()
}

// end ends the member, as a session is ended by any goroutine.
func (m *member) end() {
	m.Lock()
	defer m.Unlock()
	m.srv.mu.Lock()
	m.srv.over[m] = true
	m.srv.mu.Unlock()
	m.reg.Changed(false)
}

// Dispatch notes a datagram. "block" waits until the server's gate is open; "exit" ends the goroutine.
func (m *member) Dispatch(w datagram.Work) {
	m.Lock()
	if m.inside || m.concluded {
		m.srv.t.Error("a member is dispatched twice at a time, or after its end")
	}
	m.inside = true
	text := ""
	if w.Tick {
		m.ticks++
	}
	if w.Datagram != nil {
		text = string(w.Datagram.B[:w.N])
		m.got = append(m.got, text)
	}
	m.Unlock()
	defer func() {
		m.Lock()
		m.inside = false
		m.Unlock()
	}()
	switch text {
	case "block":
		<-m.srv.gate
	case "exit":
		runtime.Goexit()
	}
}

// server is a socket with its members.
type server struct {
	t       *testing.T
	sockets datagram.Sockets
	conn    datagram.Conn
	gate    chan struct{}
	socket  *datagram.Socket
	result  chan error

	mu      sync.Mutex
	members map[netip.AddrPort]*member // the last one of each address
	over    map[*member]bool
}

func newServer(t *testing.T) *server {
	t.Helper()
	pc, err := net.ListenPacket("udp4", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	start := time.Now()
	s := &server{
		t: t, conn: datagram.NewConn(pc), gate: make(chan struct{}), result: make(chan error, 1),
		members: make(map[netip.AddrPort]*member), over: make(map[*member]bool),
	}
	s.socket = datagram.NewSocket(&datagram.Config{
		Conn: s.conn, Pool: &buffer.Pool{Size: 2 << 10}, Now: func() int64 { return int64(time.Since(start)) }, Epoch: start,
		OnStall: func() {}, Retry: func(error) bool { return false }, Admit: s.admit,
		Pause: func(error, time.Duration, <-chan struct{}) { t.Error("a pause") },
	}, false)
	s.sockets.Add(s.socket)
	go func() { s.result <- s.socket.Run() }()
	t.Cleanup(s.close)
	return s
}

func (s *server) admit(at netip.AddrPort, _ *datagram.OtherAddr) datagram.Member {
	m := &member{srv: s, at: at}
	m.reg.Init(s.socket, m, nil)
	s.mu.Lock()
	defer s.mu.Unlock()
	s.members[at] = m
	return m
}

// close stops the socket, ends its members, and waits for all goroutines.
func (s *server) close() {
	s.sockets.Stop()
	s.mu.Lock()
	members := make([]*member, 0, len(s.members))
	for _, m := range s.members {
		members = append(members, m)
	}
	s.mu.Unlock()
	for _, m := range members {
		m.end()
	}
	if err := <-s.result; err != nil {
		s.t.Errorf("the socket ended with %v", err)
	}
	s.sockets.Wait()
	for _, m := range members {
		if !m.concluded {
			s.t.Errorf("the member of %v is not concluded", m.at)
		}
	}
}

// client is a peer of the server.
type client struct {
	t    *testing.T
	s    *server
	conn *net.UDPConn
}

func (s *server) dial() *client {
	s.t.Helper()
	conn, err := net.DialUDP("udp4", nil, s.conn.Local().(*net.UDPAddr))
	if err != nil {
		s.t.Fatal(err)
	}
	s.t.Cleanup(func() { _ = conn.Close() })
	return &client{s.t, s, conn}
}

func (c *client) send(texts ...string) {
	c.t.Helper()
	for _, text := range texts {
		if _, err := c.conn.Write([]byte(text)); err != nil {
			c.t.Fatal(err)
		}
	}
}

// member returns the member of the client, or nil.
func (c *client) member() *member {
	c.s.mu.Lock()
	defer c.s.mu.Unlock()
	return c.s.members[c.conn.LocalAddr().(*net.UDPAddr).AddrPort()]
}

// await waits until the member has got these datagrams and no others.
func (c *client) await(want ...string) {
	c.t.Helper()
	testwait.True(c.t, fmt.Sprintf("the member has got %q", want), func() bool {
		m := c.member()
		if m == nil {
			return false
		}
		m.Lock()
		defer m.Unlock()
		return strings.Join(m.got, ",") == strings.Join(want, ",")
	})
}

// Each peer has a member, which gets its datagrams in order.
func TestSocketMembers(t *testing.T) {
	s := newServer(t)
	a, b := s.dial(), s.dial()
	a.send("1", "2")
	b.send("3")
	a.send("4")
	a.await("1", "2", "4")
	b.await("3")
	a.member().end()
	testwait.True(t, "the member is concluded", func() bool {
		m := a.member()
		m.Lock()
		defer m.Unlock()
		return m.concluded
	})
	old := a.member()
	testwait.True(t, "the peer has a new member", func() bool {
		a.send("5")
		return a.member() != old
	})
}

// A dispatch that blocks holds no other member up: Tick hands the socket off. Meanwhile the inbox keeps as much as may wait.
func TestSocketHandOff(t *testing.T) {
	s := newServer(t)
	slow, quick := s.dial(), s.dial()
	quick.send("first")
	quick.await("first")
	slow.send("block")
	slow.await("block")
	testwait.True(t, "the socket is handed off", func() bool {
		s.sockets.Tick()
		m := slow.member()
		m.Lock()
		defer m.Unlock()
		return m.handedOff == 1
	})
	quick.send("second")
	quick.await("first", "second")
	long := strings.Repeat("x", 60)
	slow.send(long, long, "short", "sentinel")
	quick.send("third")
	quick.await("first", "second", "third")
	close(s.gate)
	slow.await("block", long, "short", "sentinel")
	if m := slow.member(); m.lost != 1 {
		t.Errorf("%d datagrams were lost, want 1", m.lost)
	}
}

// A timer fires, and a dispatch that ends its goroutine ends neither the member nor the socket.
func TestSocketTimerAndExit(t *testing.T) {
	s := newServer(t)
	a := s.dial()
	a.send("exit")
	a.await("exit")
	a.send("still here")
	a.await("exit", "still here")
	m := a.member()
	m.reg.SetTimer(1)
	testwait.True(t, "the member has ticked", func() bool {
		m.Lock()
		defer m.Unlock()
		return m.ticks > 0
	})
}

// If the socket is closed below the reader, all members end, and Run returns the error.
func TestSocketBroken(t *testing.T) {
	s := newServer(t)
	a := s.dial()
	a.send("1")
	a.await("1")
	s.conn.Close()
	err := <-s.result
	if err == nil || os.IsTimeout(err) {
		t.Errorf("Run returned %v", err)
	}
	s.result <- nil // for close
}
