package wire

import (
	"fmt"
	"strconv"
	"strings"
)

// This file parses and writes the field Sec-WebSocket-Extensions (RFC 6455 §9.1) and its parameters for permessage-deflate (RFC 7692 §7.1).

const deflateName = "permessage-deflate"

// The parameters of permessage-deflate.
const (
	serverNoTakeover = "server_no_context_takeover"
	clientNoTakeover = "client_no_context_takeover"
	serverMaxBits    = "server_max_window_bits"
	clientMaxBits    = "client_max_window_bits"
)

// A window has 2^8 to 2^15 bytes (RFC 7692 §7.1.2).
const (
	minBits = 8
	maxBits = 15
)

// extension is one member of the field's list.
type extension struct {
	name   string
	params []param
}

type param struct {
	name, value string
	valued      bool // there was a value
}

// parseExtensions reads the list, which may be spread over several fields. It reports whether the list is well formed.
func parseExtensions(fields []string) (list []extension, ok bool) {
	for _, rest := range fields {
		for {
			rest = strings.TrimLeft(rest, " \t,") // empty members are passed over (RFC 9110 §5.6.1)
			if rest == "" {
				break
			}
			var e extension
			if e, rest, ok = parseExtension(rest); !ok {
				return nil, false
			}
			list = append(list, e)
		}
	}
	return list, true
}

// parseExtension reads one member, up to the comma after it.
func parseExtension(s string) (e extension, rest string, ok bool) {
	if e.name, s = cutToken(s); e.name == "" {
		return e, s, false
	}
	for {
		s = strings.TrimLeft(s, " \t")
		if s == "" || s[0] == ',' {
			return e, s, true
		}
		if s[0] != ';' {
			return e, s, false
		}
		var p param
		if p, s, ok = parseParam(strings.TrimLeft(s[1:], " \t")); !ok {
			return e, s, false
		}
		e.params = append(e.params, p)
	}
}

// parseParam reads a name and an optional value. The value is a token, plain or in quotes.
func parseParam(s string) (p param, rest string, ok bool) {
	if p.name, s = cutToken(s); p.name == "" {
		return p, s, false
	}
	after := strings.TrimLeft(s, " \t")
	if after == "" || after[0] != '=' {
		return p, s, true
	}
	p.valued = true
	s = strings.TrimLeft(after[1:], " \t")
	if s == "" || s[0] != '"' {
		p.value, s = cutToken(s)
		return p, s, p.value != ""
	}
	p.value, s, ok = strings.Cut(s[1:], `"`)
	return p, s, ok && isToken(p.value) // §9.1: a quoted value must be a token too, so it has no escapes
}

// cutToken cuts the token off the front of s. The token is empty if there is none.
func cutToken(s string) (token, rest string) {
	n := 0
	for n < len(s) && isToken(s[n:n+1]) {
		n++
	}
	return s[:n], s[n:]
}

// deflateParams are the agreed compression parameters, as seen from this side.
type deflateParams struct {
	takeover, peerTakeover bool // whether this side and the peer keep their contexts between messages
	bits, peerBits         uint8
	server                 bool  // this side is the server
	told                   uint8 // the windows that the answer states: toldServerBits, toldClientBits
}

const (
	toldServerBits uint8 = 1 << iota
	toldClientBits
)

// offer holds the parameters of one offer, or of the answer to one.
type offer struct {
	serverNoTakeover, clientNoTakeover bool
	serverBits, clientBits             uint8 // 0: not stated
	clientAny                          bool  // client_max_window_bits without a value
}

// parseOffer reads the parameters of permessage-deflate. If one of them is unknown, repeated or malformed, ok is false (RFC 7692 §7.1: such an
// offer is declined, and such an answer fails the connection).
func parseOffer(e extension, answer bool) (o offer, ok bool) {
	seen := 0
	for _, p := range e.params {
		var flag int
		switch p.name {
		case serverNoTakeover:
			flag, o.serverNoTakeover = 1, true
		case clientNoTakeover:
			flag, o.clientNoTakeover = 2, true
		case serverMaxBits:
			flag = 4
			o.serverBits = parseBits(p.value)
		case clientMaxBits:
			flag = 8
			o.clientBits = parseBits(p.value)
			o.clientAny = !p.valued && !answer
		}
		wantsValue := flag == 4 || flag == 8 && !o.clientAny
		if flag == 0 || seen&flag != 0 || p.valued != wantsValue {
			return o, false
		}
		if flag == 4 && o.serverBits == 0 || flag == 8 && o.clientBits == 0 && !o.clientAny {
			return o, false
		}
		seen |= flag
	}
	return o, true
}

// parseBits reads a number from 8 to 15 without leading zeros. It returns 0 for anything else.
func parseBits(s string) uint8 {
	n, err := strconv.ParseUint(s, 10, 8)
	if err != nil || s[0] == '0' || n < minBits || n > maxBits {
		return 0
	}
	return uint8(n)
}

// answer returns the parameters of the first of a client's offers that this side supports. Nil declines all of them.
func (e *Endpoint) answer(offers []extension) *deflateParams {
	if e.o.Compression == nil {
		return nil
	}
	for _, x := range offers {
		if x.name != deflateName {
			continue
		}
		if o, ok := parseOffer(x, false); ok {
			if d := e.o.Compression.answer(o); d != nil {
				return d
			}
		}
	}
	return nil
}

// answer returns the parameters that the server agrees to, or nil if it does not support the window.
func (c *Compression) answer(o offer) *deflateParams {
	d := &deflateParams{
		takeover: c.Takeover && !o.serverNoTakeover, peerTakeover: c.PeerTakeover && !o.clientNoTakeover,
		bits: uint8(c.WindowBits), peerBits: maxBits, server: true,
	}
	if o.serverBits > 0 {
		d.bits = min(d.bits, o.serverBits)
	}
	if o.serverBits > 0 || d.bits < maxBits {
		d.told |= toldServerBits
	}
	if !c.keeps(d.bits) {
		return nil
	}
	if o.clientAny || o.clientBits > 0 { // only then may the server limit the client's window (§7.1.2.2)
		d.peerBits = uint8(c.PeerWindowBits)
		if o.clientBits > 0 {
			d.peerBits = min(d.peerBits, o.clientBits)
		}
		if d.peerBits < maxBits || o.clientBits > 0 {
			d.told |= toldClientBits
		}
	}
	return d
}

// response returns the server's answer as a value of the field.
func (d *deflateParams) response() string {
	var b strings.Builder
	b.WriteString(deflateName)
	if !d.takeover {
		b.WriteString("; " + serverNoTakeover)
	}
	if !d.peerTakeover {
		b.WriteString("; " + clientNoTakeover)
	}
	if d.told&toldServerBits != 0 {
		fmt.Fprintf(&b, "; %s=%d", serverMaxBits, d.bits)
	}
	if d.told&toldClientBits != 0 {
		fmt.Fprintf(&b, "; %s=%d", clientMaxBits, d.peerBits)
	}
	return b.String()
}

// Offer returns the value of Sec-WebSocket-Extensions for a client of this endpoint, empty without compression.
func (e *Endpoint) Offer() string {
	c := e.o.Compression
	if c == nil {
		return ""
	}
	var b strings.Builder
	b.WriteString(deflateName)
	if !c.PeerTakeover {
		b.WriteString("; " + serverNoTakeover)
	}
	if !c.Takeover {
		b.WriteString("; " + clientNoTakeover)
	}
	if c.PeerWindowBits < maxBits {
		fmt.Fprintf(&b, "; %s=%d", serverMaxBits, c.PeerWindowBits)
	}
	if b.WriteString("; " + clientMaxBits); c.WindowBits < maxBits {
		fmt.Fprintf(&b, "=%d", c.WindowBits)
	}
	return b.String()
}

// accepted checks a server's answer to Offer and returns its parameters (RFC 7692 §7.1.2). Nil parameters mean no compression.
func (e *Endpoint) accepted(header string) (*deflateParams, error) {
	list, ok := parseExtensions([]string{header})
	switch {
	case !ok:
		return nil, badAnswer("it is malformed")
	case len(list) == 0:
		return nil, nil
	case len(list) > 1 || list[0].name != deflateName || e.o.Compression == nil:
		return nil, badAnswer("it accepts what was not offered")
	}
	c := e.o.Compression
	o, ok := parseOffer(list[0], true)
	if !ok {
		return nil, badAnswer("its parameters are malformed, unknown or doubled")
	}
	d := &deflateParams{takeover: c.Takeover && !o.clientNoTakeover, peerTakeover: !o.serverNoTakeover, bits: uint8(c.WindowBits), peerBits: maxBits}
	if o.clientBits > 0 {
		d.bits = min(d.bits, o.clientBits)
	}
	if o.serverBits > 0 {
		d.peerBits = o.serverBits
	}
	switch {
	case d.peerTakeover && !c.PeerTakeover:
		return nil, badAnswer("it lacks " + serverNoTakeover + ", which was requested")
	case int(d.peerBits) > c.PeerWindowBits:
		return nil, badAnswer("its window is larger than requested")
	case !c.keeps(d.bits):
		return nil, badAnswer("it requests a window that the deflater does not support")
	}
	return d, nil
}

func badAnswer(what string) error {
	return fmt.Errorf("websocket: handshake: the server's Sec-WebSocket-Extensions cannot be used: %s", what)
}
