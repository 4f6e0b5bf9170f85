package proxydial

import (
	"errors"
	"fmt"
	"net"
	"net/url"
	"strconv"
	"strings"
)

// hop is the proxy or the server.
type hop struct {
	name  string // "server" or "proxy", for errors
	host  string // without brackets; may contain a zone
	port  uint16
	tls   bool
	socks bool
	user  *url.Userinfo // the credentials for a proxy, or nil
}

func (h *hop) address() string { return net.JoinHostPort(h.host, strconv.Itoa(int(h.port))) }

func (h *hop) failed(step string, err error) *Error {
	return &Error{Hop: h.name, Address: h.address(), Step: step, Err: err}
}

// serverOf parses the URL of a server.
func serverOf(u *url.URL) (*hop, error) {
	h := &hop{name: "server", port: 80}
	switch u.Scheme {
	case "ws", "http":
	case "wss", "https":
		h.tls, h.port = true, 443
	default:
		return nil, fmt.Errorf("unknown scheme %q: use ws:// or wss://", u.Scheme)
	}
	return h, h.reads(u)
}

// proxyOf parses the URL of a proxy. Its errors do not contain the user and password.
func proxyOf(u *url.URL) (*hop, error) {
	h := &hop{name: "proxy", port: 80, user: u.User}
	switch u.Scheme {
	case "http":
	case "https":
		h.tls, h.port = true, 443
	case "socks5", "socks5h":
		h.socks, h.port = true, 1080 // RFC 1928 §3
	default:
		return nil, fmt.Errorf("unknown proxy scheme %q: use http, https, socks5 or socks5h", u.Scheme)
	}
	return h, h.reads(u)
}

// reads sets host and port from a URL.
func (h *hop) reads(u *url.URL) error {
	h.host = u.Hostname()
	if u.Opaque != "" || h.host == "" {
		return fmt.Errorf("the URL of the %s has no host", h.name)
	}
	for i := range len(h.host) {
		if b := h.host[i]; b <= ' ' || b >= 0x7f {
			return fmt.Errorf("host %q of the %s: use ASCII without spaces, and Punycode for international names",
				h.host, h.name)
		}
	}
	if port := u.Port(); port != "" {
		n, err := strconv.ParseUint(port, 10, 16)
		if err != nil || n == 0 {
			return fmt.Errorf("invalid port %q of the %s: use a number from 1 to 65535", port, h.name)
		}
		h.port = uint16(n)
	}
	return nil
}

// remote returns the host in the form for a proxy. It fails for an address with a zone, which has a meaning on this machine only (RFC 6874 §1).
func (h *hop) remote() (string, error) {
	if strings.Contains(h.host, "%") {
		return "", errors.New("an address with a zone cannot be reached through a proxy")
	}
	return h.host, nil
}

// withoutZone returns the host without its zone, as certificates contain it.
func withoutZone(host string) string {
	host, _, _ = strings.Cut(host, "%")
	return host
}
