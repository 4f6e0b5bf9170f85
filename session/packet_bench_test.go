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

// Echo of datagrams of 100 bytes, of which so many are on their way.
const packetWindow = 32

// BenchmarkPacketEcho compares sessions with the loop that one would write by hand. An operation is one datagram there and back.
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

// multitude is a socket that receives one datagram from each of very many peers.
type multitude struct {
	net.PacketConn
	next, peers int
	heard       atomic.Bool
	woken       chan bool // capacity 1
	timer       *time.Timer
}

func (c *multitude) ReadFromUDPAddrPort(b []byte) (int, netip.AddrPort, error) {
	if c.next == c.peers {
		c.heard.Store(true)
		<-c.woken
		return 0, netip.AddrPort{}, os.ErrDeadlineExceeded
	}
	c.next++
	ip := netip.AddrFrom4([4]byte{10, byte(c.next >> 16), byte(c.next >> 8), byte(c.next)})
	return copy(b, "x\n"), netip.AddrPortFrom(ip, 1000), nil
}

// SetReadDeadline wakes who reads, in time.
func (c *multitude) SetReadDeadline(at time.Time) error {
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

func (*multitude) WriteToUDPAddrPort(b []byte, _ netip.AddrPort) (int, error) { return len(b), nil }
func (*multitude) SetWriteDeadline(time.Time) error                           { return nil }
func (*multitude) LocalAddr() net.Addr                                        { return new(net.UDPAddr) }
func (*multitude) Close() error                                               { return nil }

// heapAndStacks returns the bytes in use.
func heapAndStacks() uint64 {
	runtime.GC()
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return m.HeapAlloc + m.StackInuse
}

// idlePackets makes sessions that do nothing, and returns what they take.
func idlePackets(t testing.TB, peers int) (bytes uint64, goroutines int) {
	before, were := heapAndStacks(), runtime.NumGoroutine()
	c := &multitude{peers: peers, woken: make(chan bool, 1)}
	h := echo()
	srv := session.NewServer(line, &h, &session.Options{MaxSessions: -1})
	served := make(chan error, 1)
	go func() { served <- srv.ServePacket(c) }()
	await(t, c.heard.Load)
	if srv.Len() != peers {
		t.Errorf("%d sessions are live", srv.Len())
	}
	// The watch ends when nothing has happened for a while.
	await(t, func() bool { return runtime.NumGoroutine() <= were+2 })
	bytes, goroutines = heapAndStacks()-before, runtime.NumGoroutine()-were
	_ = srv.Close()
	_ = receive(t, served)
	return bytes, goroutines
}

// BenchmarkPacketIdle prints what an idle session over datagrams takes.
func BenchmarkPacketIdle(b *testing.B) {
	const peers = 50_000
	for b.Loop() {
		bytes, _ := idlePackets(b, peers)
		b.ReportMetric(float64(bytes)/peers, "B/session")
	}
	b.ReportMetric(float64(session.SizeOfSession), "B/Session")
	b.ReportMetric(float64(session.SizeOfPacketPeer), "B/peer")
}

// An idle session has no goroutine and no buffer: 1.5 KB would hardly be anything else than what it is made of.
func TestPacketIdleMemory(t *testing.T) {
	if session.SizeOfSession > 576-8 { // what the heap keeps for objects of more than 512 bytes that have pointers is part of the class
		t.Errorf("a Session has %d bytes, and so is of the next size class", session.SizeOfSession)
	}
	const peers = 2000
	bytes, goroutines := idlePackets(t, peers)
	if bytes/peers > 1500 || goroutines > 2 {
		t.Errorf("an idle session takes %d bytes; %d goroutines for the socket and who serves it", bytes/peers, goroutines)
	}
}

// A message allocates nothing. The race detector has pools forget things at random, so it is allowed for.
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
