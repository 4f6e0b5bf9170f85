package goroutineconn_test

import (
	"errors"
	"io"
	"net"
	"runtime"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/sluice-push/sluice/internal/buffer"
	"github.com/sluice-push/sluice/internal/goroutineconn"
	"github.com/sluice-push/sluice/internal/testwait"
	"github.com/sluice-push/sluice/internal/writer"
)

var errOver = errors.New("over")

// member is a session that notes what its connection does, and echoes if it is asked to.
type member struct {
	t    *testing.T
	conn *goroutineconn.Conn
	peer net.Conn
	wrap func(net.Conn) net.Conn // if it is set
	out  writer.Writer
	in   buffer.Inbound
	over atomic.Bool

	echoes       bool
	during       func(text string) // called in Received, if it is set
	events       []string          // what was received, and "tick"; guarded by the lock
	due          atomic.Int64
	got          strings.Builder // guarded by the lock, as is all that follows
	goroutine    string          // that got the last bytes
	begins       int
	ticks        int
	helpers      int
	readErr      error
	writeErr     error
	writeTimeout time.Duration
	concluded    chan struct{}
}

// run runs a connection of a member, and returns its peer.
func run(t *testing.T, network string, set func(*member)) (*member, net.Conn) {
	t.Helper()
	here, there := pair(t, network)
	start := time.Now()
	pools := buffer.NewPools(1 << 10)
	m := &member{t: t, peer: there, concluded: make(chan struct{})}
	m.in.Pool, m.in.PartialPools, m.in.Limit = &pools.Read, pools, 1<<20
	m.out.Init(m, &writer.Config{
		Pools:  pools,
		Bounds: buffer.Bounds{Bytes: 64 << 20, Frames: 64, Memory: 64 << 20, Chunk: buffer.ChunkSize}, Policy: writer.Refuse,
	})
	if set != nil {
		set(m)
	}
	if m.wrap != nil {
		here = m.wrap(here)
	}
	m.conn = goroutineconn.New(here, m, &goroutineconn.Config{
		Pools: pools, Now: func() int64 { return int64(time.Since(start)) }, Epoch: start, FreshAfter: int64(50 * time.Microsecond),
	})
	go m.conn.Run()
	t.Cleanup(func() {
		m.Close()
		<-m.concluded
		_ = there.Close()
	})
	return m, there
}

// pair returns the two ends of a connection.
func pair(t *testing.T, network string) (here, there net.Conn) {
	t.Helper()
	if network == "pipe" {
		return net.Pipe()
	}
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = ln.Close() }()
	if there, err = net.Dial("tcp", ln.Addr().String()); err == nil {
		here, err = ln.Accept()
	}
	if err != nil {
		t.Fatal(err)
	}
	return here, there
}

func (m *member) IsClosed() bool                  { return m.over.Load() }
func (m *member) Input() *buffer.Inbound          { return &m.in }
func (m *member) HandshakeTimeout() time.Duration { return 0 }
func (m *member) HandshakeFailed(error)           { m.t.Error("there is no handshake") }
func (m *member) CatchUp() bool                   { return true }
func (m *member) IsPaused() bool                  { return false }
func (m *member) Due() int64                      { return m.due.Load() }
func (m *member) IsDone() (bool, int64)           { return m.over.Load() || m.out.IsEmpty(), 0 }
func (m *member) IsQuiet() bool                   { return m.helpers == 0 && m.out.State() == writer.Idle }
func (m *member) Writer() *writer.Writer          { return &m.out }
func (m *member) WriteTimeout() time.Duration     { return m.writeTimeout }
func (m *member) Wrote(int)                       {}
func (m *member) StartClocks()                    { m.conn.ArmLocked() }

func (m *member) Begin() bool {
	m.begins++
	return true
}

func (m *member) Received(n int) bool {
	unread := m.in.Unread()
	if len(unread) < n {
		m.t.Errorf("%d bytes are unread after %d arrived", len(unread), n)
	}
	m.out.Lock()
	m.got.Write(unread)
	m.goroutine = goroutineID()
	m.events = append(m.events, string(unread))
	m.out.Unlock()
	if m.echoes {
		if err := m.out.Write(unread, false); err != nil {
			m.t.Error(err)
		}
	}
	text := string(unread)
	m.in.Discard(len(unread))
	if m.during != nil {
		m.during(text)
	}
	return true
}

func (m *member) TimerFired() bool { return m.due.Swap(0) > 0 }

func (m *member) Tick() bool {
	m.out.Lock()
	defer m.out.Unlock()
	m.ticks++
	m.events = append(m.events, "tick")
	return true
}

func (m *member) ReadEnded(err error) {
	m.out.Lock()
	defer m.out.Unlock()
	m.readErr = err
}

func (m *member) closeLocked() {
	if m.over.CompareAndSwap(false, true) {
		m.out.Abort()
		m.conn.AbortLocked(false)
		m.conn.WakeLocked()
	}
}

func (m *member) Close() {
	m.out.Lock()
	defer m.out.Unlock()
	m.closeLocked()
}

func (m *member) ConcludeAndUnlock() {
	m.out.Release()
	m.out.Unlock()
	m.in.Release()
	close(m.concluded)
}

func (m *member) WriteFailed(err error) {
	m.writeErr = err
	m.closeLocked()
}

func (m *member) Help(f func()) {
	m.helpers++
	go func() {
		defer func() {
			m.out.Lock()
			defer m.out.Unlock()
			m.helpers--
			m.conn.WakeLocked()
		}()
		f()
	}()
}

// The connection and the owner of the Writer.

func (m *member) Conn() writer.Conn                           { return m }
func (m *member) Direct() bool                                { return m.conn.Stream().Direct() }
func (m *member) TryWrite(b *buffer.Batch) (int, error)       { return m.conn.Stream().TryWrite(b) }
func (m *member) TryWriteBig(l *buffer.BigFrame) (int, error) { return m.conn.Stream().TryWriteBig(l) }
func (m *member) HasPending() bool                            { return false }
func (m *member) CloseWrite() bool                            { return m.conn.Stream().CloseWrite() }
func (m *member) ArmWritable()                                { m.conn.ArmWritable() }
func (m *member) BeginBig(*buffer.BigFrame)                   {}
func (m *member) EndBig(*buffer.BigFrame) bool                { return true }
func (m *member) Err() error                                  { return errOver }
func (m *member) Fail(_ writer.Reason, err error)             { m.WriteFailed(err) }
func (m *member) Lost(int)                                    {}
func (m *member) Dropped(int)                                 {}
func (m *member) Now() int64                                  { return 0 }
func (m *member) Drained()                                    { m.conn.WakeLocked() }
func (m *member) Writable()                                   {}
func (m *member) Resumed()                                    {}
func (m *member) WillBlock() bool                             { return false }
func (m *member) HandedOff()                                  {}
func (m *member) HoldCork() bool                              { return false }
func (m *member) ReleaseCork()                                {}

// await waits until something holds, which is asked with the lock held.
func (m *member) await(what string, holds func() bool) {
	m.t.Helper()
	testwait.True(m.t, what, func() bool {
		m.out.Lock()
		defer m.out.Unlock()
		return holds()
	})
}

func over(t *testing.T, test func(t *testing.T, network string)) {
	t.Helper()
	for _, network := range []string{"tcp", "pipe"} {
		t.Run(network, func(t *testing.T) { test(t, network) })
	}
}

func write(t *testing.T, conn net.Conn, text string) {
	t.Helper()
	if _, err := io.WriteString(conn, text); err != nil {
		t.Fatal(err)
	}
}

// What is read is handed on, what is written arrives, and the peer's end ends the member once.
func TestEcho(t *testing.T) {
	over(t, func(t *testing.T, network string) {
		m, peer := run(t, network, func(m *member) { m.echoes = true })
		for range 100 {
			write(t, peer, "hello")
			got := make([]byte, 5)
			if _, err := io.ReadFull(peer, got); err != nil || string(got) != "hello" {
				t.Fatalf("read %q, %v", got, err)
			}
		}
		_ = peer.Close()
		<-m.concluded
		if m.begins != 1 || m.got.Len() != 500 || !errors.Is(m.readErr, io.EOF) {
			t.Errorf("it was begun %d times, got %d bytes, and ended with %v", m.begins, m.got.Len(), m.readErr)
		}
	})
}

// While the peer does not read, a helper goroutine waits for room; afterwards everything arrives in order, and no helper is left.
func TestNoRoom(t *testing.T) {
	over(t, func(t *testing.T, network string) {
		m, peer := run(t, network, nil)
		large := strings.Repeat("0123456789", 1<<20)
		for range 2 {
			if err := m.out.Write([]byte(large), false); err != nil {
				t.Fatal(err)
			}
		}
		m.await("a helper waits for room", func() bool { return m.helpers == 1 && m.out.State() == writer.WaitWritable })
		got := make([]byte, 2*len(large))
		if _, err := io.ReadFull(peer, got); err != nil || string(got) != large+large {
			t.Fatalf("the bytes that arrived are wrong: %v", err)
		}
		m.await("no helper is left", func() bool { return m.helpers == 0 && m.out.IsEmpty() })
	})
}

// If the member is closed while a helper waits for room, the helper ends, and so does the connection.
func TestCloseWhileWriting(t *testing.T) {
	over(t, func(t *testing.T, network string) {
		m, _ := run(t, network, nil)
		if err := m.out.Write(make([]byte, 32<<20), false); err != nil {
			t.Fatal(err)
		}
		m.await("a helper waits for room", func() bool { return m.helpers == 1 })
		m.Close()
		<-m.concluded
	})
}

// deadlineConn notes the last write deadline.
type deadlineConn struct {
	net.Conn
	last atomic.Pointer[time.Time]
}

func (c *deadlineConn) SetWriteDeadline(t time.Time) error {
	c.last.Store(&t)
	return c.Conn.SetWriteDeadline(t)
}

// Each write gets a deadline of its own. If WriteTimeout is switched off, the deadline of an earlier write is removed.
func TestWriteDeadline(t *testing.T) {
	var conn *deadlineConn
	m, peer := run(t, "pipe", func(m *member) {
		m.wrap = func(c net.Conn) net.Conn {
			conn = &deadlineConn{Conn: c}
			return conn
		}
	})
	for _, limit := range []time.Duration{time.Hour, 0} {
		m.out.Lock()
		m.writeTimeout = limit
		m.out.Unlock()
		if err := m.out.Write([]byte("hello"), false); err != nil {
			t.Fatal(err)
		}
		if _, err := io.ReadFull(peer, make([]byte, 5)); err != nil {
			t.Fatal(err)
		}
		if last := conn.last.Load(); last.IsZero() != (limit == 0) {
			t.Errorf("with a timeout of %v the deadline is %v", limit, last)
		}
		m.await("no helper is left", func() bool { return m.helpers == 0 })
	}
}

// The read deadline is the timer. Setting it for another time neither loses a tick nor ends the reading.
func TestTimer(t *testing.T) {
	over(t, func(t *testing.T, network string) {
		m, peer := run(t, network, func(m *member) { m.due.Store(1) })
		for i := 1; i <= 3; i++ {
			m.await("it has ticked", func() bool { return m.ticks == i })
			m.out.Lock()
			m.due.Store(int64(i))
			m.conn.ArmLocked()
			m.out.Unlock()
		}
		write(t, peer, "still here")
		m.await("it reads on", func() bool { return m.got.String() == "still here" })
	})
}

// If a tick becomes due while something is handled, Yield lets it come before bytes that have arrived meanwhile.
func TestYield(t *testing.T) {
	m, peer := run(t, "tcp", func(m *member) {
		m.during = func(text string) {
			if text != "now" {
				return
			}
			m.out.Lock()
			m.due.Store(1)
			m.conn.ArmLocked()
			m.out.Unlock()
			write(t, m.peer, "then")
			m.conn.Yield()
		}
	})
	for round := range 30 { // in most of them the goroutine has waited before
		write(t, peer, "now")
		m.await("all have come", func() bool { return len(m.events) >= 3*(round+1) })
		m.out.Lock()
		got := strings.Join(m.events[3*round:], " ")
		m.out.Unlock()
		if got != "now tick then" {
			t.Fatalf("the order was %s", got)
		}
	}
}

// While the peer is silent a new goroutine takes the place of the one whose stack may have grown. The member does not notice.
func TestFreshGoroutine(t *testing.T) {
	over(t, func(t *testing.T, network string) {
		m, peer := run(t, network, nil)
		write(t, peer, "x")
		var first string
		m.await("the byte has arrived", func() bool { first = m.goroutine; return m.got.Len() == 1 })
		testwait.True(t, "another goroutine has the connection", func() bool {
			write(t, peer, "x")
			m.out.Lock()
			defer m.out.Unlock()
			return m.goroutine != first
		})
		if m.begins != 1 {
			t.Errorf("it was begun %d times", m.begins)
		}
	})
}

// goroutineID returns the number of the calling goroutine, as stack traces have it.
func goroutineID() string {
	text := make([]byte, 64)
	id, _, _ := strings.Cut(string(text[:runtime.Stack(text, false)]), "[")
	return id
}
