package transport

import (
	"context"
	"errors"
	"net"
	"net/netip"
	"os"
	"sync"
	"sync/atomic"
	"syscall"
	"time"
)

// Packet is one datagram of a batch.
type Packet struct {
	// Addr is the peer: who sent it, or where it is to go. On a connected socket it is not looked at for writing. What is read is in
	// one form: IPv4 is never mapped into IPv6, link-local addresses have the name of their interface as zone.
	Addr netip.AddrPort
	// Data are the bytes. Reading fills all the memory that is there, up to the capacity, and sets the length; so a slice of packets
	// can be read into again and again. Packets that are parts of one large slice need a bound, as in all[i:j:j]. Both for reading and for
	// writing the memory is the caller's, borrowed until the call returns.
	Data []byte
	// Truncated says of a datagram that was read that it was longer than there was room; the rest is lost.
	Truncated bool
}

// PacketError is an error that concerns a single datagram, not the socket, which is as good as before.
type PacketError struct {
	// Op is "read" or "write".
	Op string
	// Addr is where the datagram was to go; on a connected socket the peer.
	Addr netip.AddrPort
	// Err is the cause, a syscall.Errno below a wrapper for all that the system says.
	Err error
}

// Error says what failed, with whom and why.
func (e *PacketError) Error() string {
	s := "transport: " + e.Op + " packet"
	if e.Addr.IsValid() {
		s += " " + e.Addr.String()
	}
	return s + ": " + e.Err.Error()
}

// Unwrap returns the cause.
func (e *PacketError) Unwrap() error { return e.Err }

// PacketConn is a UDP socket that reads and writes many datagrams in a call: on Linux in one system call for each batch (recvmmsg(2)
// and sendmmsg(2)), elsewhere one by one. Make one with [ListenPacket] or [DialPacket]. It is a net.PacketConn and a net.Conn as well,
// for software that wants these. All methods may be called by any goroutine at any time; those that read take turns, and so do those
// that wait to write. After Close they return net.ErrClosed.
//
// It has no goroutine and no queue: what waits is in the kernel's buffers, of the sizes that the options ask for, and what does not fit
// is dropped by the kernel, which [PacketConn.Stats] tells.
type PacketConn struct {
	// Set when it is made.
	udp        *net.UDPConn
	rc         syscall.RawConn // of udp
	network    string
	remote     netip.AddrPort // of a connected socket
	connected  bool
	v6         bool // the socket is of IPv6, of which IPv4 may be a part
	peerErrors bool
	fast       *mmsg       // batches in one system call; nil where there are none
	slow       atomic.Bool // fast is not to be used, the kernel does not know it

	once sync.Once // closes

	in, out         packetCounts
	truncated       atomic.Uint64
	passed, refused atomic.Uint64
	full            atomic.Uint64
	drops           dropCount
}

// packetCounts are what passed in one direction.
type packetCounts struct{ packets, bytes, calls atomic.Uint64 }

// ListenPacket makes a socket that receives from, and sends to, anybody. Networks are "udp", "udp4" and "udp6", addresses those of
// net.ListenPacket; with the address of a multicast group it is bound to all addresses and has not joined the group, for which
// there is [PacketConn.JoinGroup]. The context is for resolving the address.
func ListenPacket(ctx context.Context, network, address string, o *PacketOptions) (*PacketConn, error) {
	c, err := newPacketConn("listen", network, o)
	if err != nil {
		return nil, err
	}
	lc := net.ListenConfig{Control: c.control(o)}
	conn, err := lc.ListenPacket(ctx, network, address)
	if err != nil {
		return nil, err
	}
	return c.start(conn.(*net.UDPConn), o)
}

// DialPacket makes a socket that sends to one peer and receives from no other. Nothing is sent. Networks are those of
// [ListenPacket]. The context is for resolving the address.
func DialPacket(ctx context.Context, network, address string, o *PacketOptions) (*PacketConn, error) {
	c, err := newPacketConn("dial", network, o)
	if err != nil {
		return nil, err
	}
	d := net.Dialer{Control: c.control(o)}
	conn, err := d.DialContext(ctx, network, address)
	if err != nil {
		return nil, err
	}
	c.connected = true
	return c.start(conn.(*net.UDPConn), o)
}

// newPacketConn checks what can be checked before there is a socket.
func newPacketConn(op, network string, o *PacketOptions) (*PacketConn, error) {
	var err error
	switch network {
	case "udp", "udp4", "udp6":
		err = o.check()
	default:
		err = net.UnknownNetworkError(network)
	}
	if err != nil {
		return nil, &net.OpError{Op: op, Net: network, Err: err}
	}
	return &PacketConn{network: network, peerErrors: o != nil && o.PeerErrors}, nil
}

// control returns what package net calls with the socket before it is bound. When there are several addresses to dial, it is
// called for one after the other, and the last is the one that lives.
func (c *PacketConn) control(o *PacketOptions) func(network, address string, rc syscall.RawConn) error {
	return func(network, _ string, rc syscall.RawConn) error {
		c.v6 = network == "udp6"
		return control(rc, func(fd int) error { return o.set(fd, c.v6) })
	}
}

// start takes over the socket.
func (c *PacketConn) start(udp *net.UDPConn, o *PacketOptions) (*PacketConn, error) {
	c.udp = udp
	if remote, ok := udp.RemoteAddr().(*net.UDPAddr); ok && c.connected {
		c.remote = canonical(remote.AddrPort())
	}
	var err error
	if c.rc, err = udp.SyscallConn(); err == nil {
		err = o.setBuffers(udp)
	}
	if err != nil {
		_ = udp.Close()
		return nil, err
	}
	c.fast = newMMsg(c.connected, c.v6)
	return c, nil
}

// JoinGroup makes the socket receive what is sent to a multicast group, on its port, through an interface; nil lets the system choose
// one, unless the group's address has a zone. With a valid source only what that host sends is received (source-specific
// multicast, RFC 4607; Linux only, errors.ErrUnsupported elsewhere), and several may be joined. On Linux the socket receives from no
// group that it has not joined, whatever other sockets do.
func (c *PacketConn) JoinGroup(group netip.Addr, ifi *net.Interface, source netip.Addr) error {
	return c.changeGroup("join group", group, ifi, source)
}

// LeaveGroup undoes [PacketConn.JoinGroup], with the same arguments. Datagrams that have been received already stay. Close leaves all
// groups.
func (c *PacketConn) LeaveGroup(group netip.Addr, ifi *net.Interface, source netip.Addr) error {
	return c.changeGroup("leave group", group, ifi, source)
}

// changeGroup joins or leaves.
func (c *PacketConn) changeGroup(op string, group netip.Addr, ifi *net.Interface, source netip.Addr) error {
	g := membership{join: op == "join group", group: group.Unmap().WithZone(""), ifi: ifi, source: source.Unmap().WithZone("")}
	err := g.check()
	if zone := group.Zone(); err == nil && ifi == nil && zone != "" {
		g.ifi, err = net.InterfaceByName(zone)
	}
	if err == nil {
		err = control(c.rc, g.set)
	}
	return c.dress(op, err)
}

// membership is a group to be joined or left.
type membership struct {
	join          bool
	group, source netip.Addr
	ifi           *net.Interface
}

func (g membership) check() error {
	switch {
	case !g.group.IsMulticast():
		return &net.AddrError{Err: "not a multicast group", Addr: g.group.String()}
	case g.source.IsValid() && (g.source.Is4() != g.group.Is4() || g.source.IsMulticast() || g.source.IsUnspecified()):
		return &net.AddrError{Err: "not a source for " + g.group.String(), Addr: g.source.String()}
	}
	return nil
}

// index returns the number of the interface, zero for none.
func (g membership) index() int {
	if g.ifi == nil {
		return 0
	}
	return g.ifi.Index
}

// Buffers returns the sizes in bytes of the kernel's buffers for reading and writing, as the kernel counts them: Linux doubles what
// was asked for, within the bounds of net.core.rmem_max and wmem_max, and charges its own overhead for each datagram to them.
func (c *PacketConn) Buffers() (read, write int, err error) {
	err = control(c.rc, func(fd int) (err error) {
		if read, err = getPacketOption(fd, solSocket, soRcvBuf); err == nil {
			write, err = getPacketOption(fd, solSocket, soSndBuf)
		}
		return err
	})
	return read, write, c.dress("buffers", err)
}

// dress makes errors of the socket look as package net's do.
func (c *PacketConn) dress(op string, err error) error {
	if err == nil {
		return nil
	}
	return &net.OpError{Op: op, Net: c.network, Source: c.LocalAddr(), Addr: c.RemoteAddr(), Err: bare(err)}
}

// bare takes the dress of package net off.
func bare(err error) error {
	var op *net.OpError
	if errors.As(err, &op) {
		return op.Err
	}
	return err
}

// LocalAddr returns the address that the socket is bound to, a *net.UDPAddr. It works after Close as well.
func (c *PacketConn) LocalAddr() net.Addr { return c.udp.LocalAddr() }

// RemoteAddr returns the peer of a connected socket, a *net.UDPAddr, and nil for others. It works after Close as well.
func (c *PacketConn) RemoteAddr() net.Addr { return c.udp.RemoteAddr() }

// SetDeadline sets both deadlines. A deadline in the past wakes who waits, with an error that is os.ErrDeadlineExceeded; the zero
// time is none.
func (c *PacketConn) SetDeadline(t time.Time) error { return c.udp.SetDeadline(t) }

// SetReadDeadline sets the end of waiting for datagrams.
func (c *PacketConn) SetReadDeadline(t time.Time) error { return c.udp.SetReadDeadline(t) }

// SetWriteDeadline sets the end of waiting for room. [PacketConn.TryWriteBatch] knows no deadline.
func (c *PacketConn) SetWriteDeadline(t time.Time) error { return c.udp.SetWriteDeadline(t) }

// SyscallConn gives access to the socket, for options that are not here. The descriptor is the connection's; what is read and
// written past it is not counted.
func (c *PacketConn) SyscallConn() (syscall.RawConn, error) { return c.udp.SyscallConn() }

// Close closes the socket. Whoever reads or writes returns. Datagrams not read yet are lost; those written are sent. The
// second time it does nothing and returns nil.
func (c *PacketConn) Close() (err error) {
	c.once.Do(func() {
		c.drops.update(c.rc) // the last chance
		err = c.udp.Close()
	})
	return err
}

// PacketStats are the counts of a socket since it was made.
type PacketStats struct {
	// ReadPackets and ReadBytes are what was read, without the bytes that were cut off.
	ReadPackets, ReadBytes uint64
	// ReadCalls is how many calls of this package brought them; ReadPackets by it is the size of a batch.
	ReadCalls uint64
	// Truncated is how many of those were longer than there was room.
	Truncated uint64
	// Passed is the number of errors on reading that did not end it: what ICMP and its like said of datagrams sent before.
	Passed uint64
	// Dropped is the number of datagrams that the kernel threw away instead of giving them to this socket: mostly because the buffer
	// was full, also for a wrong checksum. Linux 4.12 or newer; elsewhere zero.
	Dropped uint64

	// WrittenPackets and WrittenBytes are what the kernel took.
	WrittenPackets, WrittenBytes uint64
	// WriteCalls is how many calls of this package it took, or how many batches of at most 1024 datagrams.
	WriteCalls uint64
	// Refused is the number of datagrams that were not sent, each for an error of its own: a *PacketError.
	Refused uint64
	// Full is how often TryWriteBatch found no room in the kernel's buffer.
	Full uint64
}

// Stats returns the counts so far, after Close as well. On Linux it makes a system call, which asks for Dropped.
func (c *PacketConn) Stats() PacketStats {
	c.drops.update(c.rc)
	return PacketStats{
		ReadPackets:    c.in.packets.Load(),
		ReadBytes:      c.in.bytes.Load(),
		ReadCalls:      c.in.calls.Load(),
		Truncated:      c.truncated.Load(),
		Passed:         c.passed.Load(),
		Dropped:        c.drops.count(),
		WrittenPackets: c.out.packets.Load(),
		WrittenBytes:   c.out.bytes.Load(),
		WriteCalls:     c.out.calls.Load(),
		Refused:        c.refused.Load(),
		Full:           c.full.Load(),
	}
}

// dropCount follows the kernel's count of dropped datagrams, which has 32 bits and starts again at zero after the last.
type dropCount struct {
	mu    sync.Mutex
	last  uint32
	total uint64
}

// update asks the kernel. After Close it has nothing to ask. The lock is not held meanwhile, so what comes late may be old: less
// than half of the range back, and then it is passed over.
func (d *dropCount) update(rc syscall.RawConn) {
	if err := control(rc, func(fd int) error {
		if now, ok := kernelDrops(fd); ok {
			d.add(now)
		}
		return nil
	}); err != nil {
		return
	}
}

// add takes a count of the kernel's over.
func (d *dropCount) add(now uint32) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if more := now - d.last; more < 1<<31 {
		d.last = now
		d.total += uint64(more)
	}
}

func (d *dropCount) count() uint64 {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.total
}

// endsAll reports whether an error is of the socket rather than of a datagram: it was closed, or the time is over.
func endsAll(err error) bool {
	return errors.Is(err, net.ErrClosed) || errors.Is(err, os.ErrDeadlineExceeded)
}
