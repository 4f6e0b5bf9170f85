package session

import (
	"errors"
	"net"
	"net/netip"
	"runtime"
	"syscall"
	"time"

	"github.com/sluice-push/sluice/transport"
)

// newPacketConn chooses how a socket is read and written.
func newPacketConn(pc net.PacketConn) packetConn {
	if batched, ok := pc.(*transport.PacketConn); ok {
		return &packetBatches{batched}
	}
	c := &packetSingles{pc: pc}
	c.ip, _ = pc.(addrPortConn)
	return c
}

// packetBatches is a socket that reads and writes many datagrams in a call.
type packetBatches struct{ pc *transport.PacketConn }

func (c *packetBatches) read(ps []transport.Packet) (int, net.Addr, error) {
	n, err := c.pc.ReadBatch(ps)
	return n, nil, err
}

func (c *packetBatches) gathers() bool { return true }

func (c *packetBatches) try(ps []transport.Packet) (int, error) { return c.pc.TryWriteBatch(ps) }

func (c *packetBatches) send(p *transport.Packet, _ net.Addr) error {
	ps := [1]transport.Packet{*p}
	_, err := c.pc.WriteBatch(ps[:])
	return err
}

func (c *packetBatches) setReadDeadline(t time.Time) error  { return c.pc.SetReadDeadline(t) }
func (c *packetBatches) setWriteDeadline(t time.Time) error { return c.pc.SetWriteDeadline(t) }
func (c *packetBatches) local() net.Addr                    { return c.pc.LocalAddr() }
func (c *packetBatches) net() net.Conn                      { return c.pc }
func (c *packetBatches) close()                             { _ = c.pc.Close() }

// addrPortConn are the methods of *net.UDPConn that allocate nothing.
type addrPortConn interface {
	ReadFromUDPAddrPort(b []byte) (int, netip.AddrPort, error)
	WriteToUDPAddrPort(b []byte, addr netip.AddrPort) (int, error)
}

// packetSingles is any other socket.
type packetSingles struct {
	pc net.PacketConn
	ip addrPortConn // pc, or nil
}

func (c *packetSingles) read(ps []transport.Packet) (int, net.Addr, error) {
	p := &ps[0]
	b := p.Data[:cap(p.Data)]
	var n int
	var from net.Addr
	var err error
	if c.ip != nil {
		n, p.Addr, err = c.ip.ReadFromUDPAddrPort(b)
	} else if n, from, err = c.pc.ReadFrom(b); err == nil {
		p.Addr = netip.AddrPort{}
		if udp, ok := from.(*net.UDPAddr); ok && udp != nil {
			p.Addr, from = udp.AddrPort(), nil
		}
	}
	if err != nil {
		return 0, nil, err
	}
	p.Addr = netip.AddrPortFrom(p.Addr.Addr().Unmap(), p.Addr.Port())
	p.Data, p.Truncated = b[:n], n == len(b)
	return 1, from, nil
}

func (c *packetSingles) gathers() bool { return false }

func (c *packetSingles) try([]transport.Packet) (int, error) { return 0, nil }

func (c *packetSingles) send(p *transport.Packet, to net.Addr) (err error) {
	switch {
	case to != nil:
		_, err = c.pc.WriteTo(p.Data, to)
	case c.ip != nil:
		_, err = c.ip.WriteToUDPAddrPort(p.Data, p.Addr)
	default:
		_, err = c.pc.WriteTo(p.Data, net.UDPAddrFromAddrPort(p.Addr))
	}
	return err
}

func (c *packetSingles) setReadDeadline(t time.Time) error  { return c.pc.SetReadDeadline(t) }
func (c *packetSingles) setWriteDeadline(t time.Time) error { return c.pc.SetWriteDeadline(t) }
func (c *packetSingles) local() net.Addr                    { return c.pc.LocalAddr() }
func (c *packetSingles) net() net.Conn                      { return nil }
func (c *packetSingles) close()                             { _ = c.pc.Close() }

// Errors of Winsock, which package syscall numbers but does not name everywhere.
const (
	wsaTooLarge = syscall.Errno(10040)
	wsaReset    = syscall.Errno(10054) // what it says where others say ECONNREFUSED
)

// isErrno reports whether err is an error of the system: unix, or windows there.
func isErrno(err error, unix, windows syscall.Errno) bool {
	var errno syscall.Errno
	return errors.As(err, &errno) && (errno == unix || runtime.GOOS == "windows" && errno == windows)
}

// nobodyListens reports whether err says that the peer's port is closed.
func nobodyListens(err error) bool { return isErrno(err, syscall.ECONNREFUSED, wsaReset) }

// packetTooLarge reports whether err says that a datagram is larger than the way or the system takes.
func packetTooLarge(err error) bool { return isErrno(err, syscall.EMSGSIZE, wsaTooLarge) }
