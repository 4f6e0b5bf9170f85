// Package origin decides which web pages may use a node, by the Origin header that browsers send (RFC 6454, section 7) and the host of the
// request. It protects against pages of other sites, but not against programs, which may send any header.
package origin

import (
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/netip"
	"slices"
	"strings"
)

// pattern is an origin in the form that browsers send, whose host may stand for all names below it.
type pattern struct {
	scheme string
	host   string // lower case, without brackets; in a wildcard, the part after the star, with its point
	port   string // empty if it is the scheme's default
	below  bool   // a wildcard: names that end with host match
}

// defaultPorts are the ports that browsers leave out of an origin.
var defaultPorts = map[string]string{"http": "80", "https": "443"}

// Check returns an error if a setting is not valid: an origin, a wildcard, "null" or "*".
func Check(s string) error {
	if s == "*" || s == "null" {
		return nil
	}
	_, err := parse(s, true)
	return err
}

// parse parses an origin, or also a wildcard if wildcard is true.
func parse(s string, wildcard bool) (pattern, error) {
	var p pattern
	scheme, rest, ok := strings.Cut(s, "://")
	if !ok || scheme == "" || rest == "" {
		return p, errors.New("use the form https://example.org or https://example.org:8443")
	}
	if !isScheme(scheme) {
		return p, fmt.Errorf("unknown scheme %q: use https or http", scheme)
	}
	for _, c := range []byte(rest) {
		switch {
		case c >= 0x80:
			return p, errors.New("browsers send names that are not ASCII in Punycode (xn--…): write it like that")
		case c <= ' ' || c == 0x7f || strings.IndexByte(`"<>\^{|}%`, c) >= 0:
			return p, fmt.Errorf("the character %q cannot be part of an origin", c)
		}
	}
	if i := strings.IndexAny(rest, "/?#@"); i >= 0 {
		return p, errors.New("an origin ends with the host or the port: leave out user, path, and the slash at the end")
	}
	p.scheme = strings.ToLower(scheme)
	host, port, err := splitPort(rest)
	if err != nil {
		return p, err
	}
	if p.host = strings.ToLower(host); port != defaultPorts[p.scheme] {
		p.port = port
	}
	if name, isBelow := strings.CutPrefix(p.host, "*."); isBelow && wildcard {
		if !strings.Contains(strings.Trim(name, "."), ".") || strings.HasPrefix(name, ".") {
			return p, errors.New("a star stands for all names below a domain, as in https://*.example.org")
		}
		p.host, p.below = "."+name, true
	}
	if strings.Contains(p.host, "*") {
		return p, errors.New("a star stands for whole names at the beginning, as in https://*.example.org")
	}
	return p, nil
}

// isScheme reports whether s can be the scheme of a URL (RFC 3986, section 3.1).
func isScheme(s string) bool {
	const letters = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ"
	return strings.Trim(s[:1], letters) == "" && strings.Trim(s, letters+"0123456789+-.") == ""
}

// splitPort splits a host with an optional port.
func splitPort(s string) (host, port string, err error) {
	switch i := strings.LastIndexByte(s, ':'); {
	case len(s) > 2 && s[0] == '[' && s[len(s)-1] == ']':
		host = s[1 : len(s)-1]
	case i < 0:
		host = s
	default:
		if host, port, err = net.SplitHostPort(s); err != nil {
			return "", "", errors.New("an IPv6 address stands in brackets, as in http://[::1]:8000")
		}
		if port == "" || strings.Trim(port, "0123456789") != "" || len(port) > 5 {
			return "", "", fmt.Errorf("the port %q is not a number", port)
		}
	}
	if host == "" {
		return "", "", errors.New("the host is missing")
	}
	if strings.ContainsAny(host, "[]") {
		return "", "", errors.New("brackets stand around a whole IPv6 address")
	}
	return host, port, nil
}

// Rules say which pages may use a node. The zero value allows pages of the node's own host. All methods may be called concurrently.
type Rules struct {
	all      bool
	null     bool
	patterns []pattern
}

// New returns rules for settings: origins, "https://*.example.org" for all hosts below a domain, "null" for pages without an origin of their
// own, and "*" for all. A setting that [Check] refuses allows nothing.
func New(allowed []string) *Rules {
	r := &Rules{all: slices.Contains(allowed, "*"), null: slices.Contains(allowed, "null")}
	for _, s := range allowed {
		if p, err := parse(s, true); err == nil {
			r.patterns = append(r.patterns, p)
		}
	}
	return r
}

// Allow reports whether a request is allowed: if it comes from a page that the settings name, or from a page of the host that it is sent to. A
// request without an Origin header comes from no page and is allowed. A request with two of them is not.
//
// If the request's host has a port, the port of the origin must be equal, where the scheme's default port equals none. Proxies drop the port or
// write it out, so a host without a port matches a page of the same host with any port.
func (r *Rules) Allow(q *http.Request) bool {
	switch origins := q.Header["Origin"]; len(origins) {
	case 0:
		return true
	case 1:
		return r.AllowOrigin(origins[0], q.Host)
	}
	return false
}

// AllowOrigin is Allow for the value of the header and the host of the request. An empty value means that there is no header.
func (r *Rules) AllowOrigin(origin, host string) bool {
	if origin == "" || r.all {
		return true
	}
	if origin == "null" {
		return r.null
	}
	o, err := parse(origin, false)
	if err != nil {
		return false
	}
	return slices.ContainsFunc(r.patterns, func(p pattern) bool { return p.matches(o) }) || o.isOf(host)
}

func (p pattern) matches(o pattern) bool {
	if p.scheme != o.scheme || p.port != o.port {
		return false
	}
	return p.host == o.host || p.below && strings.HasSuffix(o.host, p.host)
}

// isOf reports whether o is an origin of a host, as a request names it.
func (o pattern) isOf(host string) bool {
	name, port, err := splitPort(host)
	if err != nil || !strings.EqualFold(name, o.host) {
		return false
	}
	return port == "" || port == o.port || o.port == "" && port == defaultPorts[o.scheme]
}

// Local reports whether a request names a host that is always this machine: "localhost", a name below it, or a loopback address. If an attacker
// makes the name of a page point to a loopback address (DNS rebinding), requests carry that name, and Local returns false.
func Local(q *http.Request) bool {
	name, _, err := splitPort(q.Host)
	if err != nil {
		return false
	}
	name = strings.ToLower(strings.TrimSuffix(name, "."))
	if name == "localhost" || strings.HasSuffix(name, ".localhost") {
		return true
	}
	addr, err := netip.ParseAddr(name)
	return err == nil && addr.Unmap().IsLoopback()
}
