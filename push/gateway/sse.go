package gateway

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"os"
	"slices"
	"sync"
	"time"

	"github.com/sluice-push/sluice/push"
	"github.com/sluice-push/sluice/push/channel"
	"github.com/sluice-push/sluice/push/hub"
	"github.com/sluice-push/sluice/push/protocol"
)

const (
	// streamBuffer is from how many bytes on, buffered or being written, a stream takes no more frames.
	streamBuffer = 64 << 10
	// keptBuffer is the largest buffer that a stream keeps while it has nothing to write.
	keptBuffer = 4 << 10
	// streamChunk is what a stream writes at a time.
	streamChunk = 16 << 10
	// maxQuery is the longest query of a stream. It is less than servers take of a request, so that a browser whose first request is taken is not
	// refused when it comes back, with a Last-Event-ID: after a refusal it would never try again.
	maxQuery = 48 << 10
)

// stream is one SSE connection. It is the carrier of its hub session; the goroutine of the HTTP request writes.
type stream struct {
	gateway *Gateway
	out     *http.ResponseController
	w       http.ResponseWriter
	r       *http.Request
	wake    chan struct{} // something is buffered, or the stream is to end
	late    bool          // the client took nothing for too long; owned by who writes

	mu      sync.Mutex // guards what follows
	buf     []byte
	writing int // bytes that are being written
	where   vector
	// What has been said since the last id, and how long that was, in bytes.
	unmarked, idBytes int
	opened            bool             // the connect push is on its way, so that frames may follow it
	refused           bool             // frames were not taken
	ends              *push.Disconnect // the server ends the connection
}

func (g *Gateway) serveSSE(w http.ResponseWriter, r *http.Request) {
	if r.Method != http.MethodGet { // the pattern lets HEAD through, to which nothing could be streamed
		w.Header().Set("Allow", http.MethodGet)
		refuse(w, r, http.StatusMethodNotAllowed, "use GET")
		return
	}
	if !g.pages.Allow(r) {
		g.refuseOrigin(r.Header["Origin"], r.Host, r.RemoteAddr)
		refuse(w, r, http.StatusForbidden, notThisOrigin)
		return
	}
	if n := len(r.URL.RawQuery); n > maxQuery {
		g.counts.request.Add(1)
		refuse(w, r, http.StatusRequestURITooLong, fmt.Sprintf("the query has %d bytes, at most %d are taken: ask for fewer channels, "+
			"or use WebSocket", n, maxQuery))
		return
	}
	connect, err := connectOf(r)
	if err != nil {
		g.counts.request.Add(1)
		refuse(w, r, http.StatusBadRequest, "cf_connect: "+err.Error())
		return
	}
	addr := addressOf(r.RemoteAddr)
	if err := g.admit(addr); err != nil {
		comeAgain(w, r, http.StatusServiceUnavailable, err.Error())
		return
	}
	defer g.leave(addr)
	s := &stream{gateway: g, out: http.NewResponseController(w), w: w, r: r, wake: make(chan struct{}, 1)}
	g.track(s)
	defer g.untrack(s)
	ctx, release := s.untilCut()
	defer release()
	s.run(ctx, connect)
}

// untilCut returns the request's context, which ends with the gateway as well; a write that is under way then fails. release must be
// called before the request is over.
func (s *stream) untilCut() (ctx context.Context, release func()) {
	ctx, cancel := context.WithCancel(s.r.Context())
	done := make(chan struct{})
	stop := context.AfterFunc(s.gateway.ctx, func() {
		defer close(done)
		cancel()
		_ = s.out.SetWriteDeadline(time.Unix(1, 0)) // where it is not supported the client has to end the write
	})
	return ctx, func() {
		if !stop() {
			<-done
		}
		cancel()
	}
}

// connectOf reads the connect request of a one-way client from the query; none is an empty one. Positions in the Last-Event-ID,
// with which a browser connects again by itself, beat those of the URL, which it repeats unchanged.
func connectOf(r *http.Request) (*protocol.ConnectRequest, error) {
	var cmd protocol.Command
	if raw := r.URL.Query().Get("cf_connect"); raw != "" {
		data, err := protocol.CompactData([]byte(raw)) // one value, which cannot reach out of the command around it
		if err != nil {
			return nil, err
		}
		const before = `{"connect":`
		err = protocol.DecodeCommand(append(append([]byte(before), data...), '}'), &cmd)
		if where := new(protocol.SyntaxError); errors.As(err, &where) {
			return nil, &protocol.SyntaxError{Offset: max(where.Offset-len(before), 0), Reason: where.Reason}
		}
		if err != nil {
			return nil, err
		}
	}
	last := r.Header.Get("Last-Event-ID")
	if last == "" {
		last = r.URL.Query().Get("lastEventId") // of polyfills that may not set the header (Yaffle/EventSource)
	}
	for name, at := range parseVector(last, slices.Sorted(maps.Keys(cmd.Connect.Subs))) {
		if sub, ok := cmd.Connect.Subs[name]; ok {
			sub.Recover, sub.Position = true, at
			cmd.Connect.Subs[name] = sub
		}
	}
	return &cmd.Connect, nil
}

// track ends the stream's arrival.
func (g *Gateway) track(s *stream) {
	g.mu.Lock()
	g.streams[s] = struct{}{}
	g.mu.Unlock()
	g.requests.Add(1)
	g.arriving.Done()
}

func (g *Gateway) untrack(s *stream) {
	g.mu.Lock()
	delete(g.streams, s)
	g.mu.Unlock()
	g.requests.Done()
}

// run serves the stream until the client hangs up or the server ends it.
func (s *stream) run(ctx context.Context, connect *protocol.ConnectRequest) {
	g := s.gateway
	limited, cancel := context.WithTimeout(ctx, g.options.CommandTimeout)
	defer cancel()
	info, err := g.identify(limited, connect.Token, s.r)
	if err != nil {
		s.reject(err)
		return
	}
	wish, err := parseWish("connect.data", connect.Data)
	if err != nil {
		s.reject(err)
		return
	}
	h, err := g.hub.Connect(s, jsonEvents{}, hub.SessionOptions{Info: info, OneWay: true, Bandwidth: wish.bandwidth()})
	if err != nil {
		s.reject(err)
		return
	}
	defer h.Close()
	hello, err := s.subscribe(limited, h, connect, wish)
	if err != nil {
		s.reject(err)
		return
	}
	streamHeader(s.w.Header())
	s.pump(ctx, h, hello)
}

// reject answers a request that does not become a stream. A browser tries again only if the reason is temporary.
func (s *stream) reject(err error) {
	s.gateway.counts.client.Add(1)
	var e *push.Error
	var d push.Disconnect
	switch {
	case s.r.Context().Err() != nil, s.gateway.ctx.Err() != nil: // one side is gone, which may well be the error
	case errors.As(err, &d) && d.Reconnect():
		comeAgain(s.w, s.r, http.StatusServiceUnavailable, d.Reason)
	case errors.As(err, &d):
		refuse(s.w, s.r, http.StatusForbidden, d.Reason)
	case errors.As(err, &e) && e.Temporary:
		comeAgain(s.w, s.r, http.StatusServiceUnavailable, e.Message)
	case errors.Is(err, push.ErrUnauthorized), errors.Is(err, push.ErrTokenExpired):
		refuse(s.w, s.r, http.StatusUnauthorized, e.Message)
	case errors.Is(err, push.ErrPermissionDenied):
		refuse(s.w, s.r, http.StatusForbidden, e.Message)
	case errors.As(err, &e):
		refuse(s.w, s.r, http.StatusBadRequest, e.Message)
	default:
		s.gateway.options.Logger.Error("an SSE client could not connect", "error", err)
		comeAgain(s.w, s.r, http.StatusInternalServerError, push.ErrInternal.Message)
	}
}

// subscribe begins the subscriptions that the client asks for and returns the connect push that tells it of them.
func (s *stream) subscribe(ctx context.Context, h *hub.Session, connect *protocol.ConnectRequest, w wish) ([]byte, error) {
	result := s.gateway.connected(h.Info(), false)
	result.Data = w.connected(h.Bandwidth())
	result.Subs = map[string]protocol.SubscribeResult{}
	// All answers are one event, which has to get through as a whole: together they carry no more than one would alone.
	room := channel.Budget{Entries: 512, Bytes: 32 << 10}
	for _, name := range slices.Sorted(maps.Keys(connect.Subs)) {
		sub := connect.Subs[name]
		sub.Channel = name
		sub.Flag &^= protocol.SubscribeFlagCompaction // who has no SDK looks for names
		if err := s.gateway.options.Permit(h.Info(), name, Subscribe); err != nil {
			return nil, err
		}
		if room.Entries <= 0 || room.Bytes <= 0 {
			room.Entries = -1 // nothing more; a zero budget would be the default one
		}
		err := subscribe(ctx, h, &sub, room, func(answer protocol.SubscribeResult, at push.Position) error {
			result.Subs[name] = answer
			for i := range answer.Publications {
				room.Entries--
				room.Bytes -= answer.Publications[i].Size()
			}
			s.mu.Lock()
			s.where.move(name, at)
			s.mu.Unlock()
			return nil
		})
		if err != nil {
			return nil, err
		}
	}
	hello := protocol.AppendPush(nil, &protocol.Push{Kind: protocol.PushConnect, Connect: result}, protocol.PushOptions{Bare: true})
	return hello, nil
}

// pump writes what is buffered until the stream ends.
func (s *stream) pump(ctx context.Context, h *hub.Session, hello []byte) {
	var ping <-chan time.Time
	if every := s.gateway.options.PingInterval; every > 0 {
		t := time.NewTicker(every)
		defer t.Stop()
		ping = t.C
	}
	out := s.open(hello)
	s.gateway.counts.streamsOpened.Add(1)
	defer s.countEnd()
	for s.write(ctx, out) {
		if s.written() {
			h.Flush()
		}
		select {
		case <-ctx.Done():
			return
		case <-ping:
			out = s.ping(out[:0])
			continue
		case <-s.wake:
		}
		var ends *push.Disconnect
		if out, ends = s.take(out); ends != nil {
			bye := protocol.AppendPush(nil, &protocol.Push{Kind: protocol.PushDisconnect, Disconnect: *ends}, protocol.PushOptions{Bare: true})
			s.write(ctx, append(append(append(out, "data: "...), bye...), "\n\n"...))
			return
		}
	}
}

// open returns the first event, and from now on frames are taken.
func (s *stream) open(hello []byte) []byte {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.opened = true
	return s.appendEvent(appendRetry(nil), hello)
}

// take exchanges the buffer for an empty one, with the memory of spare unless that is too large to be kept.
func (s *stream) take(spare []byte) (out []byte, ends *push.Disconnect) {
	if cap(spare) > keptBuffer {
		spare = nil
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	out, s.buf, s.writing = s.buf, spare[:0], len(s.buf)
	return out, s.ends
}

// written notes that what was taken is out, and reports whether frames were refused before that.
func (s *stream) written() (refused bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	refused, s.refused, s.writing = s.refused, false, 0
	return refused
}

// write sends bytes to the client and reports whether that worked.
func (s *stream) write(ctx context.Context, p []byte) bool {
	if len(p) == 0 {
		return true
	}
	for chunk := range slices.Chunk(p, streamChunk) {
		if t := s.gateway.options.WriteTimeout; t > 0 {
			_ = s.out.SetWriteDeadline(time.Now().Add(t)) // where it is not supported nothing bounds the write but the client
		}
		if ctx.Err() != nil {
			return false // looked at after the deadline was set, so that it does not cover that of untilCut
		}
		_, err := s.w.Write(chunk)
		if err == nil {
			err = s.out.Flush()
		}
		if err != nil {
			s.late = errors.Is(err, os.ErrDeadlineExceeded)
			return false
		}
		s.gateway.counts.streamBytes.Add(uint64(len(chunk)))
	}
	_ = s.out.SetWriteDeadline(time.Time{}) // HTTP/2 ends a stream whose deadline passes also when nothing is being written
	return true
}

// appendEvent appends one event with the client's position as its id. A long id is left out until as much has been said without one: a client
// that comes back then is told again what came since. When there can be no id the client is given one that says so, so that it learns of its loss when it
// comes back. The lock is held.
func (s *stream) appendEvent(dst, data []byte) []byte {
	s.unmarked += len(data)
	if s.unmarked >= s.idBytes || s.idBytes <= plainVector {
		dst = s.appendID(dst)
	}
	dst = append(append(dst, "data: "...), data...)
	return append(dst, "\n\n"...)
}

// appendID appends the line with the client's position, when that is not what was said last. The lock is held.
func (s *stream) appendID(dst []byte) []byte {
	start := len(dst)
	if len(s.where.parts) == 0 {
		return dst
	}
	dst = append(dst, "id: "...)
	if dst = s.where.append(dst); len(dst) == start+len("id: ") {
		dst = append(dst, lostVector...)
	}
	s.unmarked, s.idBytes = 0, len(dst)-start
	return append(dst, '\n')
}

// ping returns the event that shows that the stream lives. When all before it is out it also says where the client is, if events did not.
func (s *stream) ping(out []byte) []byte {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.unmarked > 0 && len(s.buf) == 0 {
		out = s.appendID(out)
	}
	return append(out, "data: {}\n\n"...)
}

// TryWrite implements hub.Carrier. What is buffered and being written together exceeds streamBuffer by less than one frame.
func (s *stream) TryWrite(frames []hub.Frame) int {
	s.mu.Lock()
	defer s.mu.Unlock()
	taken := 0
	for i := range frames {
		if len(s.buf)+s.writing >= streamBuffer || s.ends != nil || !s.opened {
			s.refused = true
			break
		}
		f := &frames[i]
		if f.At.Offset != 0 {
			s.where.move(f.Channel, f.At)
		}
		s.buf = s.appendEvent(s.buf, f.Bytes)
		taken++
	}
	s.signal()
	return taken
}

// Disconnect implements hub.Carrier. It may be called by anybody, any number of times.
func (s *stream) Disconnect(d push.Disconnect) {
	s.mu.Lock()
	if s.ends == nil {
		s.ends = &d
	}
	s.mu.Unlock()
	s.signal()
}

func (s *stream) signal() {
	select {
	case s.wake <- struct{}{}:
	default:
	}
}
