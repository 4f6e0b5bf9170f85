package wire

import (
	"crypto/rand"
	"encoding/base64"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"net/url"
	"slices"
	"strings"
)

// ClientOptions configure a [ClientHandshake]. Nil and the zero value mean the defaults. NewClientHandshake copies everything that it needs.
type ClientOptions struct {
	// Subprotocols are the application's protocols (RFC 6455 §1.9), best first, each once. Nil: none is offered.
	Subprotocols []string

	// Extensions is the offer of extensions, as the value of the field Sec-WebSocket-Extensions (RFC 6455 §9.1). Empty: none.
	Extensions string

	// Origin is the web page on whose behalf a browser connects, as "scheme://host[:port]" or "null". Empty: none, as usual for programs that
	// are not browsers.
	Origin string

	// Host is the value of the field Host, "host[:port]". It is for a server that is reached by another name or address than its own. Empty: the
	// URL's host.
	Host string

	// Header is added to the request, for cookies, for example. Names and values must be valid in HTTP. Fields that the handshake sets are
	// errors: Host, Upgrade, Connection, Origin, all that begin with Sec-WebSocket-, and Authorization if the URL has a user. Fields that
	// announce a body are errors, too.
	Header http.Header

	// MaxHeaderBytes is the size in bytes of the largest response accepted, with its empty line and all interim responses before it. Zero: 8
	// KiB. Negative: no limit.
	MaxHeaderBytes int

	// MaxHeaderLines is the largest number of header lines in a response. Zero: 100. Negative: no limit.
	MaxHeaderLines int
}

// ClientHandshake is the client's side of the opening handshake (RFC 6455 §4.1) without I/O. The caller sends the request of AppendRequest and
// gives the received bytes to Decode, until Decode reports that the server has accepted. The bytes after that are frames. A ClientHandshake
// belongs to one connection and one goroutine.
type ClientHandshake struct {
	request    []byte
	key        string
	offered    []string // subprotocols
	extensions []string // the names of those offered

	head     head
	start    int // where the response starts, after interim responses
	response *ClientResponse
	err      error
}

// ClientResponse is a server's response that accepts a connection. Its strings may share one copy of the whole response, so clone a string that
// is kept for long.
type ClientResponse struct {
	// Status is 101.
	Status int
	// Subprotocol is the one of ClientOptions.Subprotocols that the server chose, empty for none.
	Subprotocol string
	// Extensions are the extensions that the server chose, as the value of the field Sec-WebSocket-Extensions; several fields are joined by
	// commas. Each of them was offered. The caller must check that their parameters match its offer.
	Extensions string
	// Header holds all fields under their canonical names.
	Header http.Header
}

// NewClientHandshake returns the handshake for the server of u. The schemes are ws and wss (RFC 6455 §3), and http and https with the same
// meaning. A user in u becomes the field Authorization (RFC 7617). The error names the part of u or o that cannot be sent. A fragment in u is an
// error, because it has no meaning here.
func NewClientHandshake(u *url.URL, o *ClientOptions) (*ClientHandshake, error) {
	if o == nil {
		o = &ClientOptions{}
	}
	var nonce [16]byte
	_, _ = rand.Read(nonce[:]) // it never fails
	h := &ClientHandshake{
		key:     base64.StdEncoding.EncodeToString(nonce[:]),
		offered: slices.Clone(o.Subprotocols),
		head: head{
			maxBytes:   limit(o.MaxHeaderBytes, defaultMaxHeaderBytes),
			maxLines:   limit(o.MaxHeaderLines, defaultMaxHeaderLines),
			checkFirst: checkStatusLine,
		},
	}
	err := h.appendStart(u, o)
	if err == nil {
		err = h.appendOffer(o)
	}
	if err == nil {
		err = h.appendExtra(u, o.Header)
	}
	if err != nil {
		return nil, fmt.Errorf("websocket: handshake: %w", err)
	}
	h.request = append(h.request, "\r\n"...)
	return h, nil
}

// AppendRequest appends the request that begins the connection.
func (h *ClientHandshake) AppendRequest(dst []byte) []byte { return append(dst, h.request...) }

// Response returns the server's response, nil until Decode has accepted it. The caller must not change it while other goroutines read it.
func (h *ClientHandshake) Response() *ClientResponse { return h.response }

// appendStart appends the request line and the fields of every handshake.
func (h *ClientHandshake) appendStart(u *url.URL, o *ClientOptions) error {
	host, err := hostField(u)
	if err != nil {
		return err
	}
	if o.Host != "" {
		if host = o.Host; !isHost(host) {
			return fmt.Errorf("host %q: use ASCII without spaces, and Punycode for international names", host)
		}
	}
	target := u.RequestURI()
	if target[0] != '/' {
		target = "/" + target
	}
	if !isTarget(target) {
		return errors.New("path and query of the URL must be escaped")
	}
	h.request = append(h.request, "GET "+target+" HTTP/1.1\r\n"...)
	h.request = appendField(h.request, "Host", host)
	h.request = append(h.request, "Upgrade: websocket\r\nConnection: Upgrade\r\nSec-WebSocket-Version: 13\r\n"...)
	h.request = appendField(h.request, "Sec-WebSocket-Key", h.key)
	return nil
}

// hostField returns the value of the field Host, with the port unless it is the scheme's default (RFC 6455 §4.1).
func hostField(u *url.URL) (string, error) {
	defaultPort := "80"
	switch u.Scheme {
	case "ws", "http":
	case "wss", "https":
		defaultPort = "443"
	default:
		return "", fmt.Errorf("unknown scheme %q: use ws:// or wss://", u.Scheme)
	}
	if u.Fragment != "" || u.RawFragment != "" {
		return "", errors.New("the URL has a fragment: remove it, or write # as %23") // §3
	}
	host, port := u.Hostname(), u.Port()
	if u.Opaque != "" || host == "" {
		return "", errors.New("the URL has no host")
	}
	if strings.Contains(host, ":") { // an IPv6 address; its zone means nothing to the server (RFC 6874 §1)
		host, _, _ = strings.Cut(host, "%")
		host = "[" + host + "]"
	}
	if port != "" && port != defaultPort {
		host += ":" + port
	}
	if !isHost(host) || !isHost(u.Host) {
		return "", fmt.Errorf("host %q: use ASCII without spaces, and Punycode for international names", u.Host)
	}
	return host, nil
}

// appendOffer appends the offered subprotocols and extensions, and the origin.
func (h *ClientHandshake) appendOffer(o *ClientOptions) error {
	for i, name := range o.Subprotocols {
		if !isToken(name) || slices.Contains(o.Subprotocols[:i], name) {
			return fmt.Errorf("invalid subprotocol %q: use an HTTP token, and offer it once", name) // §4.1, item 10
		}
	}
	if len(o.Subprotocols) > 0 {
		h.request = appendField(h.request, "Sec-WebSocket-Protocol", strings.Join(o.Subprotocols, ", "))
	}
	if o.Extensions != "" {
		names, ok := extensionNames(o.Extensions)
		if !ok || len(names) == 0 {
			return fmt.Errorf("invalid extensions %q: use a list as in RFC 6455 section 9.1", o.Extensions)
		}
		h.extensions = names
		h.request = appendField(h.request, "Sec-WebSocket-Extensions", o.Extensions)
	}
	if o.Origin != "" {
		if !isValue(o.Origin) {
			return fmt.Errorf("origin %q: it must be one line without control characters", o.Origin)
		}
		h.request = appendField(h.request, "Origin", o.Origin)
	}
	return nil
}

// appendExtra appends the user's fields, ordered by name, and the credentials in the URL.
func (h *ClientHandshake) appendExtra(u *url.URL, extra http.Header) error {
	hasUser := u.User.String() != ""
	if hasUser {
		password, _ := u.User.Password()
		if strings.Contains(u.User.Username(), ":") {
			return errors.New("the user in the URL contains a colon, which cannot be sent") // RFC 7617 §2
		}
		h.request = appendField(h.request, "Authorization",
			"Basic "+base64.StdEncoding.EncodeToString([]byte(u.User.Username()+":"+password)))
	}
	for _, name := range slices.Sorted(maps.Keys(extra)) {
		if !isToken(name) {
			return fmt.Errorf("header field %q: the name is not an HTTP token", name)
		}
		canonical := http.CanonicalHeaderKey(name)
		switch canonical {
		case "Host", "Upgrade", "Connection", "Origin":
			return fmt.Errorf("header field %s is set by the handshake: see the URL and the options", canonical)
		case "Content-Length", "Transfer-Encoding", "Trailer", "Expect":
			return fmt.Errorf("header field %s announces a body, which a handshake must not have", canonical)
		case "Authorization":
			if hasUser {
				return errors.New("header field Authorization and a user in the URL exclude each other: use one of them")
			}
		}
		if strings.HasPrefix(canonical, "Sec-Websocket-") {
			return fmt.Errorf("header field %s is set by the handshake: see the options", canonical)
		}
		for _, value := range extra[name] {
			if !isValue(value) { // the error does not show the value, which may be a secret
				return fmt.Errorf("header field %s: the value must be one line without control characters", canonical)
			}
			h.request = appendField(h.request, name, value)
		}
	}
	return nil
}

// extensionNames returns the names in the value of a field Sec-WebSocket-Extensions (RFC 6455 §9.1), a list of names with parameters, whose
// values may be quoted. If a name is missing, a character is not allowed, or a quote is not closed, ok is false. The extensions check their
// parameters.
func extensionNames(list string) (names []string, ok bool) {
	if !isValue(list) {
		return nil, false
	}
	for list != "" {
		var member string
		if member, list, ok = cutMember(list); !ok {
			return nil, false
		}
		name, params, hasParams := strings.Cut(member, ";")
		if name = strings.Trim(name, " \t"); name == "" && !hasParams {
			continue // an empty member (RFC 9110 §5.6.1.2)
		}
		if !isToken(name) || hasParams && strings.Trim(params, " \t") == "" {
			return nil, false
		}
		names = append(names, name)
	}
	return names, true
}

// cutMember cuts a list at its first comma outside of quotes. If a quote is not closed, ok is false.
func cutMember(list string) (member, rest string, ok bool) {
	quoted := false
	for i := 0; i < len(list); i++ {
		switch c := list[i]; {
		case c == '"':
			quoted = !quoted
		case quoted && c == '\\':
			i++
		case !quoted && c == ',':
			return list[:i], list[i+1:], true
		}
	}
	return list, "", !quoted
}
