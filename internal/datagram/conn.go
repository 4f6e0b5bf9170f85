package datagram

import (
	"errors"
	"net"
	"net/netip"
	"runtime"
	"syscall"
	"time"

	"github.com/sluice-push/sluice/transport/udp"
)

// The most bytes in a datagram: 65,535 less the header of UDP (RFC 768), and for IPv4 less its header too, because the length in it counts the
// header (RFC 791).
const (
	Max4 = 65_507 // over IPv4
	Max6 = 65_527 // over IPv6
)

// Conn is a datagram socket. Any goroutine may use it at any time, but Read has one caller at a time. Close makes a waiting call return
// net.ErrClosed, and a deadline that passes makes it return os.ErrDeadlineExceeded. The zero time is no deadline.
type Conn interface {
	// Read waits for datagrams, until the read deadline. It fills ps, whose memory is the caller's. If the peer's address is not an IP address,
	// Read returns it as from, and one datagram only.
	Read(ps []udp.Packet) (n int, from net.Addr, err error)
	// SendsBatches reports whether the socket sends batches, and sends without waiting.
	SendsBatches() bool
	// Try sends datagrams without waiting. It works only if SendsBatches is true. If it sends fewer than all and returns no error, there is no room.
	// A *udp.Error concerns ps[n] alone.
	Try(ps []udp.Packet) (n int, err error)
	// Send sends one datagram, and waits for room until the write deadline. If to is not nil, the datagram goes to that address, which is not an
	// IP address. Otherwise it goes to p.Addr.
	Send(p *udp.Packet, to net.Addr) error

	SetReadDeadline(t time.Time) error
	SetWriteDeadline(t time.Time) error
	// Local returns the address of the socket.
	Local() net.Addr
	// Net returns the socket as a net.Conn if it may be a dialed one, or nil.
	Net() net.Conn
	Close()
}

var (
	_ Conn = (*batches)(nil)
	_ Conn = (*singles)(nil)
)

// NewConn returns a Conn for a socket. A *udp.Conn is read and written in batches, any other socket one datagram at a time.
func NewConn(pc net.PacketConn) Conn {
	if batched, ok := pc.(*udp.Conn); ok {
		return &batches{batched}
	}
	c := &singles{pc: pc}
	c.ip, _ = pc.(addrPortConn)
	return c
}

// batches is the Conn of a socket that reads and writes many datagrams in one call.
type batches struct{ pc *udp.Conn }

func (c *batches) Read(ps []udp.Packet) (int, net.Addr, error) {
	n, err := c.pc.ReadBatch(ps)
	return n, nil, err
}

func (c *batches) SendsBatches() bool { return true }

func (c *batches) Try(ps []udp.Packet) (int, error) { return c.pc.TryWriteBatch(ps) }

func (c *batches) Send(p *udp.Packet, _ net.Addr) error {
	ps := [1]udp.Packet{*p}
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

// singles is the Conn of any other socket. It reads and writes one datagram in each call.
type singles struct {
	pc net.PacketConn
	ip addrPortConn // pc, or nil
}

func (c *singles) Read(ps []udp.Packet) (int, net.Addr, error) {
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

func (c *singles) SendsBatches() bool { return false }

func (c *singles) Try([]udp.Packet) (int, error) { return 0, nil }

func (c *singles) Send(p *udp.Packet, to net.Addr) (err error) {
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
	wsaReset    = syscall.Errno(10054) // sent where other systems have ECONNREFUSED
)

// isErrno reports whether err contains an error number of the system: unix, or on Windows also windows.
func isErrno(err error, unix, windows syscall.Errno) bool {
	var errno syscall.Errno
	return errors.As(err, &errno) && (errno == unix || runtime.GOOS == "windows" && errno == windows)
}

// PortClosed reports whether err says that the peer's port is closed: ECONNREFUSED, and on Windows also WSAECONNRESET.
func PortClosed(err error) bool { return isErrno(err, syscall.ECONNREFUSED, wsaReset) }

// TooLarge reports whether err says that a datagram is larger than the path or the system allows.
func TooLarge(err error) bool { return isErrno(err, syscall.EMSGSIZE, wsaTooLarge) }
