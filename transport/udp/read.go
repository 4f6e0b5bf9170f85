package udp

import (
	"net"

	"github.com/sluice-push/sluice/internal/clientaddr"
	"github.com/sluice-push/sluice/internal/sockopt"
)

// Errors of reading. The answer by ICMP to a datagram that was sent is the error of the socket's next call, whichever that is: on Linux if the
// socket is connected, on Windows always. It says nothing about datagrams to receive, so reading goes on. Each error belongs to a sent datagram,
// and the system reports it once, so reading cannot loop for ever. The list of errors is that of icmp_err_convert in Linux's net/ipv4/icmp.c and
// of icmpv6_err_convert, and what Windows has instead. Any other error (no memory, a descriptor that is no socket) would recur, and is returned.

// ReadBatch waits for a datagram, and then reads all that have arrived, at most len(ps) and never more than 1024, into ps: see [Packet]. It
// returns their number, which is at least one unless there is an error or ps is empty. On systems other than Linux it is at most one. ReadBatch
// allocates nothing once it has run with as many packets.
//
// Errors of datagrams that were sent before are counted and ignored, or returned as a *[Error] if Options.PeerErrors is set. All
// others are *net.OpError: net.ErrClosed after Close, os.ErrDeadlineExceeded, or the system's error if it cannot read at all. After the last one
// a retry is of little use.
func (c *Conn) ReadBatch(ps []Packet) (int, error) {
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

// readSome reads a batch, or one datagram if the system has no batches.
func (c *Conn) readSome(ps []Packet) (int, error) {
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

// lacks reports whether err says that the kernel does not have the system calls for batches, like very old kernels and some that only emulate
// Linux. The calls are then not tried again.
func (c *Conn) lacks(err error) bool {
	if !sockopt.IsErrno(err, errNoCall) {
		return false
	}
	c.slow.Store(true)
	return true
}

// readOne reads one datagram. After an error the packet is unchanged.
func (c *Conn) readOne(p *Packet) error {
	n, _, flags, addr, err := c.udp.ReadMsgUDPAddrPort(p.Data[:cap(p.Data)], nil)
	if err != nil && !sockopt.IsErrno(err, errTruncated) {
		return err
	}
	p.Truncated = flags&msgTruncated != 0 || err != nil
	p.Addr = clientaddr.Canonical(addr)
	if c.connected {
		p.Addr = c.remote // some systems do not return it
	}
	p.Data = p.Data[:n]
	return nil
}

// passOver returns nil if reading goes on after err, and otherwise the error to return.
func (c *Conn) passOver(err error) error {
	if endsAll(err) || !sockopt.IsErrno(err, passingErrors[:]...) {
		return c.wrap("read", err)
	}
	c.passed.Add(1)
	if c.connected && c.peerErrors {
		return &Error{Op: "read", Addr: c.remote, Err: unwrapOp(err)}
	}
	return nil
}

func (c *Conn) countRead(ps []Packet) {
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

// read reads one datagram, for the methods of net.PacketConn and net.Conn.
func (c *Conn) read(b []byte) (Packet, error) {
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

// ReadFrom reads one datagram: see net.PacketConn. If the datagram does not fit into b, the rest is lost, and the datagram is counted as
// truncated. The address is a *net.UDPAddr. Errors are those of [Conn.ReadBatch].
func (c *Conn) ReadFrom(b []byte) (int, net.Addr, error) {
	p, err := c.read(b)
	if err != nil {
		return 0, nil, err
	}
	return len(p.Data), net.UDPAddrFromAddrPort(p.Addr), nil
}

// Read is ReadFrom without the address: see net.Conn. After an empty datagram it returns 0 and no error, because that is not the end.
func (c *Conn) Read(b []byte) (int, error) {
	p, err := c.read(b)
	return len(p.Data), err
}

var (
	_ net.PacketConn = (*Conn)(nil)
	_ net.Conn       = (*Conn)(nil)
)
