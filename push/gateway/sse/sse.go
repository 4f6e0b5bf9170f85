// Package sse has the transports of server-sent events (HTML standard, section 9.2).
//
// With uni_sse a client only listens: the query parameter cf_connect is a connect request in JSON, and the events are pushes. It needs no SDK. With
// sse, cf_connect is the first commands, the events are replies and pushes, and more commands come to gateway.EmulationPath.
//
// The id of an event of uni_sse is the client's position in all its channels, so that an EventSource that connects again goes on where it was. A
// position of more than 128 bytes, which takes some 40 channels, comes when as many bytes have been sent without one, or with a ping: after a
// cut the client gets again what came since, which the offsets show. A position of more than [MaxID] bytes cannot be told. The id is
// then [LostID]: the client begins afresh, and learns that it was recovering and has not recovered.
package sse

import (
	"context"
	"fmt"
	"maps"
	"net/http"
	"slices"

	"github.com/sluice-push/sluice/push"
	"github.com/sluice-push/sluice/push/gateway"
	"github.com/sluice-push/sluice/push/gateway/stream"
	"github.com/sluice-push/sluice/push/hub"
	"github.com/sluice-push/sluice/push/protocol"
)

// maxQuery is the longest query of a stream. It is less than servers take of a request, so that a browser whose first request is taken is not
// refused when it comes back, with a Last-Event-ID: after a refusal it would never try again.
const maxQuery = 48 << 10

// Where clients connect, and the names of the metrics.
const (
	OneWayPath = "/connection/uni_sse"
	OneWayName = "uni_sse"
	Path       = "/connection/sse"
	Name       = "sse"
)

// transport is the [gateway.HTTPTransport] of both.
type transport struct {
	*stream.Transport
	gateway *gateway.Gateway
	kind    *gateway.Kind
	serve   func(t *transport, w http.ResponseWriter, r *http.Request)
}

// NewOneWay returns the transport of clients that only listen, for [gateway.New]. It uses the options of [stream.NewTransport].
func NewOneWay(g *gateway.Gateway) gateway.Transport {
	kind := gateway.NewKind(gateway.Encoder{Form: gateway.JSON{Bare: true}, Framing: framing{}}, gateway.OneWay)
	return newTransport(g, OneWayName, OneWayPath, kind, serveOneWay)
}

// New returns the transport of clients that send commands beside their stream, for [gateway.New]. It uses the options of [stream.NewTransport].
func New(g *gateway.Gateway) gateway.Transport {
	kind := gateway.NewKind(gateway.Encoder{Form: gateway.JSON{}, Framing: framing{}}, gateway.Emulated)
	return newTransport(g, Name, Path, kind, serveTwoWay)
}

func newTransport(g *gateway.Gateway, name, path string, k *gateway.Kind, serve func(*transport, http.ResponseWriter, *http.Request)) *transport {
	return &transport{Transport: stream.NewTransport(g, name, []string{"GET " + path}, k), gateway: g, kind: k, serve: serve}
}

// ServeHTTP serves a stream until it ends.
func (t *transport) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if r.Method != http.MethodGet { // the pattern lets HEAD through, to which nothing could be streamed
		w.Header().Set("Allow", http.MethodGet)
		gateway.Refuse(w, r, http.StatusMethodNotAllowed, "use GET")
		return
	}
	if !t.Allow(w, r) {
		return
	}
	if r.ContentLength > 0 || r.ContentLength < 0 && r.ProtoMajor < 2 { // over HTTP/2 a proxy may end a request without a body by a frame of its own
		t.Refuse(w, r, http.StatusBadRequest, "the request has a body: connect with cf_connect in the query")
		return
	}
	if n := len(r.URL.RawQuery); n > maxQuery {
		t.Refuse(w, r, http.StatusRequestURITooLong, fmt.Sprintf("the query has %d bytes, at most %d are allowed: request fewer channels, "+
			"or use WebSocket", n, maxQuery))
		return
	}
	t.serve(t, w, r)
}

// serveTwoWay serves a client whose first commands are in the query. Its replies are events, errors too.
func serveTwoWay(t *transport, w http.ResponseWriter, r *http.Request) {
	commands := r.URL.Query().Get("cf_connect")
	if commands == "" || len(commands) > t.gateway.Options().FrameBytes {
		t.Refuse(w, r, http.StatusBadRequest, "cf_connect has to be the connect command, and no longer than a frame of commands: "+
			"a client that only listens connects to "+OneWayPath)
		return
	}
	t.Serve(w, r, &stream.Options{MayCompress: true, Kind: t.kind, Header: header(), Begin: func(s *stream.Stream) bool {
		s.Begin(nil)
		s.Enqueue([]byte(commands)) // there is room in an empty inbox
		return true
	}})
}

// serveOneWay serves a client whose connect request is in the query.
func serveOneWay(t *transport, w http.ResponseWriter, r *http.Request) {
	connect, err := connectOf(r)
	if err != nil {
		t.Refuse(w, r, http.StatusBadRequest, "cf_connect: "+err.Error())
		return
	}
	var p position
	t.Serve(w, r, &stream.Options{MayCompress: true, Kind: t.kind, Header: header(), Frame: p.frame, Ping: p.ping, Begin: func(s *stream.Stream) bool {
		limited, cancel := context.WithTimeout(s.Context(), t.gateway.Options().CommandTimeout)
		defer cancel()
		told, err := s.Connect(limited, connect, func(channel string, at push.Position) {
			s.Lock().Lock()
			defer s.Lock().Unlock()
			p.where.move(channel, at)
		})
		if err != nil {
			s.Reject(err)
			return false
		}
		hello := t.kind.Encoder().AppendPush(nil, &protocol.Push{Kind: protocol.PushConnect, Connect: told})
		s.Begin(func(dst []byte) []byte { return p.event(gateway.AppendRetry(dst), hello) })
		return true
	}})
}

func header() http.Header {
	h := http.Header{}
	gateway.EventHeader(h)
	return h
}

// connectOf reads the connect request of a one-way client from the query; none is an empty one. Positions in the Last-Event-ID,
// with which a browser connects again by itself, beat those of the URL, which it repeats unchanged.
func connectOf(r *http.Request) (*protocol.ConnectRequest, error) {
	connect, err := gateway.ParseConnect([]byte(r.URL.Query().Get("cf_connect")))
	if err != nil {
		return nil, err
	}
	last := r.Header.Get("Last-Event-ID")
	if last == "" {
		last = r.URL.Query().Get("lastEventId") // of polyfills that may not set the header (Yaffle/EventSource)
	}
	for name, at := range parseVector(last, slices.Sorted(maps.Keys(connect.Subs))) {
		if sub, ok := connect.Subs[name]; ok {
			sub.Recover, sub.Position = true, at
			connect.Subs[name] = sub
		}
	}
	return connect, nil
}

// position is what a one-way client has been told of its position. It belongs to the lock of the stream's outbox.
type position struct {
	where vector
	// What has been said since the last id, and how long that was, in bytes.
	unmarked, idBytes int
}

// frame appends a frame of the hub, with the position that the client has then.
func (p *position) frame(dst []byte, f *hub.Frame) []byte {
	if f.At.Offset != 0 {
		p.where.move(f.Channel, f.At)
	}
	return p.event(dst, f.Bytes)
}

// ping appends the ping, with the client's position if the events before it did not say that.
func (p *position) ping(dst []byte) []byte {
	if p.unmarked > 0 {
		dst = p.id(dst)
	}
	return append(dst, "data: {}\n\n"...)
}

// event appends an event with the client's position as its id. A long id is left out until as much has been said without one: a client that comes
// back then is told again what came since. When there can be no id the client is given one that says so, so that it learns of its loss when it
// comes back.
func (p *position) event(dst, event []byte) []byte {
	p.unmarked += len(event) - eventBytes
	if p.unmarked >= p.idBytes || p.idBytes <= plainVector {
		dst = p.id(dst)
	}
	return append(dst, event...)
}

// id appends the line with the client's position, when that is not what was said last.
func (p *position) id(dst []byte) []byte {
	start := len(dst)
	if len(p.where.parts) == 0 {
		return dst
	}
	dst = append(dst, "id: "...)
	if dst = p.where.append(dst); len(dst) == start+len("id: ") {
		dst = append(dst, LostID...)
	}
	p.unmarked, p.idBytes = 0, len(dst)-start
	return append(dst, '\n')
}

// eventBytes is what an event has besides its data.
const eventBytes = len("data: \n\n")

// framing makes an event of one message. Messages have no line ends.
type framing struct{}

func (framing) FrameBytes() int { return 0 }

func (framing) Begin(dst []byte) []byte { return append(dst, "data: "...) }

func (framing) Finish(dst []byte, _ int) []byte { return append(dst, "\n\n"...) }
