// Package forwarded finds the address of a client that comes through proxies: from the headers X-Forwarded-For and Forwarded (RFC 7239), as far as
// proxies that are trusted have written them.
//
// A client can send these headers too. So the list is read from its end, where the nearest proxy has written, and an address counts only while
// every one behind it, up to the peer of the connection, is that of a trusted proxy. The headers of a peer that is not trusted are not looked at.
//
// The package is pure.
package forwarded

import (
	"fmt"
	"net/http"
	"net/netip"
	"strings"
)

// Proxies are the addresses of the trusted proxies. The zero Proxies trusts none.
type Proxies []netip.Prefix

// Parse returns the proxies of a configuration: addresses, or prefixes such as 10.0.0.0/8. The error names the entry that is neither.
func Parse(list []string) (Proxies, error) {
	proxies := make(Proxies, 0, len(list))
	for _, text := range list {
		prefix, err := netip.ParsePrefix(text)
		if addr, bad := netip.ParseAddr(text); bad == nil && addr.Zone() == "" {
			prefix, err = netip.PrefixFrom(addr, addr.BitLen()), nil
		}
		if err != nil {
			return nil, fmt.Errorf("%q is neither an address nor a prefix: use 10.0.0.1 or 10.0.0.0/8", text)
		}
		if prefix != prefix.Masked() {
			return nil, fmt.Errorf("%q has bits behind its length: use %v", text, prefix.Masked())
		}
		proxies = append(proxies, prefix)
	}
	return proxies, nil
}

// Trusts reports whether an address is that of a trusted proxy.
func (p Proxies) Trusts(addr netip.Addr) bool {
	addr = addr.Unmap().WithZone("")
	for _, prefix := range p {
		if prefix.Contains(addr) {
			return true
		}
	}
	return false
}

// mostHops bounds how many entries of a list are looked at.
const mostHops = 16

// Client returns the address of the client of a request with a header, whose connection comes from peer. It is peer itself when that is not
// trusted, when its header is malformed or has neither list, and when it has both: a proxy writes one of them and passes the other on, and nothing
// says which.
func (p Proxies) Client(peer netip.Addr, h http.Header) netip.Addr {
	if !p.Trusts(peer) {
		return peer
	}
	plain, standard := h["X-Forwarded-For"], h["Forwarded"]
	lines, parse := plain, parseEntry
	switch {
	case len(plain) > 0 && len(standard) > 0:
		return peer
	case len(standard) > 0:
		lines, parse = standard, parseElement
	}
	list := strings.Join(lines, ",")
	client := peer
	for range mostHops {
		i := strings.LastIndexByte(list, ',')
		addr, ok := parse(strings.TrimSpace(list[i+1:]))
		if !ok {
			return client
		}
		client = addr
		if i < 0 || !p.Trusts(client) {
			return client
		}
		list = list[:i]
	}
	return client
}

// parseElement returns the address in an element of Forwarded. A name that stands for an address (unknown, _hidden) is none.
func parseElement(element string) (netip.Addr, bool) {
	for pair := range strings.SplitSeq(element, ";") {
		name, value, _ := strings.Cut(strings.TrimSpace(pair), "=")
		if strings.EqualFold(name, "for") {
			return parseEntry(strings.Trim(value, `"`))
		}
	}
	return netip.Addr{}, false
}

// parseEntry returns an address that may have a port.
func parseEntry(text string) (netip.Addr, bool) {
	addr, err := netip.ParseAddr(strings.TrimSuffix(strings.TrimPrefix(text, "["), "]"))
	if err != nil {
		var at netip.AddrPort
		at, err = netip.ParseAddrPort(text)
		addr = at.Addr()
	}
	return addr.Unmap().WithZone(""), err == nil
}
