package udp

import (
	"errors"
	"fmt"
	"net"
	"syscall"

	"github.com/sluice-push/sluice/internal/sockopt"
)

// Options are the options of a UDP socket. The zero value and nil are usable. If the system does not have an option, the error is
// errors.ErrUnsupported. The system may reduce the sizes of buffers: see [Conn.Buffers]. The options are copied, and the values that they
// point to are read only while the socket is made.
type Options struct {
	// ReadBuffer and WriteBuffer are the sizes in bytes of the kernel's buffers for each direction (SO_RCVBUF, SO_SNDBUF). Zero or negative
	// means the default of the system. On Linux that is room for a few hundred small datagrams: a server of many peers needs megabytes for
	// reading.
	ReadBuffer, WriteBuffer int

	// ReusePort lets several sockets, also of several processes, share the port (SO_REUSEPORT). Linux spreads peers over them.
	ReusePort bool
	// ReuseAddress lets several sockets have the same address and port (SO_REUSEADDR), so that each receives the datagrams to a multicast group.
	// Only one of them receives a datagram to a unicast address, so the option is for receivers of multicast.
	ReuseAddress bool

	// Broadcast lets the socket send to broadcast addresses (SO_BROADCAST). Without it, sending there fails with EACCES. Package net always sets
	// it.
	Broadcast bool
	// TTL is the number of hops that datagrams may take (the hop limit of IPv6), 1 to 255. Zero means the default of the system.
	TTL int
	// TOS is the type of service (the traffic class of IPv6), 0 to 255: six bits of DSCP (RFC 2474), then two of ECN. Not on Windows.
	TOS int
	// DontFragment disables fragmentation: a datagram larger than the known MTU of the path is refused with EMSGSIZE. Linux only.
	DontFragment bool

	// MulticastInterface is the interface that datagrams to multicast groups are sent through. Nil lets the system choose.
	MulticastInterface *net.Interface
	// MulticastTTL is the number of hops that datagrams to groups may take, at most 255. Zero means the default of the system, which is 1: the
	// local network. Negative means none: datagrams stay on the machine.
	MulticastTTL int
	// NoMulticastLoop keeps datagrams to groups from receivers on this machine. On the loopback interface it has no effect. On Windows it is an
	// option of the receiver.
	NoMulticastLoop bool

	// PeerErrors makes reading from a connected socket return the errors that the peer's host reports by ICMP, such as ECONNREFUSED if the port
	// is closed, as a *Error. It is for clients that need to know at once. Otherwise these errors are only counted, as always on sockets
	// that are not connected.
	PeerErrors bool
}

// check refuses options that make no sense.
func (o *Options) check() error {
	switch {
	case o == nil:
		return nil
	case o.TTL < 0 || o.TTL > 255:
		return fmt.Errorf("udp: a TTL of %d", o.TTL)
	case o.TOS < 0 || o.TOS > 255:
		return fmt.Errorf("udp: a TOS of %d", o.TOS)
	case o.MulticastTTL > 255:
		return fmt.Errorf("udp: a multicast TTL of %d", o.MulticastTTL)
	}
	return nil
}

// option is an option that both address families have.
type option struct {
	name   string // for errors
	v4, v6 int
	value  int
}

// list returns the options to set, each for both families.
func (o *Options) list() (list []option) {
	add := func(name string, v4, v6, value int) { list = append(list, option{name, v4, v6, value}) }
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

// unsupported stands for the number of an option that the system does not have.
const unsupported = -1

// set prepares a socket before it is bound.
func (o *Options) set(fd int, v6 bool) error {
	if o == nil {
		o = new(Options)
	}
	if o.ReusePort {
		if err := sockopt.SetReusePort(fd); err != nil {
			return err
		}
	}
	if o.ReuseAddress {
		if err := setReuseAddress(fd); err != nil {
			return fmt.Errorf("option ReuseAddress: %w", err)
		}
	}
	// Package net has enabled it, on systems that have it.
	err := setOption(fd, solSocket, soBroadcast, btoi(o.Broadcast))
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

// set sets the option of the socket's family. A socket of IPv6 may also serve IPv4, which has options of its own. Systems differ in whether the
// socket does, and in whether these options can be set there, so a failure is ignored.
func (p option) set(fd int, v6 bool) error {
	level, name := syscall.IPPROTO_IP, p.v4
	if v6 {
		if p.v4 != unsupported {
			_ = setOption(fd, level, p.v4, p.value)
		}
		level, name = syscall.IPPROTO_IPV6, p.v6
	}
	if name == unsupported {
		return errors.ErrUnsupported
	}
	return setOption(fd, level, name, p.value)
}

// setBuffers sets the sizes of the kernel's buffers.
func (o *Options) setBuffers(udp *net.UDPConn) error {
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
