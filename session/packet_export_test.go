package session

import (
	"net"
	"os"
	"sync"
	"time"
	"unsafe"

	"github.com/sluice-push/sluice/internal/datagram"
	"github.com/sluice-push/sluice/transport/udp"
)

// The sizes of the structs of an idle session over datagrams.
const (
	SizeOfSession    = unsafe.Sizeof(Session{})
	SizeOfPacketPeer = unsafe.Sizeof(packetConn{})
)

// InboxMax is how many datagrams wait for a session at most.
const InboxMax = datagram.InboxPackets

// PacketValve is a socket that sends batches, and takes only as many datagrams as the test allows.
type PacketValve struct {
	datagram.Conn
	mu       sync.Mutex
	cond     sync.Cond
	room     int
	deadline time.Time
	closed   bool
	got      []string
	calls    int
	blocked  bool // a caller waits for room
}

// ServeValve serves pc until the server is closed. It sends only the datagrams that the valve lets through.
func ServeValve(srv *Server, pc net.PacketConn) (v *PacketValve, serve func() error) {
	v = &PacketValve{Conn: datagram.NewConn(pc)}
	v.cond.L = &v.mu
	return v, func() error { return srv.servePackets(v) }
}

// Give makes room for n more datagrams.
func (v *PacketValve) Give(n int) {
	v.mu.Lock()
	defer v.mu.Unlock()
	v.room += n
	v.cond.Broadcast()
}

// Got returns the datagrams that were sent, and the number of calls.
func (v *PacketValve) Got() (got []string, calls int) {
	v.mu.Lock()
	defer v.mu.Unlock()
	return append([]string(nil), v.got...), v.calls
}

// Blocked reports whether a caller waits for room.
func (v *PacketValve) Blocked() bool {
	v.mu.Lock()
	defer v.mu.Unlock()
	return v.blocked
}

func (v *PacketValve) SendsBatches() bool { return true }

func (v *PacketValve) Try(ps []udp.Packet) (int, error) {
	v.mu.Lock()
	defer v.mu.Unlock()
	n := min(len(ps), v.room)
	v.takeLocked(ps[:n])
	return n, nil
}

func (v *PacketValve) takeLocked(ps []udp.Packet) {
	v.calls++
	v.room -= len(ps)
	for _, p := range ps {
		v.got = append(v.got, string(p.Data))
	}
}

func (v *PacketValve) Send(p *udp.Packet, _ net.Addr) error {
	v.mu.Lock()
	defer v.mu.Unlock()
	for v.room == 0 {
		switch {
		case v.closed:
			return net.ErrClosed
		case !v.deadline.IsZero() && !time.Now().Before(v.deadline):
			return os.ErrDeadlineExceeded
		}
		v.blocked = true
		v.cond.Wait()
		v.blocked = false
	}
	v.takeLocked([]udp.Packet{*p})
	return nil
}

func (v *PacketValve) SetWriteDeadline(t time.Time) error {
	v.mu.Lock()
	defer v.mu.Unlock()
	v.deadline = t
	if !t.IsZero() {
		time.AfterFunc(time.Until(t), v.cond.Broadcast)
	}
	v.cond.Broadcast()
	return nil
}

func (v *PacketValve) Close() {
	v.mu.Lock()
	v.closed = true
	v.cond.Broadcast()
	v.mu.Unlock()
	v.Conn.Close()
}

// PacketBacklog returns how many datagrams wait in the inboxes of the sessions of srv.
func PacketBacklog(srv *Server) (n int) {
	for s := range srv.Sessions() {
		s.out.Lock()
		n += s.packet.reg.Backlog()
		s.out.Unlock()
	}
	return n
}

// PacketsRest reports whether all readers of srv are idle, and no datagram is corked.
func PacketsRest(srv *Server) bool { return srv.sockets.IsAsleep() }

// PacketsSending returns how many callers wait for room in the sockets of srv.
func PacketsSending(srv *Server) (n int) {
	for s := range srv.Sessions() {
		s.out.Lock()
		n += int(s.packet.sending)
		s.out.Unlock()
	}
	return n
}
