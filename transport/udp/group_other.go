//go:build darwin || dragonfly || freebsd || netbsd || openbsd || windows

package udp

import (
	"errors"
	"fmt"
	"net"
	"os"
	"syscall"
)

// setMulticastInterface sets the interface that datagrams to groups are sent through.
func setMulticastInterface(fd int, v6 bool, ifi *net.Interface) error {
	if v6 {
		return setOption(fd, syscall.IPPROTO_IPV6, syscall.IPV6_MULTICAST_IF, ifi.Index)
	}
	addr, err := firstIPv4(ifi)
	if err != nil {
		return err
	}
	return os.NewSyscallError("setsockopt", syscall.SetsockoptInet4Addr(handle(fd), syscall.IPPROTO_IP, syscall.IP_MULTICAST_IF, addr))
}

// set joins or leaves the group.
func (g membership) set(fd int) error {
	if g.source.IsValid() {
		return fmt.Errorf("source-specific multicast: %w", errors.ErrUnsupported)
	}
	if g.group.Is6() {
		name := syscall.IPV6_LEAVE_GROUP
		if g.join {
			name = syscall.IPV6_JOIN_GROUP
		}
		req := syscall.IPv6Mreq{Multiaddr: g.group.As16(), Interface: uint32(g.index())}
		return os.NewSyscallError("setsockopt", syscall.SetsockoptIPv6Mreq(handle(fd), syscall.IPPROTO_IPV6, name, &req))
	}
	addr, err := firstIPv4(g.ifi)
	if err != nil {
		return err
	}
	name := syscall.IP_DROP_MEMBERSHIP
	if g.join {
		name = syscall.IP_ADD_MEMBERSHIP
	}
	req := syscall.IPMreq{Multiaddr: g.group.As4(), Interface: addr}
	return os.NewSyscallError("setsockopt", syscall.SetsockoptIPMreq(handle(fd), syscall.IPPROTO_IP, name, &req))
}

// firstIPv4 returns the address that identifies an interface in the calls of IPv4, or zero for none.
func firstIPv4(ifi *net.Interface) (a [4]byte, err error) {
	if ifi == nil {
		return a, nil
	}
	addrs, err := ifi.Addrs()
	if err != nil {
		return a, err
	}
	for _, addr := range addrs {
		if n, ok := addr.(*net.IPNet); ok && n.IP.To4() != nil {
			return [4]byte(n.IP.To4()), nil
		}
	}
	return a, &net.AddrError{Err: "interface without an IPv4 address", Addr: ifi.Name}
}
