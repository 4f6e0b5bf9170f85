package transport

import (
	"net"
)

// Errors of reading. A datagram that was sent may have an answer by ICMP, and the system tells of it at the next call of the socket,
// whichever that is: on Linux if the socket is connected, on Windows always. It says nothing of what can be received, so reading goes
// on; each takes a datagram of ours that was answered, and the system forgets it once told, so this cannot go round in circles. The
// list is that of icmp_err_convert in Linux's net/ipv4/icmp.c and of icmpv6_err_convert, and what Windows has instead. Anything else
// (no memory, a descriptor that is no socket) would come again and is returned.

// ReadBatch waits for a datagram and then takes those that are there, at most len(ps) and never more than 1024, into ps, as
// [Packet] describes. It returns how many: at least one, unless there is an error or ps is empty. Elsewhere than on Linux it is always one.
// It allocates nothing once it has run with as many.
//
// Errors that concern datagrams sent before are counted and passed over, or returned as a *[PacketError] if PacketOptions.PeerErrors
// asks for that. All others are *net.OpError: net.ErrClosed after Close, os.ErrDeadlineExceeded, or what the system says when it
// cannot read at all, after which trying again is of little use.
func (c *PacketConn) ReadBatch(ps []Packet) (int, error) {
	if len(ps) == 0 {
		return 0, nil
	}
	for {
		n, err := c.readSome(ps)
		if err == nil {
			c.countRead(ps[:n])
			return n, nil
		}
		if err := c.passOver(err); err != nil {
			return 0, err
		}
	}
}

// readSome reads a batch, or one packet where there are no batches.
func (c *PacketConn) readSome(ps []Packet) (int, error) {
	if c.fast != nil && !c.slow.Load() {
		n, err := c.fast.read(c.rc, ps)
		if err == nil || !c.lacks(err) {
			return n, err
		}
	}
	if err := c.readOne(&ps[0]); err != nil {
		return 0, err
	}
	return 1, nil
}

// lacks reports whether the kernel does not know the system calls for batches, as very old ones and some that are no Linux do not. They
// are not tried again.
func (c *PacketConn) lacks(err error) bool {
	if !isAny(err, errNoCall) {
		return false
	}
	c.slow.Store(true)
	return true
}

// readOne reads one datagram. After an error the packet is as it was.
func (c *PacketConn) readOne(p *Packet) error {
	n, _, flags, addr, err := c.udp.ReadMsgUDPAddrPort(p.Data[:cap(p.Data)], nil)
	if err != nil && !isAny(err, errTruncated) {
		return err
	}
	p.Truncated = flags&msgTruncated != 0 || err != nil
	p.Addr = canonical(addr)
	if c.connected {
		p.Addr = c.remote // some systems do not say it again
	}
	p.Data = p.Data[:n]
	return nil
}

// passOver decides what an error of reading means: nil when reading goes on.
func (c *PacketConn) passOver(err error) error {
	if endsAll(err) || !isAny(err, passingErrors[:]...) {
		return c.dress("read", err)
	}
	c.passed.Add(1)
	if c.connected && c.peerErrors {
		return &PacketError{Op: "read", Addr: c.remote, Err: bare(err)}
	}
	return nil
}

func (c *PacketConn) countRead(ps []Packet) {
	var bytes, truncated uint64
	for i := range ps {
		bytes += uint64(len(ps[i].Data))
		if ps[i].Truncated {
			truncated++
		}
	}
	c.in.calls.Add(1)
	c.in.packets.Add(uint64(len(ps)))
	c.in.bytes.Add(bytes)
	if truncated > 0 {
		c.truncated.Add(truncated)
	}
}

// read reads one datagram for those who know no batches.
func (c *PacketConn) read(b []byte) (Packet, error) {
	ps := [1]Packet{{Data: b[:len(b):len(b)]}}
	for {
		err := c.readOne(&ps[0])
		if err == nil {
			c.countRead(ps[:])
			return ps[0], nil
		}
		if err := c.passOver(err); err != nil {
			return Packet{}, err
		}
	}
}

// ReadFrom reads one datagram, as net.PacketConn has it: what does not fit into b is lost, and counted. The address is a *net.UDPAddr.
// Errors are those of [PacketConn.ReadBatch].
func (c *PacketConn) ReadFrom(b []byte) (int, net.Addr, error) {
	p, err := c.read(b)
	if err != nil {
		return 0, nil, err
	}
	return len(p.Data), net.UDPAddrFromAddrPort(p.Addr), nil
}

// Read is ReadFrom without the address, as net.Conn has it. An empty datagram is no end: it returns 0 and no error.
func (c *PacketConn) Read(b []byte) (int, error) {
	p, err := c.read(b)
	return len(p.Data), err
}

var (
	_ net.PacketConn = (*PacketConn)(nil)
	_ net.Conn       = (*PacketConn)(nil)
)
