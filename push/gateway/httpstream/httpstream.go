// Package httpstream has the transports of clients that listen to the body of an HTTP response: lines of JSON, or Protobuf messages with their
// length before them. They work where WebSocket does not, and with any HTTP client that can read a response while it comes.
//
// With http_stream the body of the request is the first commands, the response has replies and pushes, and more commands come to
// gateway.EmulationPath. With uni_http_stream a client only listens: the body is a connect request in JSON, and the response has pushes.
package httpstream

import (
	"context"
	"mime"
	"net/http"

	"github.com/sluice-push/sluice/push"
	"github.com/sluice-push/sluice/push/gateway"
	"github.com/sluice-push/sluice/push/gateway/stream"
	"github.com/sluice-push/sluice/push/protocol"
)

// Where clients connect, and the names of the metrics.
const (
	Path       = "/connection/http_stream"
	Name       = "http_stream"
	OneWayPath = "/connection/uni_http_stream"
	OneWayName = "uni_http_stream"
)

// protobufType is the content type of the Protobuf form, in both directions.
const protobufType = "application/octet-stream"

// transport is the [gateway.HTTPTransport] of both.
type transport struct {
	*stream.Transport
	gateway *gateway.Gateway
	// The kinds, and the headers of their responses.
	json, protobuf             *gateway.Kind // protobuf is nil with clients that only listen
	jsonHeader, protobufHeader http.Header
}

// New returns the transport of clients that send commands beside their stream, for [gateway.New]. It uses the options FrameBytes and those of
// [stream.NewTransport].
func New(g *gateway.Gateway) gateway.Transport {
	t := &transport{
		gateway:  g,
		json:     gateway.NewKind(gateway.Encoder{Form: gateway.JSON{}, Framing: lines{}}, gateway.Emulated),
		protobuf: gateway.NewKind(gateway.Encoder{Form: gateway.Protobuf{}, Framing: gateway.Bare{}}, gateway.Emulated),
	}
	t.jsonHeader, t.protobufHeader = header("application/json"), header(protobufType)
	t.Transport = stream.NewTransport(g, Name, []string{"POST " + Path}, t.json, t.protobuf)
	return t
}

// NewOneWay returns the transport of clients that only listen, for [gateway.New]. It uses the options MessageBytes and those of
// [stream.NewTransport].
func NewOneWay(g *gateway.Gateway) gateway.Transport {
	t := &transport{gateway: g, json: gateway.NewKind(gateway.Encoder{Form: gateway.JSON{Bare: true}, Framing: lines{}}, gateway.OneWay)}
	t.jsonHeader = header("application/json")
	t.Transport = stream.NewTransport(g, OneWayName, []string{"POST " + OneWayPath}, t.json)
	return t
}

// header returns the header of a response with a content type. No proxy is to hold the body back, nor to keep it.
func header(contentType string) http.Header {
	return http.Header{"Content-Type": {contentType}, "Cache-Control": {"no-store"}, "X-Accel-Buffering": {"no"}}
}

// ServeHTTP serves a stream until it ends.
func (t *transport) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if !t.Allow(w, r) {
		return
	}
	body, ok := t.gateway.ReadBody(w, r, t.gateway.Options().FrameBytes)
	if !ok {
		return
	}
	if t.protobuf == nil {
		t.serveOneWay(w, r, body)
		return
	}
	kind, header := t.json, t.jsonHeader
	if contentType, _, _ := mime.ParseMediaType(r.Header.Get("Content-Type")); contentType == protobufType {
		kind, header = t.protobuf, t.protobufHeader
	}
	if len(body) == 0 {
		t.Refuse(w, r, http.StatusBadRequest, "the body has to be the connect command: a client that only listens connects to "+OneWayPath)
		return
	}
	t.Serve(w, r, &stream.Options{MayCompress: true, Kind: kind, Header: header, Begin: func(s *stream.Stream) bool {
		s.Begin(nil)
		s.Enqueue(body) // there is room in an empty inbox
		return true
	}})
}

// serveOneWay serves a client whose connect request is the body; none is an empty one.
func (t *transport) serveOneWay(w http.ResponseWriter, r *http.Request, body []byte) {
	connect, err := gateway.ParseConnect(body)
	if err != nil {
		t.Refuse(w, r, http.StatusBadRequest, "connect request: "+err.Error())
		return
	}
	t.Serve(w, r, &stream.Options{MayCompress: true, Kind: t.json, Header: t.jsonHeader, Begin: func(s *stream.Stream) bool {
		limited, cancel := context.WithTimeout(s.Context(), t.gateway.Options().CommandTimeout)
		defer cancel()
		told, err := s.Connect(limited, connect, func(string, push.Position) {})
		if err != nil {
			s.Reject(err)
			return false
		}
		s.Begin(func(dst []byte) []byte {
			return t.json.Encoder().AppendPush(dst, &protocol.Push{Kind: protocol.PushConnect, Connect: told})
		})
		return true
	}})
}

// messageBytes is up to about how large a frame of several publications is.
const messageBytes = 32 << 10

// lines ends each message with a line end: the form separates those of one frame.
type lines struct{}

func (lines) FrameBytes() int { return messageBytes }

func (lines) Begin(dst []byte) []byte { return dst }

func (lines) Finish(dst []byte, _ int) []byte { return append(dst, '\n') }
