package datagram_test

import (
	"net"
	"net/netip"
	"os"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/sluice-push/sluice/internal/buffer"
	"github.com/sluice-push/sluice/internal/datagram"
	"github.com/sluice-push/sluice/transport/udp"
)

// valve is a socket that takes only as many datagrams as the test allows.
type valve struct {
	singly bool // it sends no batches

	mu       sync.Mutex
	cond     sync.Cond
	room     int
	closed   bool
	deadline time.Time
	failures []error // the errors of the next calls of Try
	got      []string
	to       []netip.AddrPort
	calls    int // calls that sent at least one datagram
}

func newValve(room int) *valve {
	v := &valve{room: room}
	v.cond.L = &v.mu
	return v
}

func (v *valve) give(n int) {
	v.mu.Lock()
	defer v.mu.Unlock()
	v.room += n
	v.cond.Broadcast()
}

// expect fails if other datagrams were sent so far, or in another number of calls; -1 means any number.
func (v *valve) expect(t testing.TB, calls int, want ...string) {
	t.Helper()
	v.mu.Lock()
	defer v.mu.Unlock()
	if !slices.Equal(v.got, want) || calls >= 0 && v.calls != calls {
		t.Errorf("%q was sent in %d calls, want %q in %d", v.got, v.calls, want, calls)
	}
}

func (v *valve) takeLocked(ps []udp.Packet) {
	if len(ps) > 0 {
		v.calls++
	}
	v.room -= len(ps)
	for _, p := range ps {
		v.got, v.to = append(v.got, string(p.Data)), append(v.to, p.Addr)
	}
}

func (v *valve) SendsBatches() bool { return !v.singly }

func (v *valve) Try(ps []udp.Packet) (int, error) {
	v.mu.Lock()
	defer v.mu.Unlock()
	if len(v.failures) > 0 {
		err := v.failures[0]
		v.failures = v.failures[1:]
		return 0, err
	}
	n := min(len(ps), v.room)
	v.takeLocked(ps[:n])
	return n, nil
}

func (v *valve) Send(p *udp.Packet, _ net.Addr) error {
	v.mu.Lock()
	defer v.mu.Unlock()
	for v.room == 0 {
		switch {
		case v.closed:
			return net.ErrClosed
		case !v.deadline.IsZero() && !time.Now().Before(v.deadline):
			return os.ErrDeadlineExceeded
		}
		v.cond.Wait()
	}
	v.takeLocked([]udp.Packet{*p})
	return nil
}

func (v *valve) SetWriteDeadline(t time.Time) error {
	v.mu.Lock()
	defer v.mu.Unlock()
	v.deadline = t
	if !t.IsZero() {
		time.AfterFunc(time.Until(t), v.cond.Broadcast)
	}
	v.cond.Broadcast()
	return nil
}

func (v *valve) Close() {
	v.mu.Lock()
	defer v.mu.Unlock()
	v.closed = true
	v.cond.Broadcast()
}

func (*valve) Read([]udp.Packet) (int, net.Addr, error) { return 0, nil, net.ErrClosed }
func (*valve) SetReadDeadline(time.Time) error          { return nil }
func (*valve) Local() net.Addr                          { return nil }
func (*valve) Net() net.Conn                            { return nil }

// peer records the calls of its methods. No caller of the Sender holds its lock.
type peer struct {
	at netip.AddrPort

	mu       sync.Mutex
	ended    bool
	sent     int
	dropped  int
	wants    bool
	writable int
}

func newPeer(port uint16) *peer {
	return &peer{at: netip.AddrPortFrom(netip.AddrFrom4([4]byte{127, 0, 0, 1}), port)}
}

func (p *peer) Address() (netip.AddrPort, net.Addr) { return p.at, nil }

func (p *peer) Ended() bool { return p.look().ended }

func (p *peer) Sent(n int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.sent += n
}

func (p *peer) Dropped() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.dropped++
}

func (p *peer) Want() (first bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	first = !p.wants
	p.wants = true
	return first
}

func (p *peer) Writable() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.wants = false
	p.writable++
}

func (p *peer) end() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.ended = true
}

// told is the calls that a peer has got.
type told struct {
	ended                   bool
	sent, dropped, writable int
}

func (p *peer) look() told {
	p.mu.Lock()
	defer p.mu.Unlock()
	return told{p.ended, p.sent, p.dropped, p.writable}
}

// expect fails if p has got other calls.
func (p *peer) expect(t testing.TB, sent, dropped, writable int) {
	t.Helper()
	if got := p.look(); got.sent != sent || got.dropped != dropped || got.writable != writable {
		t.Errorf("told %+v, want %d bytes sent, %d dropped, writable %d times", got, sent, dropped, writable)
	}
}

// memory is the size in bytes of the senders' buffers.
const memory = 8 << 10

// bubble runs f with a sender in a bubble of testing/synctest. At the end it closes the socket, and all goroutines must end.
func bubble(t *testing.T, v *valve, o datagram.Options, f func(t *testing.T, sd *datagram.Sender)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		var work sync.WaitGroup
		o.Conn, o.Pool, o.Go = v, &buffer.Pool{Size: memory}, work.Go
		f(t, datagram.NewSender(&o))
		v.Close()
		work.Wait()
	})
}
