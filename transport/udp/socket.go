//go:build linux || darwin || dragonfly || freebsd || netbsd || openbsd || windows

package udp

import "syscall"

// The numbers of options that these systems have under the same names.
const (
	solSocket   = syscall.SOL_SOCKET
	soRcvBuf    = syscall.SO_RCVBUF
	soSndBuf    = syscall.SO_SNDBUF
	soBroadcast = syscall.SO_BROADCAST

	ipTTL             = syscall.IP_TTL
	ipv6UnicastHops   = syscall.IPV6_UNICAST_HOPS
	ipMulticastTTL    = syscall.IP_MULTICAST_TTL
	ipv6MulticastHops = syscall.IPV6_MULTICAST_HOPS
	ipMulticastLoop   = syscall.IP_MULTICAST_LOOP
	ipv6MulticastLoop = syscall.IPV6_MULTICAST_LOOP
)
