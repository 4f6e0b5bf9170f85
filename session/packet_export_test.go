package session

import (
	"net"
	"os"
	"sync"
	"time"
	"unsafe"

	"github.com/sluice-push/sluice/internal/datagram"
	"github.com/sluice-push/sluice/transport"
)

// Sizes of what an idle session over datagrams takes.
const (
	SizeOfSession    = unsafe.Sizeof(Session{})
	SizeOfPacketPeer = unsafe.Sizeof(packetPeer{})
)

// InboxMax is how many datagrams wait for a session.
const InboxMax = inboxMax

// PacketValve is a socket that sends batches and takes only as many datagrams as the test lets it.
type PacketValve struct {
	datagram.Conn
	mu       sync.Mutex
	cond     sync.Cond
	room     int
	deadline time.Time
	closed   bool
	got      []string
	calls    int
	blocked  bool // somebody waits for room
}

// ServeValve serves pc, which sends nothing but what the valve lets through, until the server is closed.
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

// Got returns what was sent, and in how many calls.
func (v *PacketValve) Got() (got []string, calls int) {
	v.mu.Lock()
	defer v.mu.Unlock()
	return append([]string(nil), v.got...), v.calls
}

// Blocked reports whether somebody waits for room.
func (v *PacketValve) Blocked() bool {
	v.mu.Lock()
	defer v.mu.Unlock()
	return v.blocked
}

func (v *PacketValve) Gathers() bool { return true }

func (v *PacketValve) Try(ps []transport.Packet) (int, error) {
	v.mu.Lock()
	defer v.mu.Unlock()
	n := min(len(ps), v.room)
	v.takeLocked(ps[:n])
	return n, nil
}

func (v *PacketValve) takeLocked(ps []transport.Packet) {
	v.calls++
	v.room -= len(ps)
	for _, p := range ps {
		v.got = append(v.got, string(p.Data))
	}
}

func (v *PacketValve) Send(p *transport.Packet, _ net.Addr) error {
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
	v.takeLocked([]transport.Packet{*p})
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
		s.mu.Lock()
		n += s.packet.inbox.Count
		s.mu.Unlock()
	}
	return n
}

// PacketsRest reports whether no reader of srv has anything to do, and nothing is gathered.
func PacketsRest(srv *Server) bool {
	srv.sockets.mu.Lock()
	defer srv.sockets.mu.Unlock()
	for k := range srv.sockets.all {
		k.mu.Lock()
		rests := k.asleep && len(k.posted) == 0 // which a reader is not while it gathers
		k.mu.Unlock()
		if !rests {
			return false
		}
	}
	return true
}

// PacketsSending returns how many callers wait for room in the sockets of srv.
func PacketsSending(srv *Server) (n int) {
	for s := range srv.Sessions() {
		s.mu.Lock()
		n += s.packet.sending
		s.mu.Unlock()
	}
	return n
}
