package udp

import (
	"encoding/binary"
	"net"
	"net/netip"
	"os"
	"runtime"
	"strconv"
	"syscall"
	"unsafe"
)

// Options of linux/in.h, linux/in6.h and asm-generic/socket.h, of which package syscall has only some, or only on some architectures.
const (
	ipMulticastAll   = 49
	ipv6MulticastAll = 29

	mcastJoinGroup        = 42 // RFC 3678, section 5
	mcastLeaveGroup       = 45
	mcastJoinSourceGroup  = 46
	mcastLeaveSourceGroup = 47

	soMemInfo = 55

	noNet = syscall.ENONET // ICMP: the host is isolated

	ipMTUDiscover   = syscall.IP_MTU_DISCOVER
	ipv6MTUDiscover = syscall.IPV6_MTU_DISCOVER
	pmtuDiscDo      = syscall.IP_PMTUDISC_DO // the same number in both families
)

// memInfoDrops is the index of the number of dropped datagrams among the nine numbers of SO_MEMINFO (SK_MEMINFO_DROPS of linux/sock_diag.h).
const memInfoDrops = 8

// kernelDrops returns how many datagrams for the socket the kernel has dropped, modulo 2³². The alternative is SO_RXQ_OVFL, which adds the
// number to each datagram. But that costs time for each datagram, and the number comes only with the next datagram that is not dropped.
func kernelDrops(fd int) (uint32, bool) {
	call := callNumbers(runtime.GOARCH).getsockopt
	if call == 0 {
		return 0, false
	}
	var info [memInfoDrops + 1]uint32
	size := uint32(unsafe.Sizeof(info))
	_, _, errno := syscall.RawSyscall6(call, uintptr(fd), syscall.SOL_SOCKET, soMemInfo, uintptr(unsafe.Pointer(&info)),
		uintptr(unsafe.Pointer(&size)), 0)
	return info[memInfoDrops], errno == 0 && uintptr(size) == unsafe.Sizeof(info)
}

// onlyJoined keeps out datagrams to groups that only other sockets have joined, which Linux delivers by default. It ignores the error of a
// kernel that does not have the option.
func onlyJoined(fd int, v6 bool) {
	_ = syscall.SetsockoptInt(fd, syscall.IPPROTO_IP, ipMulticastAll, 0)
	if v6 {
		_ = syscall.SetsockoptInt(fd, syscall.IPPROTO_IPV6, ipv6MulticastAll, 0)
	}
}

// setMulticastInterface sets the interface that datagrams to groups are sent through.
func setMulticastInterface(fd int, v6 bool, ifi *net.Interface) error {
	err := syscall.SetsockoptIPMreqn(fd, syscall.IPPROTO_IP, syscall.IP_MULTICAST_IF, &syscall.IPMreqn{Ifindex: int32(ifi.Index)})
	if v6 {
		err = syscall.SetsockoptInt(fd, syscall.IPPROTO_IPV6, syscall.IPV6_MULTICAST_IF, ifi.Index)
	}
	return os.NewSyscallError("setsockopt", err)
}

// set joins or leaves the group with the calls of RFC 3678, which are the same for both families.
func (g membership) set(fd int) error {
	level, name := syscall.IPPROTO_IP, mcastLeaveGroup
	if g.group.Is6() {
		level = syscall.IPPROTO_IPV6
	}
	switch {
	case g.join && g.source.IsValid():
		name = mcastJoinSourceGroup
	case g.join:
		name = mcastJoinGroup
	case g.source.IsValid():
		name = mcastLeaveSourceGroup
	}
	return os.NewSyscallError("setsockopt", syscall.SetsockoptString(fd, level, name, string(g.request())))
}

// request returns a struct group_req, or a group_source_req if there is a source, of linux/in.h: the index of the interface, then one or two
// struct sockaddr_storage, aligned like pointers.
func (g membership) request() []byte {
	const word, storage = strconv.IntSize / 8, 128
	b := make([]byte, word, word+2*storage)
	binary.NativeEndian.PutUint32(b, uint32(g.index()))
	for _, a := range []netip.Addr{g.group, g.source} {
		if !a.IsValid() {
			continue
		}
		var s sockaddr
		if a.Is4() {
			s.put4(a, 0)
		} else {
			s.put6(a, 0, 0)
		}
		b = append(b, s[:]...)
		b = append(b, make([]byte, storage-len(s))...)
	}
	return b
}
