package session

import (
	"net"
	"os"
	"sync"
	"time"
	"unsafe"

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
	packetConn
	mu       sync.Mutex
	cond     sync.Cond
	room     int
	deadline time.Time
	closed   bool
	got      []string
	calls    int
}

// ServeValve serves pc, which sends nothing but what the valve lets through, until the server is closed.
func ServeValve(srv *Server, pc net.PacketConn) (v *PacketValve, serve func() error) {
	v = &PacketValve{packetConn: newPacketConn(pc)}
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

func (v *PacketValve) gathers() bool { return true }

func (v *PacketValve) try(ps []transport.Packet) (int, error) {
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

func (v *PacketValve) send(p *transport.Packet, _ net.Addr) error {
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
	v.takeLocked([]transport.Packet{*p})
	return nil
}

func (v *PacketValve) setWriteDeadline(t time.Time) error {
	v.mu.Lock()
	defer v.mu.Unlock()
	v.deadline = t
	if !t.IsZero() {
		time.AfterFunc(time.Until(t), v.cond.Broadcast)
	}
	v.cond.Broadcast()
	return nil
}

func (v *PacketValve) close() {
	v.mu.Lock()
	v.closed = true
	v.cond.Broadcast()
	v.mu.Unlock()
	v.packetConn.close()
}

// PacketBacklog returns how many datagrams wait in the inboxes of the sessions of srv.
func PacketBacklog(srv *Server) (n int) {
	for s := range srv.Sessions() {
		s.mu.Lock()
		n += s.packet.inbox.count
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
		asleep := k.asleep && len(k.posted) == 0
		k.mu.Unlock()
		k.out.mu.Lock()
		corked := k.out.corked
		k.out.mu.Unlock()
		if !asleep || corked {
			return false
		}
	}
	return true
}

// PacketsFull reports whether somebody waits for room in a socket of srv.
func PacketsFull(srv *Server) bool {
	srv.sockets.mu.Lock()
	defer srv.sockets.mu.Unlock()
	for k := range srv.sockets.all {
		if k.out.full() {
			return true
		}
	}
	return false
}

// PacketsHeld returns how many datagrams wait for room.
func PacketsHeld(srv *Server) (n int) {
	srv.sockets.mu.Lock()
	defer srv.sockets.mu.Unlock()
	for k := range srv.sockets.all {
		k.out.mu.Lock()
		n += len(k.out.held)
		k.out.mu.Unlock()
	}
	return n
}
