package datagram

import (
	"errors"
	"net"
	"net/netip"
	"runtime"
	"syscall"
	"time"

	"github.com/sluice-push/sluice/transport"
)

// The most bytes in a datagram: 65,535 less the header of UDP (RFC 768), and less that of IPv4, whose length counts itself (RFC 791).
const (
	Max4 = 65_507 // over IPv4
	Max6 = 65_527 // over IPv6
)

// Conn is a socket for datagrams. Any goroutine may use it at any time, but Read has one caller at a time. Who waits in it is told a
// net.ErrClosed by Close, and an os.ErrDeadlineExceeded by a deadline that passes. A deadline of the zero time is none.
type Conn interface {
	// Read waits for datagrams, until the deadline. It fills ps, whose memory is the caller's, and from when the peer's address is not of IP.
	// Then there is one datagram only.
	Read(ps []transport.Packet) (n int, from net.Addr, err error)
	// Gathers reports whether the socket sends batches, and tries without waiting.
	Gathers() bool
	// Try sends datagrams without waiting, for a socket that gathers. Fewer than all without an error mean that there is no room. A
	// *transport.PacketError concerns ps[n] alone.
	Try(ps []transport.Packet) (n int, err error)
	// Send sends one datagram, to an address that is not of IP unless that is nil, and waits, until the write deadline.
	Send(p *transport.Packet, to net.Addr) error

	SetReadDeadline(t time.Time) error
	SetWriteDeadline(t time.Time) error
	// Local returns the address of the socket.
	Local() net.Addr
	// Net returns the socket, if it may be one that was dialed, or nil.
	Net() net.Conn
	Close()
}

var (
	_ Conn = (*batches)(nil)
	_ Conn = (*singles)(nil)
)

// NewConn chooses how a socket is read and written: a *transport.PacketConn in batches, any other one datagram at a time.
func NewConn(pc net.PacketConn) Conn {
	if batched, ok := pc.(*transport.PacketConn); ok {
		return &batches{batched}
	}
	c := &singles{pc: pc}
	c.ip, _ = pc.(addrPortConn)
	return c
}

// batches is a socket that reads and writes many datagrams in a call.
type batches struct{ pc *transport.PacketConn }

func (c *batches) Read(ps []transport.Packet) (int, net.Addr, error) {
	n, err := c.pc.ReadBatch(ps)
	return n, nil, err
}

func (c *batches) Gathers() bool { return true }

func (c *batches) Try(ps []transport.Packet) (int, error) { return c.pc.TryWriteBatch(ps) }

func (c *batches) Send(p *transport.Packet, _ net.Addr) error {
	ps := [1]transport.Packet{*p}
	_, err := c.pc.WriteBatch(ps[:])
	return err
}

func (c *batches) SetReadDeadline(t time.Time) error  { return c.pc.SetReadDeadline(t) }
func (c *batches) SetWriteDeadline(t time.Time) error { return c.pc.SetWriteDeadline(t) }
func (c *batches) Local() net.Addr                    { return c.pc.LocalAddr() }
func (c *batches) Net() net.Conn                      { return c.pc }
func (c *batches) Close()                             { _ = c.pc.Close() }

// addrPortConn are the methods of *net.UDPConn that allocate nothing.
type addrPortConn interface {
	ReadFromUDPAddrPort(b []byte) (int, netip.AddrPort, error)
	WriteToUDPAddrPort(b []byte, addr netip.AddrPort) (int, error)
}

// singles is any other socket.
type singles struct {
	pc net.PacketConn
	ip addrPortConn // pc, or nil
}

func (c *singles) Read(ps []transport.Packet) (int, net.Addr, error) {
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

func (c *singles) Gathers() bool { return false }

func (c *singles) Try([]transport.Packet) (int, error) { return 0, nil }

func (c *singles) Send(p *transport.Packet, to net.Addr) (err error) {
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

func (c *singles) SetReadDeadline(t time.Time) error  { return c.pc.SetReadDeadline(t) }
func (c *singles) SetWriteDeadline(t time.Time) error { return c.pc.SetWriteDeadline(t) }
func (c *singles) Local() net.Addr                    { return c.pc.LocalAddr() }
func (c *singles) Net() net.Conn                      { return nil }
func (c *singles) Close()                             { _ = c.pc.Close() }

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

// NobodyListens reports whether err says that the peer's port is closed.
func NobodyListens(err error) bool { return isErrno(err, syscall.ECONNREFUSED, wsaReset) }

// TooLarge reports whether err says that a datagram is larger than the way or the system takes.
func TooLarge(err error) bool { return isErrno(err, syscall.EMSGSIZE, wsaTooLarge) }
