package wire

import (
	"math"
	"net/http"
)

// Options configure a [Codec] and the handshake. A nil *Options and the zero value mean the defaults. The struct is copied when it
// is handed over; what its slices and maps refer to must not change afterwards, so that one Options can serve all connections.
type Options struct {
	// MaxMessage is the largest message accepted, in bytes of payload over all its fragments. A larger one ends the connection
	// with code 1009 as soon as its length is known. Zero: 64 KiB. Negative: no limit.
	MaxMessage int

	// MaxFragments is the largest number of frames a message may come in; more end the connection with code 1008. Zero: 1,024, and one more
	// for each 16 bytes of payload that the frames before have brought: it is tiny frames that are bounded. Negative: no limit.
	MaxFragments int
	fragmentSize int // how many bytes of payload allow another one; 0: none do

	// Compression is how messages are compressed (permessage-deflate, RFC 7692). Nil: they are not, and offers are passed over.
	Compression *Compression

	// Pieces makes Decode return what has arrived of a message at once, so that messages may be larger than memory, each piece with a
	// tag before it: see [TagLast]. MaxMessage is still checked. A piece that is not the end of its frame keeps its last byte among the
	// unread ones, where it is the only byte that was changed.
	Pieces bool

	// Control makes Decode return the payloads of pings and pongs as well, as messages of which Opcode says what they are. Pings are
	// answered all the same.
	Control bool

	// NoPong leaves it to the user to answer pings.
	NoPong bool

	// SkipUTF8 accepts text that is not UTF-8, against RFC 6455 §8.1: for those who check it anyway, or do not care.
	SkipUTF8 bool

	// Opcode is the kind of message AppendEncode makes: OpText or OpBinary. Zero: OpText.
	Opcode Opcode

	// MaxHeaderBytes is the largest handshake request accepted by a codec of NewHandshake, in bytes up to and including the empty
	// line; a larger one is refused with status 431. Zero: 8 KiB. Negative: no limit. For Upgrade, http.Server has its own.
	MaxHeaderBytes int

	// MaxHeaderLines is the largest number of header lines in that request. Zero: 100. Negative: no limit.
	MaxHeaderLines int

	// Subprotocols are the application's protocols (RFC 6455 §1.9), best first. The first one that the client offers is agreed
	// on; when it offers none of them the connection is accepted without. Nil: none.
	Subprotocols []string

	// Origins are the web pages that may connect, besides those of the same host: "https://example.com", with "https://*.example.com"
	// for all hosts below, and "*" for any. Requests without an Origin header do not come from a browser and are accepted.
	Origins []string

	// CheckOrigin, when not nil, decides alone which origins may connect, also about requests without one. It is called as
	// Accept is.
	CheckOrigin func(*Request) bool

	// Header is added to the response that accepts a connection. Fields that the handshake itself sets are left out.
	Header http.Header

	// Accept, when not nil, sees every request that passed all other checks, and the response as it would be sent, which it may
	// change. An error refuses the connection: a *Refusal says how, anything else becomes status 403 and is not told to the
	// client. It runs inside Decode or Upgrade, on the goroutine that called them, for different connections at the same time. A
	// panic inside Decode is contained: the client gets status 500, Decode returns a *Refusal that wraps the report.
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

// maxLimit is what no limit is above.
const maxLimit = math.MaxInt - maxHeader

// withDefaults returns a copy in which every limit is a positive number that means itself.
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

// fragments returns how many frames a message may come in of which so many bytes have come.
func (o *Options) fragments(total int) int {
	if o.fragmentSize == 0 {
		return o.MaxFragments
	}
	return o.MaxFragments + total/o.fragmentSize
}

// limit resolves one limit. The largest leaves room for a frame header, so that no sum of the two overflows.
func limit(n, byDefault int) int {
	switch {
	case n == 0:
		return byDefault
	case n < 0:
		return maxLimit
	}
	return min(n, maxLimit)
}
