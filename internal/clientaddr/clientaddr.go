// Package clientaddr groups the addresses of clients for limits: all of an IPv6 /64 count as one.
package clientaddr

import (
	"net"
	"net/netip"
)

// Of returns what connections from an address are counted by: the address, for IPv6 its /64, which is what one customer gets.
func Of(ip netip.Addr) netip.Addr {
	ip = ip.Unmap().WithZone("")
	if ip.Is6() {
		if p, err := ip.Prefix(64); err == nil {
			return p.Addr()
		}
	}
	return ip
}

// AddrPort reads the address of a connection of any kind. It is not valid for one without IP address.
func AddrPort(a net.Addr) netip.AddrPort {
	switch a := a.(type) {
	case nil, *net.UnixAddr:
		return netip.AddrPort{}
	case *net.TCPAddr:
		return a.AddrPort()
	}
	at, err := netip.ParseAddrPort(a.String())
	if err != nil {
		return netip.AddrPort{}
	}
	return at
}

// Plain is AddrPort with IPv4 addresses in their own form, as sockets of that kind have them.
func Plain(a net.Addr) netip.AddrPort {
	return Canonical(AddrPort(a))
}

// Canonical returns the canonical form of an address: IPv4 mapped into IPv6 becomes IPv4.
func Canonical(a netip.AddrPort) netip.AddrPort {
	return netip.AddrPortFrom(a.Addr().Unmap(), a.Port())
}
