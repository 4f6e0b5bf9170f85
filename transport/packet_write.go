package transport

import (
	"net"
	"net/netip"
	"os"
	"syscall"

	"github.com/sluice-push/sluice/internal/zones"
)

// WriteBatch sends the datagrams in order and waits, until the write deadline, while the kernel's buffer is full. It returns how many
// were sent: all of them, or an error. A *[PacketError] concerns ps[n] alone, which was not sent, and the caller goes on with
// ps[n+1:], or tries ps[n] again:
//
//	for len(ps) > 0 {
//		n, err := conn.WriteBatch(ps)
//		ps = ps[n:]
//		var bad *transport.PacketError
//		if errors.As(err, &bad) {
//			ps = ps[1:] // count it, or look at bad.Err
//		} else if err != nil {
//			return err // closed, or the deadline
//		}
//	}
//
// Causes are EMSGSIZE (too large), EHOSTUNREACH and ENETUNREACH, EPERM (a firewall), EACCES (see PacketOptions.Broadcast), EINVAL
// (port 0), ENOBUFS (no room in the device's queue, which some systems tell), EDESTADDRREQ (no address), an address of a family that the
// socket does not have. On a connected socket ECONNREFUSED and its like are the answer to a datagram sent before: ps[n] was not
// sent either, and trying again sends it. When such an answer comes between two datagrams of a batch, Linux tells nobody.
//
// That a datagram was sent does not say that it arrives, nor that it left. It allocates nothing once it has run with as many.
func (c *PacketConn) WriteBatch(ps []Packet) (int, error) { return c.write(ps, true) }

// TryWriteBatch is [PacketConn.WriteBatch] without waiting, for no deadline and for no other writer: it returns at once how many were
// taken, with no error when that is fewer than len(ps) because the kernel's buffer is full. What to do with the rest is the caller's
// choice; a datagram that has to wait is often better dropped. On Windows, where the system hardly ever makes one wait, it waits as
// WriteBatch does.
func (c *PacketConn) TryWriteBatch(ps []Packet) (int, error) { return c.write(ps, false) }

func (c *PacketConn) write(ps []Packet, wait bool) (n int, err error) {
	for n < len(ps) {
		m, err := c.writeSome(ps[n:], wait)
		c.countWritten(ps[n : n+m])
		n += m
		if err != nil {
			return n, c.writeError(ps[n].Addr, err)
		}
		if m == 0 {
			c.full.Add(1)
			return n, nil
		}
	}
	return n, nil
}

// writeSome sends at least one datagram, or returns an error, which is of the first one or of the socket. Without wait it may also send
// none.
func (c *PacketConn) writeSome(ps []Packet, wait bool) (int, error) {
	if c.fast != nil && !c.slow.Load() {
		n, err := c.fast.write(c.rc, ps, wait)
		if err == nil || !c.lacks(err) {
			return n, err
		}
	}
	p := &ps[0]
	to := canonical(p.Addr)
	if !c.connected && !to.IsValid() {
		return 0, control(c.rc, func(int) error { return syscall.EDESTADDRREQ }) // unless it is closed
	}
	if !wait && canTrySend {
		return c.trySend(p.Data, to)
	}
	var err error
	if c.connected {
		_, err = c.udp.Write(p.Data)
	} else {
		_, err = c.udp.WriteToUDPAddrPort(p.Data, to)
	}
	if err != nil {
		return 0, err
	}
	return 1, nil
}

// trySend sends one datagram if there is room.
func (c *PacketConn) trySend(data []byte, to netip.AddrPort) (n int, err error) {
	err = control(c.rc, func(fd int) error {
		switch err := trySend(fd, data, c.sockaddr(to)); {
		case err == nil:
			n = 1
			return nil
		case isAny(err, syscall.EAGAIN):
			return nil
		default:
			return os.NewSyscallError("sendto", err)
		}
	})
	return n, err
}

// sockaddr returns an address as package syscall has it, for a socket of this family; nil for a connected one.
func (c *PacketConn) sockaddr(to netip.AddrPort) syscall.Sockaddr {
	switch addr := to.Addr(); {
	case c.connected:
		return nil
	case !c.v6 && addr.Is4():
		return &syscall.SockaddrInet4{Port: int(to.Port()), Addr: addr.As4()}
	default:
		return &syscall.SockaddrInet6{Port: int(to.Port()), Addr: addr.As16(), ZoneId: zones.Index(addr.Zone())}
	}
}

// writeError says whom an error of writing concerns. Everything that the system says of sending is of that one datagram: if it is true
// of the next one as well, that one will be told.
func (c *PacketConn) writeError(to netip.AddrPort, err error) error {
	if endsAll(err) {
		return c.dress("write", err)
	}
	c.refused.Add(1)
	if c.connected {
		to = c.remote
	}
	return &PacketError{Op: "write", Addr: to, Err: bare(err)}
}

func (c *PacketConn) countWritten(ps []Packet) {
	if len(ps) == 0 {
		return
	}
	var bytes uint64
	for i := range ps {
		bytes += uint64(len(ps[i].Data))
	}
	c.out.calls.Add(1)
	c.out.packets.Add(uint64(len(ps)))
	c.out.bytes.Add(bytes)
}

// WriteTo sends one datagram, as net.PacketConn has it, and waits for room until the write deadline. The address must be a
// *net.UDPAddr. Errors are package net's own, *net.OpError, and concern this datagram; on a connected socket net.ErrWriteToConnected.
func (c *PacketConn) WriteTo(b []byte, addr net.Addr) (int, error) {
	n, err := c.udp.WriteTo(b, addr)
	return n, c.countOne(b, err)
}

// Write sends one datagram to the peer of a connected socket, as net.Conn has it. Otherwise it is as WriteTo.
func (c *PacketConn) Write(b []byte) (int, error) {
	n, err := c.udp.Write(b)
	return n, c.countOne(b, err)
}

// countOne counts what was sent without batches, or was not.
func (c *PacketConn) countOne(b []byte, err error) error {
	switch {
	case err == nil:
		ps := [1]Packet{{Data: b}}
		c.countWritten(ps[:])
	case !endsAll(err):
		c.refused.Add(1)
	}
	return err
}
