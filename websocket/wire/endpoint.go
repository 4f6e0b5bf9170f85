package wire

import (
	"math"
	"strings"
	"sync"

	"github.com/sluice-push/sluice/internal/deflate"
)

// Endpoint holds the state that all connections of one server or client share: the resolved options, compressors, and the results of handshakes.
// It prepares the codecs of its connections. All methods may be called concurrently.
type Endpoint struct {
	o        Options                // with defaults
	whole    int                    // the size of the largest payload that decodeWhole handles
	encoders [maxBits + 1]sync.Pool // of Deflater, by window bits, for messages without context

	mu         sync.Mutex
	agreements map[agreementKey]*agreement // the results of handshakes that connections share
}

// agreement is the result of a handshake. Connections share it unless it holds a context.
type agreement struct {
	subprotocol string
	deflate     *deflateParams  // nil: no compression
	out         Deflater        // the compressor with this side's context, or nil; guarded by the order of the frames
	in          *deflate.Window // the context of the peer's messages, or nil; owned by the reader
}

type agreementKey struct {
	subprotocol string
	deflate     deflateParams
}

// agreementsMax bounds the number of shared agreements, because clients choose subprotocols and windows.
const agreementsMax = 64

// NewEndpoint returns an endpoint with a copy of the options; nil means the defaults.
func NewEndpoint(o *Options) *Endpoint {
	e := &Endpoint{o: o.withDefaults()}
	if e.whole = min(e.o.MaxMessage, math.MaxUint16); e.o.Pieces {
		e.whole = -1
	}
	return e
}

// Handshake makes c the codec of a server's connection from which no byte has been read: see [NewHandshake].
func (e *Endpoint) Handshake(c *Codec) {
	e.reset(c)
	w := c.ensureWork()
	w.first.head = head{maxBytes: e.o.MaxHeaderBytes, maxLines: e.o.MaxHeaderLines, checkFirst: checkRequestLine}
	w.hs = &w.first
}

// Open makes c the codec of a server's connection whose handshake is done: see [New].
func (e *Endpoint) Open(c *Codec) {
	e.reset(c)
	c.state.Store(stateOpen)
}

// Client makes c the codec of a client's connection whose handshake is done. In that handshake the client offered [Endpoint.Offer] and the
// server answered r. If r does not match the offer, Client returns an error, and the connection must be closed (RFC 6455 §4.1).
func (e *Endpoint) Client(c *Codec, r *ClientResponse) error {
	d, err := e.accepted(r.Extensions)
	if err != nil {
		return err
	}
	e.Open(c)
	c.client = true
	c.agreed = e.agree(r.Subprotocol, d)
	return nil
}

// reset returns c to its initial state.
func (e *Endpoint) reset(c *Codec) {
	c.e, c.agreed, c.client, c.opcode = e, nil, false, e.o.Opcode
	c.last, c.work = 0, nil
	c.state.Store(stateHandshake)
	c.pings.Store(0)
	c.pongs.Store(0)
}

// agree returns the agreement for a subprotocol and compression parameters: a shared one, or a new one if it holds a context.
func (e *Endpoint) agree(subprotocol string, d *deflateParams) *agreement {
	if subprotocol == "" && d == nil {
		return nil
	}
	if d != nil && (d.takeover || d.peerTakeover) {
		a := newAgreement(subprotocol, d)
		if d.takeover {
			a.out = e.newDeflater(d.bits)
		}
		if d.peerTakeover {
			in := deflate.NewWindow(int(d.peerBits))
			a.in = &in
		}
		return a
	}
	key := agreementKey{subprotocol: subprotocol}
	if d != nil {
		key.deflate = *d
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	if shared := e.agreements[key]; shared != nil {
		return shared
	}
	if e.agreements == nil {
		e.agreements = make(map[agreementKey]*agreement)
	}
	a := newAgreement(subprotocol, d)
	if len(e.agreements) < agreementsMax {
		key.subprotocol = a.subprotocol
		e.agreements[key] = a
	}
	return a
}

// newAgreement returns a new agreement. It copies the subprotocol, which may be a part of the whole request.
func newAgreement(subprotocol string, d *deflateParams) *agreement {
	return &agreement{subprotocol: strings.Clone(subprotocol), deflate: d}
}
