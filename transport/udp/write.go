package udp

import (
	"net"
	"net/netip"
	"os"
	"syscall"

	"github.com/sluice-push/sluice/internal/clientaddr"
	"github.com/sluice-push/sluice/internal/sockopt"
)

// WriteBatch sends the datagrams in order. If the kernel's buffer is full, it waits until the write deadline. It returns the number of sent
// datagrams: all of them, or an error. A *[Error] concerns ps[n] alone, which was not sent. The caller goes on with ps[n+1:], or tries
// ps[n] again:
//
//	for len(ps) > 0 {
//		n, err := conn.WriteBatch(ps)
//		ps = ps[n:]
//		var bad *udp.Error
//		if errors.As(err, &bad) {
//			ps = ps[1:] // count it, or look at bad.Err
//		} else if err != nil {
//			return err // closed, or the deadline
//		}
//	}
//
// Causes are EMSGSIZE (too large), EHOSTUNREACH and ENETUNREACH, EPERM (a firewall), EACCES (see Options.Broadcast), EINVAL (port 0),
// ENOBUFS (the device's queue is full, which some systems report), EDESTADDRREQ (no address), and an address of a family that the socket does
// not have. On a connected socket ECONNREFUSED and the like are the answer to an earlier datagram: ps[n] was not sent either, and trying again
// sends it. If such an answer arrives between two datagrams of a batch, Linux does not report it.
//
// A sent datagram need not have left the machine, nor arrive. WriteBatch allocates nothing once it has run with as many packets.
func (c *Conn) WriteBatch(ps []Packet) (int, error) { return c.write(ps, true) }

// TryWriteBatch is [Conn.WriteBatch] without waiting, for room or for another writer, and without a deadline. It returns at once the
// number of datagrams that the kernel took. If that is fewer than len(ps) without an error, the kernel's buffer is full. The caller decides
// about the rest; a datagram that has to wait is often better dropped. On Windows, where sending hardly ever waits, TryWriteBatch waits like
// WriteBatch.
func (c *Conn) TryWriteBatch(ps []Packet) (int, error) { return c.write(ps, false) }

func (c *Conn) write(ps []Packet, wait bool) (n int, err error) {
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

// writeSome sends at least one datagram, or returns an error, which concerns the first one or the socket. If wait is not set, it may also send
// none.
func (c *Conn) writeSome(ps []Packet, wait bool) (int, error) {
	if c.fast != nil && !c.slow.Load() {
		n, err := c.fast.write(c.rc, ps, wait)
		if err == nil || !c.lacks(err) {
			return n, err
		}
	}
	p := &ps[0]
	to := clientaddr.Canonical(p.Addr)
	if !c.connected && !to.IsValid() {
		return 0, sockopt.WithDescriptor(c.rc, func(int) error { return syscall.EDESTADDRREQ }) // it returns net.ErrClosed instead after Close
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
func (c *Conn) trySend(data []byte, to netip.AddrPort) (n int, err error) {
	err = sockopt.WithDescriptor(c.rc, func(fd int) error {
		switch err := trySend(fd, data, c.sockaddr(to)); {
		case err == nil:
			n = 1
			return nil
		case sockopt.IsErrno(err, syscall.EAGAIN):
			return nil
		default:
			return os.NewSyscallError("sendto", err)
		}
	})
	return n, err
}

// sockaddr returns an address in the form of package syscall, for a socket of this family; nil for a connected socket.
func (c *Conn) sockaddr(to netip.AddrPort) syscall.Sockaddr {
	switch addr := to.Addr(); {
	case c.connected:
		return nil
	case !c.v6 && addr.Is4():
		return &syscall.SockaddrInet4{Port: int(to.Port()), Addr: addr.As4()}
	default:
		return &syscall.SockaddrInet6{Port: int(to.Port()), Addr: addr.As16(), ZoneId: sockopt.InterfaceIndex(addr.Zone())}
	}
}

// writeError returns the error for the caller, which concerns one datagram or the socket. Every error of the system about sending is taken to
// concern the datagram alone: if it also concerns the next one, sending that one fails too.
func (c *Conn) writeError(to netip.AddrPort, err error) error {
	if endsAll(err) {
		return c.wrap("write", err)
	}
	c.refused.Add(1)
	if c.connected {
		to = c.remote
	}
	return &Error{Op: "write", Addr: to, Err: unwrapOp(err)}
}

func (c *Conn) countWritten(ps []Packet) {
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

// WriteTo sends one datagram, and waits for room until the write deadline: see net.PacketConn. The address must be a *net.UDPAddr. Errors are
// package net's own, *net.OpError, and concern this datagram. On a connected socket the error is net.ErrWriteToConnected.
func (c *Conn) WriteTo(b []byte, addr net.Addr) (int, error) {
	n, err := c.udp.WriteTo(b, addr)
	return n, c.countOne(b, err)
}

// Write sends one datagram to the peer of a connected socket: see net.Conn. Otherwise it is like WriteTo.
func (c *Conn) Write(b []byte) (int, error) {
	n, err := c.udp.Write(b)
	return n, c.countOne(b, err)
}

// countOne counts a datagram that was sent or refused without a batch.
func (c *Conn) countOne(b []byte, err error) error {
	switch {
	case err == nil:
		ps := [1]Packet{{Data: b}}
		c.countWritten(ps[:])
	case !endsAll(err):
		c.refused.Add(1)
	}
	return err
}
