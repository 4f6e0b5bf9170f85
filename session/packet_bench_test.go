package session_test

import (
	"net"
	"net/netip"
	"os"
	"runtime"
	"sync/atomic"
	"testing"
	"time"

	"github.com/sluice-push/sluice/session"
)

// Echo of datagrams of 100 bytes, with a fixed number of them in flight.
const packetWindow = 32

// BenchmarkPacketEcho compares sessions with a loop that is written by hand. An operation is one datagram there and back.
func BenchmarkPacketEcho(b *testing.B) {
	b.Run("bare", func(b *testing.B) {
		pc := listenPlain(b).(*net.UDPConn)
		done := make(chan bool)
		go func() {
			defer close(done)
			for buf := make([]byte, 2048); ; {
				n, from, err := pc.ReadFromUDPAddrPort(buf)
				if err != nil {
					return
				}
				_, _ = pc.WriteToUDPAddrPort(buf[:n], from)
			}
		}()
		benchmarkPacketEcho(b, pc.LocalAddr())
		_ = pc.Close()
		<-done
	})
	for _, kind := range packetKinds {
		b.Run(kind.name, func(b *testing.B) {
			h := echo()
			benchmarkPacketEcho(b, servePackets(b, kind, &h, nil).at)
		})
	}
}

func benchmarkPacketEcho(b *testing.B, at net.Addr) {
	conn := (&packetFixture{at: at}).dial(b)
	_ = conn.SetDeadline(time.Time{})
	msg := make([]byte, 100)
	msg[99] = '\n'
	buf := make([]byte, 2048)
	inFlight := 0
	b.ReportAllocs()
	b.SetBytes(100)
	for b.Loop() {
		if inFlight == packetWindow {
			for range packetWindow {
				if _, err := conn.Read(buf); err != nil {
					b.Fatal(err)
				}
			}
			inFlight = 0
		}
		if _, err := conn.Write(msg); err != nil {
			b.Fatal(err)
		}
		inFlight++
	}
	for range inFlight {
		if _, err := conn.Read(buf); err != nil {
			b.Fatal(err)
		}
	}
}

// manyPeersSocket is a socket that receives one datagram from each of very many peers.
type manyPeersSocket struct {
	net.PacketConn
	next, peers int
	received    atomic.Bool
	woken       chan bool // capacity 1
	timer       *time.Timer
}

func (c *manyPeersSocket) ReadFromUDPAddrPort(b []byte) (int, netip.AddrPort, error) {
	if c.next == c.peers {
		c.received.Store(true)
		<-c.woken
		return 0, netip.AddrPort{}, os.ErrDeadlineExceeded
	}
	c.next++
	ip := netip.AddrFrom4([4]byte{10, byte(c.next >> 16), byte(c.next >> 8), byte(c.next)})
	return copy(b, "x\n"), netip.AddrPortFrom(ip, 1000), nil
}

// SetReadDeadline wakes the reader if the deadline has passed.
func (c *manyPeersSocket) SetReadDeadline(at time.Time) error {
	if c.timer != nil {
		c.timer.Stop()
	}
	if !at.IsZero() {
		c.timer = time.AfterFunc(time.Until(at), func() {
			select {
			case c.woken <- true:
			default:
			}
		})
	}
	return nil
}

func (*manyPeersSocket) WriteToUDPAddrPort(b []byte, _ netip.AddrPort) (int, error) {
	return len(b), nil
}
func (*manyPeersSocket) SetWriteDeadline(time.Time) error { return nil }
func (*manyPeersSocket) LocalAddr() net.Addr              { return new(net.UDPAddr) }
func (*manyPeersSocket) Close() error                     { return nil }

// heapAndStacks returns the bytes in heap and stacks.
func heapAndStacks() uint64 {
	runtime.GC()
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return m.HeapAlloc + m.StackInuse
}

// idlePackets makes idle sessions, and returns the bytes that they take together. They need no goroutines but two, for the socket and its server.
func idlePackets(t testing.TB, peers int) (bytes uint64) {
	before, were := heapAndStacks(), runtime.NumGoroutine()
	c := &manyPeersSocket{peers: peers, woken: make(chan bool, 1)}
	h := echo()
	srv := session.NewServer(line, &h, &session.Options{MaxSessions: -1})
	served := make(chan error, 1)
	go func() { served <- srv.ServePacket(c) }()
	await(t, c.received.Load)
	if srv.Len() != peers {
		t.Errorf("%d sessions are live", srv.Len())
	}
	// The watchdog ends when nothing has happened for a while.
	await(t, func() bool { return runtime.NumGoroutine() <= were+2 })
	bytes = heapAndStacks() - before
	_ = srv.Close()
	_ = receive(t, served)
	return bytes
}

// BenchmarkPacketIdle reports the memory of an idle session over datagrams.
func BenchmarkPacketIdle(b *testing.B) {
	const peers = 50_000
	for b.Loop() {
		bytes := idlePackets(b, peers)
		b.ReportMetric(float64(bytes)/peers, "B/session")
	}
	b.ReportMetric(float64(session.SizeOfSession), "B/Session")
	b.ReportMetric(float64(session.SizeOfPacketPeer), "B/peer")
}

// An idle session has no goroutine and no buffer: 1.5 KB has room for little more than its structs.
func TestPacketIdleMemory(t *testing.T) {
	if session.SizeOfSession > 576-8 { // for objects of more than 512 bytes with pointers, 8 bytes of the heap's size class are not the object's
		t.Errorf("a Session has %d bytes, and so is of the next size class", session.SizeOfSession)
	}
	const peers = 2000
	if bytes := idlePackets(t, peers); bytes/peers > 1500 {
		t.Errorf("an idle session takes %d bytes", bytes/peers)
	}
}

// A message allocates nothing. With the race detector some allocations are allowed, because pools drop objects at random.
func TestPacketAllocations(t *testing.T) {
	h := echo()
	f := servePackets(t, packetKinds[0], &h, nil)
	conn := f.dial(t)
	msg, buf := []byte("hello\nworld\n"), make([]byte, 100)
	allocs := testing.AllocsPerRun(2000, func() {
		if _, err := conn.Write(msg); err != nil {
			t.Fatal(err)
		}
		for range 2 {
			if _, err := conn.Read(buf); err != nil {
				t.Fatal(err)
			}
		}
	})
	if most := 4.0; allocs > most {
		t.Errorf("%v allocations for two messages", allocs)
	}
}
