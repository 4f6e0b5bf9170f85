package wire

import (
	"math"
	"net/http"
)

// Options configure a [Codec] and the handshake. A nil *Options and the zero value mean the defaults. The struct is copied. Its slices and maps
// must not change afterwards, so that one Options can serve all connections.
type Options struct {
	// MaxMessage is the size of the largest message accepted, in bytes of payload over all its fragments, after inflating. A larger one ends the
	// connection with code 1009 as soon as its length is known. Zero: 64 KiB. Negative: no limit.
	MaxMessage int

	// MaxFragments is the largest number of frames that one message may have; more end the connection with code 1008. Zero: 1,024, and one more
	// for each 16 bytes of payload in the frames before, which bounds messages of tiny frames. Negative: no limit.
	MaxFragments int
	fragmentSize int // bytes of payload that allow one more frame; 0: MaxFragments is fixed

	// Compression configures compression (permessage-deflate, RFC 7692). Nil: no compression, and offers are ignored.
	Compression *Compression

	// Pieces makes Decode return the arrived part of a message at once, so that messages may be larger than memory. A tag before each piece
	// describes it: see [TagLast]. MaxMessage is still checked. If a piece does not end its frame, its last byte stays among the unread bytes,
	// and is the only one of them that was changed.
	Pieces bool

	// Control makes Decode return the payloads of pings and pongs as messages too; Opcode returns their kind. Pings are still answered.
	Control bool

	// NoPong turns automatic pongs off. The user answers pings.
	NoPong bool

	// SkipUTF8 accepts text that is not UTF-8, against RFC 6455 §8.1, for applications that check text themselves or do not need the check.
	SkipUTF8 bool

	// Opcode is the kind of message AppendEncode makes: OpText or OpBinary. Zero: OpText.
	Opcode Opcode

	// MaxHeaderBytes is the size in bytes of the largest handshake request that a codec of NewHandshake accepts, with its empty line. A larger
	// one is refused with status 431. Zero: 8 KiB. Negative: no limit. Upgrade uses the limit of http.Server instead.
	MaxHeaderBytes int

	// MaxHeaderLines is the largest number of header lines in that request. Zero: 100. Negative: no limit.
	MaxHeaderLines int

	// Subprotocols are the application's protocols (RFC 6455 §1.9), best first. The server chooses the first one that the client offers. If the
	// client offers none of them, the connection is accepted without a subprotocol. Nil: none.
	Subprotocols []string

	// Origins are the web pages that may connect, besides those of the same host: "https://example.com", "https://*.example.com" for all hosts
	// below, or "*" for any. Requests without an Origin header do not come from a browser and are accepted.
	Origins []string

	// CheckOrigin, if not nil, replaces the check of origins, also for requests without an Origin. It is called on the same goroutines as
	// Accept.
	CheckOrigin func(*Request) bool

	// Header is added to the response that accepts a connection. Fields that the handshake itself sets are left out.
	Header http.Header

	// Accept, if not nil, gets every request that passed all other checks, and the response, which it may change. An error refuses the
	// connection: a *Refusal defines the response, any other error becomes status 403 and is not sent to the client. Accept runs inside Decode
	// or Upgrade, on the caller's goroutine, and for different connections at the same time. If Accept panics inside Decode, the client gets
	// status 500, and Decode returns a *Refusal that wraps the panic.
	Accept func(*Request, *Response) error
}

// The defaults.
const (
	defaultMaxMessage     = 64 << 10
	defaultMaxFragments   = 1024
	defaultFragmentSize   = 16
	defaultMaxHeaderBytes = 8 << 10
	defaultMaxHeaderLines = 100
)

// maxLimit is the largest value of a limit.
const maxLimit = math.MaxInt - maxHeader

// withDefaults returns a copy in which every default is replaced by its value, and every negative limit by maxLimit.
func (o *Options) withDefaults() Options {
	var d Options
	if o != nil {
		d = *o
	}
	d.MaxMessage = limit(d.MaxMessage, defaultMaxMessage)
	if d.MaxFragments == 0 {
		d.fragmentSize = defaultFragmentSize
	}
	d.MaxFragments = limit(d.MaxFragments, defaultMaxFragments)
	d.MaxHeaderBytes = limit(d.MaxHeaderBytes, defaultMaxHeaderBytes)
	d.MaxHeaderLines = limit(d.MaxHeaderLines, defaultMaxHeaderLines)
	if d.Opcode != OpBinary {
		d.Opcode = OpText
	}
	if d.Compression != nil {
		d.Compression = d.Compression.withDefaults()
	}
	return d
}

// fragments returns the largest number of frames for a message of which total bytes have arrived.
func (o *Options) fragments(total int) int {
	if o.fragmentSize == 0 {
		return o.MaxFragments
	}
	return o.MaxFragments + total/o.fragmentSize
}

// limit returns the value of a limit. The largest one leaves room for a frame header, so that their sum does not overflow.
func limit(n, byDefault int) int {
	switch {
	case n == 0:
		return byDefault
	case n < 0:
		return maxLimit
	}
	return min(n, maxLimit)
}
