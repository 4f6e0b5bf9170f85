// Package stream is what the transports share whose clients listen to the body of an HTTP response that does not end: server-sent events and
// HTTP streams. Such a transport embeds a [Transport], reads its requests, and calls [Transport.Admit].
//
// The goroutine of the HTTP request owns the connection and writes. While 64 KiB wait or are being written, a stream takes no more. A client
// that takes less than 16 KiB within Options.WriteTimeout while there is more is disconnected.
//
// If the body is compressed, that goroutine compresses what waits as one batch, with the batches before as its context, and flushes it.
package stream

import (
	"context"
	"errors"
	"iter"
	"maps"
	"net/http"
	"os"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/sluice-push/sluice/push"
	"github.com/sluice-push/sluice/push/compression"
	"github.com/sluice-push/sluice/push/gateway"
	"github.com/sluice-push/sluice/push/gateway/outbox"
	"github.com/sluice-push/sluice/push/hub"
	"github.com/sluice-push/sluice/push/protocol"
)

// chunk is what a stream writes at a time.
const chunk = 16 << 10

// Transport has all of a gateway.HTTPTransport but ServeHTTP.
type Transport struct {
	gateway  *gateway.Gateway
	name     string
	patterns []string
	kinds    []*gateway.Kind
	requests sync.WaitGroup
	// How many became streams, and what was written to them.
	opened, bytes atomic.Uint64

	mu  sync.Mutex
	all map[*Stream]struct{} // guarded by mu
}

// NewTransport returns a transport with a name and the patterns of its requests, whose clients are of the given kinds. It uses the options
// CommandTimeout, WriteTimeout and Logger.
func NewTransport(g *gateway.Gateway, name string, patterns []string, kinds ...*gateway.Kind) *Transport {
	return &Transport{gateway: g, name: name, patterns: patterns, kinds: kinds, all: map[*Stream]struct{}{}}
}

// Name implements gateway.Transport.
func (t *Transport) Name() string { return t.name }

// Patterns implements gateway.HTTPTransport.
func (t *Transport) Patterns() []string { return t.patterns }

// NeverBlocks implements gateway.HTTPTransport.
func (*Transport) NeverBlocks() bool { return false }

// Len implements gateway.Transport.
func (t *Transport) Len() int {
	t.mu.Lock()
	defer t.mu.Unlock()
	return len(t.all)
}

// Clients implements gateway.Transport.
func (t *Transport) Clients() iter.Seq[*gateway.Client] {
	t.mu.Lock()
	all := slices.Collect(maps.Keys(t.all))
	t.mu.Unlock()
	return func(yield func(*gateway.Client) bool) {
		for _, s := range all {
			if !yield(&s.Client) {
				return
			}
		}
	}
}

// Shutdown implements gateway.Transport. It returns when the last request has ended. The gateway's context, which ends with ctx, cuts the requests.
func (t *Transport) Shutdown(context.Context) error {
	for c := range t.Clients() {
		c.Disconnect(push.DisconnectShutdown)
	}
	t.requests.Wait()
	return nil
}

// Stats implements gateway.Transport.
func (t *Transport) Stats() gateway.TransportStats {
	s := gateway.SumStats(t.kinds)
	s.Clients, s.Opened, s.BytesOut = t.Len(), t.opened.Load(), t.bytes.Load()
	return s
}

// Allow reports whether the page of a request may connect, and refuses the request if not.
func (t *Transport) Allow(w http.ResponseWriter, r *http.Request) bool {
	if t.gateway.Allows(r) {
		return true
	}
	t.gateway.OriginRefused(r)
	gateway.Refuse(w, r, http.StatusForbidden, gateway.NotThisOrigin)
	return false
}

// Refuse refuses a request that is not understood.
func (t *Transport) Refuse(w http.ResponseWriter, r *http.Request, status int, reason string) {
	t.gateway.RequestRefused()
	gateway.Refuse(w, r, status, reason)
}

// Stream is one connection, the carrier of its client. The goroutine of the HTTP request writes.
type Stream struct {
	gateway.Client
	outbox.Outbox

	transport *Transport
	kind      *gateway.Kind
	header    http.Header // of the response
	out       *http.ResponseController
	w         http.ResponseWriter
	r         *http.Request
	ctx       context.Context // ends with the request, with the gateway, and when the stream is aborted
	late      bool            // the client took nothing for too long; owned by the goroutine that writes
	cut       atomic.Bool     // ctx has ended with the gateway or an abort
	// How the body is compressed, nil if it is not, and memory for a compressed batch; owned by the goroutine that writes.
	compressed *compression.Stream
	batch      []byte
	stop       func() // Options.Stop
}

// Options say what a stream is like.
type Options struct {
	Kind   *gateway.Kind
	Header http.Header // of the response
	// MayCompress allows the body to be compressed as a whole, if the client asks for it and gateway.Options.Compression is on.
	MayCompress bool
	// Begin is called before anything is written. When it returns false it has answered the request itself.
	Begin func(s *Stream) bool
	// Frame and Ping append a frame of the hub and the ping, with the lock of the outbox held. Nil: as the kind's framing has it.
	Frame func(dst []byte, f *hub.Frame) []byte
	Ping  func(dst []byte) []byte
	// Refuse answers a request whose client is not admitted. Nil: gateway.RefuseArrival.
	Refuse func(reason error)
	// Stop ends what Begin has begun for the stream, before the client is closed. Nil: nothing.
	Stop func()
}

// Serve admits the client of a request, runs its stream and returns when it has ended.
func (t *Transport) Serve(w http.ResponseWriter, r *http.Request, o *Options) {
	s := &Stream{transport: t, kind: o.Kind, header: o.Header, out: http.NewResponseController(w), w: w, r: r, stop: o.Stop}
	s.Request = r
	if o.MayCompress && t.gateway.Options().Compression {
		s.mayCompress()
	}
	ping := o.Ping
	if ping == nil {
		ping = func(dst []byte) []byte { return append(dst, o.Kind.Ping()...) }
	}
	aborted, abort := context.WithCancel(t.gateway.Context())
	s.Init(outbox.Options{Framing: o.Kind.Encoder().Framing, Frame: o.Frame, Ping: ping, Abort: abort})
	if err := s.Arrive(t.gateway, o.Kind, s, r); err != nil {
		abort()
		if o.Refuse != nil {
			o.Refuse(err)
			return
		}
		gateway.RefuseArrival(w, r, err)
		return
	}
	t.add(s)
	defer t.remove(s)
	release := s.untilCut(aborted, abort)
	defer release()
	defer s.finish()
	defer func() {
		v := recover()
		if err, ok := v.(error); ok && errors.Is(err, http.ErrAbortHandler) {
			panic(v)
		}
		if s.Recovered(v) && !s.Begun() && o.Refuse == nil {
			gateway.ComeAgain(w, r, http.StatusInternalServerError, push.ErrInternal.Message)
		}
	}()
	s.Open()
	if o.Begin(s) {
		s.pump()
	}
}

// mayCompress compresses the body if the client asks for it.
func (s *Stream) mayCompress() {
	s.header = s.header.Clone()
	s.header.Add("Vary", "Accept-Encoding")
	if compression.Accepts(s.r.Header.Values("Accept-Encoding")) {
		s.header.Set("Content-Encoding", "gzip")
		s.compressed = compression.NewStream()
	}
}

func (t *Transport) add(s *Stream) {
	t.requests.Add(1)
	t.mu.Lock()
	t.all[s] = struct{}{}
	t.mu.Unlock()
	s.Arrived()
}

func (t *Transport) remove(s *Stream) {
	t.mu.Lock()
	delete(t.all, s)
	t.mu.Unlock()
	t.requests.Done()
}

// untilCut sets the context that ends with the request, the gateway and an abort; a write that is under way then fails. release must be called before
// the request is over.
func (s *Stream) untilCut(aborted context.Context, abort context.CancelFunc) (release func()) {
	ctx, cancel := context.WithCancel(s.r.Context())
	s.ctx = ctx
	done := make(chan struct{})
	stop := context.AfterFunc(aborted, func() {
		defer close(done)
		s.cut.Store(true)
		cancel()
		past := time.Unix(1, 0)
		_ = s.out.SetReadDeadline(past)  // over HTTP/1 net/http reads a body that is left over before it writes
		_ = s.out.SetWriteDeadline(past) // where it is not supported the client has to end the write
	})
	return func() {
		if !stop() {
			<-done
		}
		abort()
		cancel()
	}
}

// Context ends with the request, with the gateway, and when the stream is aborted.
func (s *Stream) Context() context.Context { return s.ctx }

// finish ends the client with its request.
func (s *Stream) finish() {
	s.Outbox.Close()
	if s.stop != nil {
		s.stop()
	}
	switch {
	case !s.Begun():
		s.Refused()
	case s.transport.gateway.Context().Err() != nil:
		s.Closed(gateway.EndedByShutdown)
	case s.late:
		s.Closed(gateway.EndedByTimeout)
	default:
		s.Closed(gateway.EndedByClient)
	}
}

// Reject answers a request whose client was refused before anything was written, see gateway.RejectClient.
func (s *Stream) Reject(err error) {
	g := s.transport.gateway
	g.ClientRefused()
	if s.r.Context().Err() != nil || g.Context().Err() != nil {
		return // one side is gone, which may well be the error
	}
	g.RejectClient(s.w, s.r, err)
}

// pump writes what waits until the stream ends. The header goes out at once: a client that waits for it is connected then.
func (s *Stream) pump() {
	s.transport.opened.Add(1)
	maps.Copy(s.w.Header(), s.header)
	s.w.WriteHeader(http.StatusOK)
	var out []byte
	var ends *push.Disconnect
	for {
		if out, ends = s.Take(out); ends != nil {
			if !s.Told() {
				bye := protocol.Push{Kind: protocol.PushDisconnect, Disconnect: *ends}
				out = s.kind.Encoder().AppendPush(out, &bye)
			}
			s.write(s.compress(out, true))
			return
		}
		if !s.write(s.compress(out, false)) {
			return
		}
		if s.Written() {
			s.Writable()
		}
		select {
		case <-s.ctx.Done():
			s.late = s.wasLate()
			return
		case <-s.Wake():
		}
	}
}

// keptBatch is the largest buffer for a compressed batch that is kept for the next one.
const keptBatch = 4 << 10

// compress returns a part of the body as it is sent. It is valid until the next call.
func (s *Stream) compress(part []byte, isLast bool) []byte {
	if s.compressed == nil || len(part) == 0 {
		return part
	}
	if cap(s.batch) > keptBatch {
		s.batch = nil
	}
	s.batch = s.compressed.Append(s.batch[:0], part)
	if isLast {
		s.batch = s.compressed.AppendEnd(s.batch)
	}
	return s.batch
}

// wasLate reports whether the request has ended because a deadline has passed. Over HTTP/2 that may also end it just after the write, which then had
// no error. A stream that is closed sends nothing more: the answer to a write says why it was closed.
func (s *Stream) wasLate() bool {
	if s.r.ProtoMajor < 2 || s.cut.Load() {
		return false
	}
	_, err := s.w.Write([]byte{'\n'})
	if err == nil {
		err = s.out.Flush()
	}
	return errors.Is(err, os.ErrDeadlineExceeded)
}

// write sends bytes to the client and reports whether that worked. Without bytes it sends what net/http holds back, which is the header.
func (s *Stream) write(p []byte) bool {
	for first := true; first || len(p) > 0; first = false {
		now := p[:min(len(p), chunk)]
		p = p[len(now):]
		if t := s.transport.gateway.Options().WriteTimeout; t > 0 {
			_ = s.out.SetWriteDeadline(time.Now().Add(t)) // where it is not supported nothing bounds the write but the client
		}
		if s.ctx.Err() != nil { // looked at after the deadline was set, so that it does not cover that of untilCut
			s.late = s.wasLate()
			return false
		}
		_, err := s.w.Write(now)
		if err == nil {
			err = s.out.Flush()
		}
		if err != nil {
			s.late = errors.Is(err, os.ErrDeadlineExceeded)
			return false
		}
		s.transport.bytes.Add(uint64(len(now)))
	}
	_ = s.out.SetWriteDeadline(time.Time{}) // HTTP/2 ends a stream whose deadline passes also when nothing is being written
	return true
}
