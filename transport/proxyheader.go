package transport

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"net/netip"
	"strconv"
	"strings"
)

// This file parses headers of the PROXY protocol, versions 1 and 2, as specified by HAProxy in "The PROXY protocol" (doc/proxy-protocol.txt);
// sections are of that text. The parser takes the beginning of a connection. If the header is incomplete, the parser returns how many more bytes
// certainly belong to it. A caller that reads exactly so many never takes a byte of the client's data.

// ErrProxyHeader says that a connection does not begin with a valid PROXY header.
var ErrProxyHeader = errors.New("invalid PROXY header")

// Version 1, section 2.1.
const (
	proxyV1Prefix = "PROXY "
	proxyV1Min    = len("PROXY UNKNOWN\r\n") // the shortest line
	proxyV1Max    = 107                      // the longest
	proxyV1Fields = 6                        // PROXY, family, two addresses, two ports
)

// Version 2, section 2.2.
const (
	proxyV2Prefix = "\r\n\r\n\x00\r\nQUIT\n"
	proxyV2Fixed  = len(proxyV2Prefix) + 4 // bytes up to and with the length
	proxyV2Max    = 4 << 10                // our own limit, with room for extensions that contain certificates
	proxyIPv4     = 2*4 + 2*2              // two addresses, two ports
	proxyIPv6     = 2*16 + 2*2
	proxyUnix     = 2 * proxyUnixPath
	proxyUnixPath = 108
	proxyTLVFixed = 3 // type and length of an extension
	proxyCRC32C   = 3 // PP2_TYPE_CRC32C, section 2.2.3
)

// ProxyHeader is the information of a proxy about the connection that it forwards.
type ProxyHeader struct {
	// Version is 1 or 2.
	Version int
	// Local says that the header contains no addresses: the connection is the proxy's own, as for a health check, or of a kind that the proxy
	// cannot describe. The addresses of the connection itself apply.
	Local bool
	// Source is the client, and Destination is the address that it connected to. IPv4 addresses are never mapped into IPv6. Both are zero for
	// Unix sockets.
	Source, Destination netip.AddrPort
	// SourcePath and DestinationPath are the addresses of Unix sockets, which may be empty.
	SourcePath, DestinationPath string
	// Unix says that the client uses a Unix socket.
	Unix bool

	tlvs []byte
}

// TLV returns the value of the first extension of a type (section 2.2); type 2, for example, is the host name that the client asked for. The
// value belongs to the header and must not be changed.
func (h *ProxyHeader) TLV(kind byte) (value []byte, ok bool) {
	for rest := h.tlvs; len(rest) > 0; {
		t := rest[0]
		value, rest, _ = cutTLV(rest)
		if t == kind {
			return value, true
		}
	}
	return nil, false
}

// parseProxy parses the header at the beginning of b, and returns it with its length n. If it returns neither a header nor an error, b is an
// incomplete header, and at least n more bytes belong to it.
func parseProxy(b []byte) (h *ProxyHeader, n int, err error) {
	switch {
	case len(b) == 0:
		return nil, proxyV1Min, nil // shorter than any header of version 2
	case hasPrefix(b, proxyV1Prefix):
		return parseProxyV1(b)
	case hasPrefix(b, proxyV2Prefix):
		return parseProxyV2(b)
	}
	return nil, 0, refuse("no signature")
}

func refuse(why string) error { return fmt.Errorf("%w: %s", ErrProxyHeader, why) }

// hasPrefix reports whether b begins with prefix, or prefix begins with b.
func hasPrefix(b []byte, prefix string) bool {
	n := min(len(b), len(prefix))
	return string(b[:n]) == prefix[:n]
}

func parseProxyV1(b []byte) (*ProxyHeader, int, error) {
	line, _, whole := bytes.Cut(b[:min(len(b), proxyV1Max)], []byte("\n"))
	text, ok := string(line), true
	if whole || strings.HasSuffix(text, "\r") {
		text, ok = strings.CutSuffix(text, "\r")
	}
	fields := strings.Split(text, " ")
	switch {
	case !ok || strings.Contains(text, "\r"):
		return nil, 0, refuse("CR and LF do not come together")
	case !whole:
		n, err := missingV1(fields, len(line))
		if len(line) > len(text) {
			n = len("\n")
		}
		if err == nil && len(line)+n > proxyV1Max {
			err = refuse("too long")
		}
		if err != nil {
			return nil, 0, err
		}
		return nil, n, nil
	}
	n := len(line) + 1
	if len(fields) >= 2 && fields[1] == "UNKNOWN" { // the rest of the line does not matter
		return &ProxyHeader{Version: 1, Local: true}, n, nil
	}
	if len(fields) != proxyV1Fields {
		return nil, 0, refuse("not six fields")
	}
	h := &ProxyHeader{Version: 1}
	var err error
	if h.Source, err = addressV1(fields[1], fields[2], fields[4]); err != nil {
		return nil, 0, err
	}
	if h.Destination, err = addressV1(fields[1], fields[3], fields[5]); err != nil {
		return nil, 0, err
	}
	return h, n, nil
}

// missingV1 returns the fewest bytes that an incomplete line lacks. fields are its fields so far, the last of which may be incomplete, and
// length is its length.
func missingV1(fields []string, length int) (int, error) {
	const end = len("\r\n")
	if len(fields) <= 2 { // the family is not known yet
		return max(end, proxyV1Min-length), nil
	}
	shortest := [proxyV1Fields]int{2: len("::"), 3: len("::"), 4: len("1"), 5: len("1")}
	switch fields[1] {
	case "UNKNOWN":
		return end, nil
	case "TCP4":
		shortest[2], shortest[3] = len("1.1.1.1"), len("1.1.1.1")
	case "TCP6":
	default:
		return 0, refuse("unknown family")
	}
	if len(fields) > proxyV1Fields {
		return 0, refuse("not six fields")
	}
	n := end
	if at := len(fields) - 1; fields[at] == "" {
		n += shortest[at]
	}
	for _, field := range shortest[len(fields):] {
		n += len(" ") + field
	}
	return n, nil
}

// addressV1 parses an address of a family and its port.
func addressV1(family, address, port string) (netip.AddrPort, error) {
	addr, err := netip.ParseAddr(address) // refuses leading zeros, as the specification does
	switch {
	case family != "TCP4" && family != "TCP6":
		return netip.AddrPort{}, refuse("unknown family")
	case err != nil, addr.Is4() != (family == "TCP4"), addr.Zone() != "":
		return netip.AddrPort{}, refuse("not an address of the family")
	}
	p, err := strconv.ParseUint(port, 10, 16)
	if err != nil || len(port) > 1 && port[0] == '0' {
		return netip.AddrPort{}, refuse("not a port")
	}
	return netip.AddrPortFrom(addr.Unmap(), uint16(p)), nil
}

func parseProxyV2(b []byte) (*ProxyHeader, int, error) {
	if len(b) < proxyV2Fixed {
		return nil, proxyV2Fixed - len(b), nil
	}
	command, family := b[12], b[13]
	n := proxyV2Fixed + int(binary.BigEndian.Uint16(b[14:]))
	switch {
	case command>>4 != 2:
		return nil, 0, refuse("unknown version")
	case command&0xf > 1:
		return nil, 0, refuse("unknown command")
	case n > proxyV2Max:
		return nil, 0, refuse("too long")
	case len(b) < n:
		return nil, n - len(b), nil
	}
	b = b[:n]
	h := &ProxyHeader{Version: 2}
	if command&0xf == 0 { // LOCAL: the rest is ignored
		h.Local = true
		return h, n, nil
	}
	size, err := h.addressesV2(family, b[proxyV2Fixed:])
	if err != nil {
		return nil, 0, err
	}
	if h.Local {
		return h, n, nil
	}
	if err := checkTLVs(b, proxyV2Fixed+size); err != nil {
		return nil, 0, err
	}
	if tlvs := b[proxyV2Fixed+size:]; len(tlvs) > 0 {
		h.tlvs = bytes.Clone(tlvs)
	}
	return h, n, nil
}

// addressesV2 parses the addresses at the beginning of b, and returns their size.
func (h *ProxyHeader) addressesV2(family byte, b []byte) (size int, err error) {
	switch family {
	case 0x00: // unspecified: the addresses of the connection apply
		h.Local = true
		return 0, nil
	case 0x11, 0x12: // TCP or UDP, which is the protocol between client and proxy
		size = proxyIPv4
	case 0x21, 0x22:
		size = proxyIPv6
	case 0x31, 0x32:
		size = proxyUnix
	default:
		return 0, refuse("unknown family")
	}
	if len(b) < size {
		return 0, refuse("too short for its addresses")
	}
	b = b[:size]
	if size == proxyUnix {
		h.Unix = true
		h.SourcePath, h.DestinationPath = path(b[:proxyUnixPath]), path(b[proxyUnixPath:])
		return size, nil
	}
	half, ports := (size-4)/2, b[size-4:]
	source, _ := netip.AddrFromSlice(b[:half])
	destination, _ := netip.AddrFromSlice(b[half : 2*half])
	h.Source = netip.AddrPortFrom(source.Unmap(), binary.BigEndian.Uint16(ports))
	h.Destination = netip.AddrPortFrom(destination.Unmap(), binary.BigEndian.Uint16(ports[2:]))
	return size, nil
}

// path returns the path in the field of a Unix address. An abstract one begins with a zero byte, which package net writes as @.
func path(b []byte) string {
	if b[0] != 0 {
		b, _, _ = bytes.Cut(b, []byte{0})
		return string(b)
	}
	if b = bytes.TrimRight(b, "\x00"); len(b) == 0 {
		return ""
	}
	return "@" + string(b[1:])
}

// checkTLVs checks that the extensions, from start on, fill the header, and checks the header's checksum if one of them is a checksum (section
// 2.2.3).
func checkTLVs(header []byte, start int) error {
	summed := false
	for rest := header[start:]; len(rest) > 0; {
		kind, at := rest[0], len(header)-len(rest)+proxyTLVFixed
		value, after, ok := cutTLV(rest)
		if !ok {
			return refuse("an extension is cut off")
		}
		rest = after
		if kind != proxyCRC32C {
			continue
		}
		if summed || len(value) != crc32.Size {
			return refuse("not one checksum")
		}
		summed = true
		table := crc32.MakeTable(crc32.Castagnoli)
		sum := crc32.Update(crc32.Update(crc32.Checksum(header[:at], table), table, make([]byte, crc32.Size)), table, header[at+crc32.Size:])
		if sum != binary.BigEndian.Uint32(value) {
			return refuse("wrong checksum")
		}
	}
	return nil
}

// cutTLV returns the value of the first extension in b, which must not be empty, and the bytes behind it. ok is false if b is too short.
func cutTLV(b []byte) (value, rest []byte, ok bool) {
	if len(b) < proxyTLVFixed {
		return nil, nil, false
	}
	n := proxyTLVFixed + int(binary.BigEndian.Uint16(b[1:]))
	if len(b) < n {
		return nil, nil, false
	}
	return b[proxyTLVFixed:n], b[n:], true
}
