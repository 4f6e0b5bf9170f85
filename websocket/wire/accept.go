package wire

import (
	"crypto/sha1"
	"encoding/base64"
	"iter"
	"maps"
	"net/http"
	"slices"
	"strconv"
	"strings"
)

// Response is the acceptance that a server is about to send. Options.Accept may change it.
type Response struct {
	// Subprotocol is the chosen subprotocol. If Accept changes it, it must be one of Request.Protocols, or empty.
	Subprotocol string
	// Opcode is the kind of message that AppendEncode makes on this connection: OpText or OpBinary.
	Opcode Opcode
	// Compress says that messages may be compressed, because both client and server support it. Accept may set it to false.
	Compress bool
	// Header is added to the response. The map belongs to this response and is never nil. Fields that the handshake sets are left out.
	Header http.Header

	deflate *deflateParams // the parameters that Compress agrees to
}

// accept checks the header as RFC 6455 §4.2.1 demands, and then applies the server's own policy (§4.2.2).
func (e *Endpoint) accept(r *Request) (*Response, *Refusal) {
	o := &e.o
	if refusal := r.checkUpgrade(); refusal != nil {
		return nil, refusal
	}
	if refusal := r.readFields(); refusal != nil {
		return nil, refusal
	}
	if !o.originAllowed(r) {
		return nil, &Refusal{Status: http.StatusForbidden, Reason: "origin is not allowed"}
	}
	res := &Response{Opcode: o.Opcode, Header: o.Header}
	if o.Accept != nil { // Accept may change Header, so it gets a copy
		if res.Header = o.Header.Clone(); res.Header == nil {
			res.Header = http.Header{}
		}
	}
	if i := slices.IndexFunc(o.Subprotocols, func(p string) bool { return slices.Contains(r.Protocols, p) }); i >= 0 {
		res.Subprotocol = o.Subprotocols[i]
	}
	offers, ok := parseExtensions(r.Header["Sec-Websocket-Extensions"])
	if !ok {
		return nil, malformed("malformed Sec-WebSocket-Extensions")
	}
	res.deflate = e.answer(offers)
	res.Compress = res.deflate != nil
	if o.Accept != nil {
		if err := o.Accept(r, res); err != nil {
			return nil, asRefusal(err)
		}
	}
	if !res.Compress {
		res.deflate = nil
	}
	return res, nil
}

// checkUpgrade checks that the client asks for WebSocket, version 13.
func (r *Request) checkUpgrade() *Refusal {
	if !hasToken(r.Header["Upgrade"], "websocket") || !hasToken(r.Header["Connection"], "upgrade") {
		return upgradeRequired("WebSocket upgrade is required")
	}
	version := r.Header["Sec-Websocket-Version"]
	if len(version) != 1 || version[0] != "13" {
		return upgradeRequired("WebSocket version 13 is required")
	}
	return nil
}

// upgradeRequired returns a refusal with status 426. Such a response must name the protocol and version (RFC 9110 §15.5.22, RFC 6455 §4.4).
func upgradeRequired(reason string) *Refusal {
	return &Refusal{Status: http.StatusUpgradeRequired, Reason: reason, Header: http.Header{
		"Upgrade":               {"websocket"},
		"Sec-Websocket-Version": {"13"},
	}}
}

// readFields reads the key, the offered subprotocols and the origin.
func (r *Request) readFields() *Refusal {
	key := r.Header["Sec-Websocket-Key"]
	if len(key) != 1 || len(key[0]) != 24 {
		return malformed("Sec-WebSocket-Key is required exactly once, with 16 bytes in base64")
	}
	var nonce [18]byte
	if n, err := base64.StdEncoding.Decode(nonce[:], []byte(key[0])); err != nil || n != 16 {
		return malformed("Sec-WebSocket-Key is required exactly once, with 16 bytes in base64")
	}
	r.key = key[0]
	for token := range tokens(r.Header["Sec-Websocket-Protocol"]) {
		if !isToken(token) {
			return malformed("malformed Sec-WebSocket-Protocol")
		}
		r.Protocols = append(r.Protocols, token)
	}
	switch origin := r.Header["Origin"]; len(origin) {
	case 0:
	case 1:
		r.Origin = origin[0]
	default:
		return malformed("more than one Origin")
	}
	return nil
}

// originAllowed reports whether the web page behind the request may connect (RFC 6455 §10.2).
func (o *Options) originAllowed(r *Request) bool {
	if o.CheckOrigin != nil {
		return o.CheckOrigin(r)
	}
	if len(r.Header["Origin"]) == 0 {
		return true
	}
	scheme, host, ok := strings.Cut(r.Origin, "://")
	if ok && equalFold(host, r.Host) {
		return true
	}
	return slices.ContainsFunc(o.Origins, func(pattern string) bool {
		if pattern == "*" || equalFold(pattern, r.Origin) {
			return true
		}
		patternScheme, suffix, wild := strings.Cut(pattern, "://*")
		return wild && strings.HasPrefix(suffix, ".") && equalFold(patternScheme, scheme) &&
			len(host) > len(suffix) && equalFold(host[len(host)-len(suffix):], suffix)
	})
}

// append appends the response that accepts the connection (RFC 6455 §4.2.2).
func (res *Response) append(dst []byte, key string) []byte {
	dst = append(dst, "HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\nSec-WebSocket-Accept: "...)
	dst = appendAcceptKey(dst, key)
	dst = append(dst, "\r\n"...)
	if res.Subprotocol != "" {
		dst = appendField(dst, "Sec-WebSocket-Protocol", res.Subprotocol)
	}
	if res.deflate != nil {
		dst = appendField(dst, "Sec-WebSocket-Extensions", res.deflate.response())
	}
	for _, name := range extraFields(res.Header) {
		for _, value := range res.Header[name] {
			dst = appendField(dst, name, value)
		}
	}
	return append(dst, "\r\n"...)
}

// AppendResponse appends the refusal as a complete HTTP/1.1 response, whose body is one line of text and which ends the connection.
func (r *Refusal) AppendResponse(dst []byte) []byte {
	status, body := r.status(), r.body()
	dst = append(dst, "HTTP/1.1 "...)
	dst = strconv.AppendInt(dst, int64(status), 10)
	dst = append(dst, ' ')
	dst = append(dst, http.StatusText(status)...)
	dst = append(dst, "\r\n"...)
	header := r.fields()
	for _, name := range slices.Sorted(maps.Keys(header)) {
		for _, value := range header[name] {
			dst = appendField(dst, name, value)
		}
	}
	dst = append(dst, "\r\n"...)
	return append(dst, body...)
}

func (r *Refusal) body() string { return r.reason() + "\n" }

// fields returns all header fields of the refusal.
func (r *Refusal) fields() http.Header {
	header := make(http.Header, len(r.Header)+4)
	for _, name := range extraFields(r.Header) {
		header[name] = r.Header[name]
	}
	header.Set("Connection", "close")
	if upgrade := r.Header["Upgrade"]; r.Status == http.StatusUpgradeRequired && upgrade != nil {
		header["Upgrade"] = upgrade
		header["Sec-Websocket-Version"] = r.Header["Sec-Websocket-Version"]
		header.Set("Connection", "Upgrade, close") // a sender of Upgrade must name it in Connection (RFC 9110 §7.8)
	}
	header.Set("Content-Type", "text/plain; charset=utf-8")
	header.Set("Content-Length", strconv.Itoa(len(r.body())))
	header.Set("X-Content-Type-Options", "nosniff")
	return header
}

// extraFields returns, sorted, the names of the fields in h that a user may add to a response: valid names, without the fields that define how
// the response is read.
func extraFields(h http.Header) []string {
	names := make([]string, 0, len(h))
	for name := range h {
		switch canonical := http.CanonicalHeaderKey(name); canonical {
		case "Connection", "Upgrade", "Content-Length", "Content-Type", "Transfer-Encoding", "Trailer":
		default:
			if isToken(name) && !strings.HasPrefix(canonical, "Sec-Websocket-") {
				names = append(names, name)
			}
		}
	}
	slices.Sort(names)
	return names
}

// newlines keeps a value on its line, so that a value from a user cannot become another field.
var newlines = strings.NewReplacer("\r", " ", "\n", " ")

func appendField(dst []byte, name, value string) []byte {
	dst = append(dst, name...)
	dst = append(dst, ": "...)
	dst = append(dst, newlines.Replace(value)...)
	return append(dst, "\r\n"...)
}

// appendAcceptKey appends the value of Sec-WebSocket-Accept for a key (RFC 6455 §4.2.2, item 5.4).
func appendAcceptKey(dst []byte, key string) []byte {
	const magic = "258EAFA5-E914-47DA-95CA-C5AB0DC85B11"
	var proof [24 + len(magic)]byte
	sum := sha1.Sum(append(append(proof[:0], key...), magic...))
	return base64.StdEncoding.AppendEncode(dst, sum[:])
}

// tokens yields the members of a comma-separated list, which may be spread over several fields (RFC 9110 §5.6.1). It skips empty members.
func tokens(values []string) iter.Seq[string] {
	return func(yield func(string) bool) {
		for _, value := range values {
			for member := range strings.SplitSeq(value, ",") {
				if member = strings.Trim(member, " \t"); member != "" && !yield(member) {
					return
				}
			}
		}
	}
}

// hasToken reports whether the list contains the token in any case.
func hasToken(values []string, token string) bool {
	for member := range tokens(values) {
		if equalFold(member, token) {
			return true
		}
	}
	return false
}

// equalFold reports whether a and b are equal in ASCII without case. strings.EqualFold also takes the Kelvin sign for a k.
func equalFold(a, b string) bool {
	if len(a) != len(b) {
		return false
	}
	for i := range len(a) {
		if a[i] != b[i] && (!isLetter(a[i]) || a[i]|0x20 != b[i]|0x20) {
			return false
		}
	}
	return true
}
