// Package origin decides which web pages may use a node, by the Origin header that browsers send (RFC 6454, section 7) and the host that was
// asked for. It guards against pages of other sites, not against programs, which may send what they like.
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

// pattern is an origin in the form that browsers send, with a host that may stand for all below it.
type pattern struct {
	scheme string
	host   string // lower case, without brackets; of a wildcard what follows the star, with its point
	port   string // empty when it is the scheme's own
	below  bool   // host is the end of the names that match
}

// defaultPorts are the ports that browsers leave out of an origin.
var defaultPorts = map[string]string{"http": "80", "https": "443"}

// Check returns why no page can have an origin that s allows, or nil: for settings.
func Check(s string) error {
	if s == "*" || s == "null" {
		return nil
	}
	_, err := parse(s, true)
	return err
}

// parse reads an origin, and a wildcard if one is allowed.
func parse(s string, wildcard bool) (pattern, error) {
	var p pattern
	scheme, rest, ok := strings.Cut(s, "://")
	if !ok || scheme == "" || rest == "" {
		return p, errors.New("use the form https://example.org or https://example.org:8443")
	}
	if !isScheme(scheme) {
		return p, fmt.Errorf("%q is not a scheme: use https or http", scheme)
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

// isScheme says whether s can be the scheme of a URL (RFC 3986, section 3.1).
func isScheme(s string) bool {
	const letters = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ"
	return strings.Trim(s[:1], letters) == "" && strings.Trim(s, letters+"0123456789+-.") == ""
}

// splitPort divides a host with or without a port.
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

// Rules are the pages that may use a node. The zero value allows those of the node's own host. They may be used concurrently.
type Rules struct {
	all      bool
	null     bool
	patterns []pattern
}

// New makes rules of settings: origins, "https://*.example.org" for all hosts below a domain, "null" for pages without an origin of
// their own, and "*" for all. What [Check] refuses allows nothing.
func New(allowed []string) *Rules {
	r := &Rules{all: slices.Contains(allowed, "*"), null: slices.Contains(allowed, "null")}
	for _, s := range allowed {
		if p, err := parse(s, true); err == nil {
			r.patterns = append(r.patterns, p)
		}
	}
	return r
}

// Allow reports whether the page that sends a request may: one that the settings name, or one of the host that was asked for. A request
// without an origin comes from no page. One with two is refused.
//
// The port of the host counts if there is one, and the default one is as good as none. Proxies drop it or write it out, so a host without
// one matches a page of the same host with any.
func (r *Rules) Allow(q *http.Request) bool {
	switch origins := q.Header["Origin"]; len(origins) {
	case 0:
		return true
	case 1:
		return r.AllowOrigin(origins[0], q.Host)
	}
	return false
}

// AllowOrigin is Allow for the value of the header and the host that was asked for. An empty value is none.
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

// isOf reports whether a page of o comes from a host, as a request names it.
func (o pattern) isOf(host string) bool {
	name, port, err := splitPort(host)
	if err != nil || !strings.EqualFold(name, o.host) {
		return false
	}
	return port == "" || port == o.port || o.port == "" && port == defaultPorts[o.scheme]
}

// Local reports whether a request names a host that is always this machine: "localhost", a name below it, or a loopback address. A page
// whose own name was made to point to a loopback address (DNS rebinding) names another.
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
