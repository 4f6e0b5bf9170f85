package wire

import (
	"math"
	"strings"
	"sync"

	"github.com/sluice-push/sluice/internal/deflate"
)

// Endpoint is what all connections of one server or client have in common: the options, resolved once, and what is needed now and then
// and lent out. It makes codecs ready. All methods may be called concurrently.
type Endpoint struct {
	o        Options                // with defaults
	whole    int                    // the largest payload that decodeWhole takes
	encoders [maxBits + 1]sync.Pool // of Deflater, by window, for messages without context

	mu         sync.Mutex
	agreements map[agreementKey]*agreement // those that connections can share
}

// agreement is what a handshake agreed on. It is shared unless it holds a context.
type agreement struct {
	subprotocol string
	deflate     *deflateParams  // nil: no compression
	out         Deflater        // what this side sends keeps its context; guarded by who orders the frames
	in          *deflate.Window // what the peer sends keeps its context; the reader's
}

type agreementKey struct {
	subprotocol string
	deflate     deflateParams
}

// agreementsMax is how many different agreements are shared: clients choose among subprotocols, and windows.
const agreementsMax = 64

// NewEndpoint resolves the options, which are copied; nil means the defaults.
func NewEndpoint(o *Options) *Endpoint {
	e := &Endpoint{o: o.withDefaults()}
	if e.whole = min(e.o.MaxMessage, math.MaxUint16); e.o.Pieces {
		e.whole = -1
	}
	return e
}

// Handshake makes c the codec of a server's connection on which nothing was read yet: see [NewHandshake].
func (e *Endpoint) Handshake(c *Codec) {
	e.reset(c)
	w := c.under()
	w.first.head = head{maxBytes: e.o.MaxHeaderBytes, maxLines: e.o.MaxHeaderLines, checkFirst: checkRequestLine}
	w.hs = &w.first
}

// Open makes c the codec of a server's connection on which the handshake is done: see [New].
func (e *Endpoint) Open(c *Codec) {
	e.reset(c)
	c.state.Store(stateOpen)
}

// Client makes c the codec of a client's connection on which the handshake is done, in which the client offered [Endpoint.Offer] and the
// server answered r. The error says what is wrong with its answer to the offer; then the connection is to be given up (RFC 6455 §4.1).
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

// reset makes c as good as new.
func (e *Endpoint) reset(c *Codec) {
	c.e, c.agreed, c.client, c.opcode = e, nil, false, e.o.Opcode
	c.last, c.work = 0, nil
	c.state.Store(stateHandshake)
	c.pings.Store(0)
	c.pongs.Store(0)
}

// agree returns what connections with these results of their handshake have.
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

// newAgreement copies the subprotocol, which may be a part of the whole request.
func newAgreement(subprotocol string, d *deflateParams) *agreement {
	return &agreement{subprotocol: strings.Clone(subprotocol), deflate: d}
}
