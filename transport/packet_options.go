package transport

import (
	"errors"
	"fmt"
	"net"
	"syscall"
)

// PacketOptions are what a UDP socket is to be like. The zero value and nil are good. What the system does not have is refused with
// errors.ErrUnsupported; the sizes of buffers are a wish that it may cut, see [PacketConn.Buffers]. They are copied; what they point to
// is read while the socket is made.
type PacketOptions struct {
	// ReadBuffer and WriteBuffer are the bytes that the kernel may hold for each direction (SO_RCVBUF, SO_SNDBUF). Zero or negative is
	// the system's default, which on Linux is room for a few hundred small datagrams: a server of many peers wants megabytes for
	// reading.
	ReadBuffer, WriteBuffer int

	// ReusePort lets several sockets, of several processes, share the port (SO_REUSEPORT); Linux spreads peers over them.
	ReusePort bool
	// ReuseAddress lets several sockets have the same address and port (SO_REUSEADDR), so that each receives what is sent to
	// a multicast group. What is sent to one address comes to only one of them: it is for receivers of multicast.
	ReuseAddress bool

	// Broadcast lets the socket send to broadcast addresses (SO_BROADCAST). Without it that is an error, EACCES. Package net
	// allows it always.
	Broadcast bool
	// TTL is how many hops datagrams may go (the hop limit of IPv6), 1 to 255. Zero is the system's default.
	TTL int
	// TOS is the type of service (the traffic class of IPv6), 0 to 255: six bits of DSCP (RFC 2474), then two of ECN. Not on Windows.
	TOS int
	// DontFragment sends datagrams whole or not at all: one larger than the known MTU of the path is refused, EMSGSIZE. Linux only.
	DontFragment bool

	// MulticastInterface is where datagrams to multicast groups go out. Nil lets the system choose.
	MulticastInterface *net.Interface
	// MulticastTTL is how many hops datagrams to groups may go, at most 255. Zero is the system's default, which is 1: no
	// farther than the network. Negative is none: they stay on the machine.
	MulticastTTL int
	// NoMulticastLoop keeps datagrams to groups from receivers on this machine. On the loopback interface it does nothing; on Windows
	// it is the receiver's option.
	NoMulticastLoop bool

	// PeerErrors makes reading from a connected socket return what is heard of the peer by ICMP, such as ECONNREFUSED when nobody
	// listens, as a *PacketError, for clients that want to know at once. Otherwise that is only counted, as it always is on
	// sockets that are not connected.
	PeerErrors bool
}

// check refuses what nobody can mean.
func (o *PacketOptions) check() error {
	switch {
	case o == nil:
		return nil
	case o.TTL < 0 || o.TTL > 255:
		return fmt.Errorf("transport: a TTL of %d", o.TTL)
	case o.TOS < 0 || o.TOS > 255:
		return fmt.Errorf("transport: a TOS of %d", o.TOS)
	case o.MulticastTTL > 255:
		return fmt.Errorf("transport: a multicast TTL of %d", o.MulticastTTL)
	}
	return nil
}

// packetOption is an option of both families.
type packetOption struct {
	name   string // for errors
	v4, v6 int
	value  int
}

// list returns the options that are to be set for a family.
func (o *PacketOptions) list() (list []packetOption) {
	add := func(name string, v4, v6, value int) { list = append(list, packetOption{name, v4, v6, value}) }
	if o.TTL > 0 {
		add("TTL", ipTTL, ipv6UnicastHops, o.TTL)
	}
	if o.TOS > 0 {
		add("TOS", ipTOS, ipv6TClass, o.TOS)
	}
	if o.DontFragment {
		add("DontFragment", ipMTUDiscover, ipv6MTUDiscover, pmtuDiscDo)
	}
	if o.MulticastTTL != 0 {
		add("MulticastTTL", ipMulticastTTL, ipv6MulticastHops, max(o.MulticastTTL, 0))
	}
	if o.NoMulticastLoop {
		add("NoMulticastLoop", ipMulticastLoop, ipv6MulticastLoop, 0)
	}
	return list
}

// unsupported is the number of an option that the system does not have.
const unsupported = -1

// set prepares a socket that is not bound yet.
func (o *PacketOptions) set(fd int, v6 bool) error {
	if o == nil {
		o = new(PacketOptions)
	}
	if o.ReusePort {
		if err := setReusePort(fd); err != nil {
			return err
		}
	}
	if o.ReuseAddress {
		if err := setReuseAddress(fd); err != nil {
			return fmt.Errorf("option ReuseAddress: %w", err)
		}
	}
	// Package net has switched it on, on systems that have it.
	err := setPacketOption(fd, solSocket, soBroadcast, btoi(o.Broadcast))
	if err != nil && !errors.Is(err, errors.ErrUnsupported) {
		return fmt.Errorf("option Broadcast: %w", err)
	}
	for _, opt := range o.list() {
		if err := opt.set(fd, v6); err != nil {
			return fmt.Errorf("option %s: %w", opt.name, err)
		}
	}
	if ifi := o.MulticastInterface; ifi != nil {
		if err := setMulticastInterface(fd, v6, ifi); err != nil {
			return fmt.Errorf("option MulticastInterface: %w", err)
		}
	}
	onlyJoined(fd, v6)
	return nil
}

// set sets the option of the socket's family. A socket of IPv6 may have IPv4 as a part, whose options are its own; systems differ
// in whether they can be set there, and in whether the socket has that part, so that is tried and no more.
func (p packetOption) set(fd int, v6 bool) error {
	level, name := syscall.IPPROTO_IP, p.v4
	if v6 {
		if p.v4 != unsupported {
			_ = setPacketOption(fd, level, p.v4, p.value)
		}
		level, name = syscall.IPPROTO_IPV6, p.v6
	}
	if name == unsupported {
		return errors.ErrUnsupported
	}
	return setPacketOption(fd, level, name, p.value)
}

// setBuffers sets the sizes of the buffers.
func (o *PacketOptions) setBuffers(udp *net.UDPConn) error {
	if o == nil {
		return nil
	}
	if o.ReadBuffer > 0 {
		if err := udp.SetReadBuffer(o.ReadBuffer); err != nil {
			return err
		}
	}
	if o.WriteBuffer > 0 {
		return udp.SetWriteBuffer(o.WriteBuffer)
	}
	return nil
}

func btoi(b bool) int {
	if b {
		return 1
	}
	return 0
}
