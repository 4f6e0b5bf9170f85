package connect

import (
	"context"
	"errors"
	"io"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"connectrpc.com/connect"
	"google.golang.org/grpc/codes"
	"google.golang.org/protobuf/encoding/protowire"

	"github.com/sluice-push/sluice/push"
	"github.com/sluice-push/sluice/push/compression"
	"github.com/sluice-push/sluice/push/gateway"
	"github.com/sluice-push/sluice/push/gateway/clientrpc"
	"github.com/sluice-push/sluice/push/gateway/stream"
	"github.com/sluice-push/sluice/push/protocol"
	"github.com/sluice-push/sluice/push/protocol/protobuf/clientv1/clientv1connect"
	"github.com/sluice-push/sluice/push/protocol/protobuf/unistream/unistreamconnect"
)

// Name is the name of the metrics.
const Name = "connect"

// exposed are the headers of responses that pages may read.
const exposed = "Grpc-Status, Grpc-Message, Grpc-Status-Details-Bin, Connect-Content-Encoding, Retry-After, " +
	clientrpc.PushbackTrailer + ", " + clientrpc.DisconnectTrailer + ", " + clientrpc.RoutesTrailer

// transport is the [gateway.HTTPTransport].
type transport struct {
	*stream.Transport
	gateway  *gateway.Gateway
	handlers map[string]http.Handler // by path

	twoWay, emulated, oneWay forms
}

// forms are the kinds of clients that use a method, by form; the second ones are of clients that accept compressed messages.
type forms struct{ binary, json, packedBinary, packedJSON *gateway.Kind }

func newForms(way gateway.Way) forms {
	f := gateway.Protobuf{Bare: way == gateway.OneWay}
	kind := func(form gateway.Form, e envelope) *gateway.Kind {
		return gateway.NewKind(gateway.Encoder{Form: form, Framing: e}, way)
	}
	return forms{
		binary: kind(f, envelope{}), packedBinary: kind(f, envelope{compresses: true}),
		json: kind(jsonForm{f}, envelope{}), packedJSON: kind(jsonForm{f}, envelope{compresses: true}),
	}
}

// all returns the kinds.
func (f forms) all() []*gateway.Kind {
	return []*gateway.Kind{f.binary, f.json, f.packedBinary, f.packedJSON}
}

// of returns the kind of the client that has sent a request. connect-go has written the header of the response, which says whether messages may be
// compressed.
func (f forms) of(x *exchange) *gateway.Kind {
	contentType, _, _ := strings.Cut(x.r.Header.Get("Content-Type"), ";")
	isJSON := strings.HasSuffix(strings.TrimSpace(contentType), "json")
	h := x.w.Header()
	switch isPacked := h.Get("Connect-Content-Encoding") == "gzip" || h.Get("Grpc-Encoding") == "gzip"; {
	case isPacked && isJSON:
		return f.packedJSON
	case isPacked:
		return f.packedBinary
	case isJSON:
		return f.json
	}
	return f.binary
}

// New returns the transport, for [gateway.New]. It uses the options FrameBytes, ConnectTimeout and those of [stream.NewTransport].
func New(g *gateway.Gateway) gateway.Transport {
	t := &transport{
		gateway: g, twoWay: newForms(gateway.TwoWay), emulated: newForms(gateway.Emulated), oneWay: newForms(gateway.OneWay),
	}
	var newDecompressor func() connect.Decompressor // without it, connect-go refuses what is compressed
	var newCompressor func() connect.Compressor
	if g.Options().Compression {
		most := g.Options().FrameBytes + 1 // connect-go tells by one byte more that a message is too large, and would inflate all the rest to learn its size
		newDecompressor = func() connect.Decompressor { return compression.NewDecompressor(most) }
		newCompressor = func() connect.Compressor { return new(compression.Compressor) }
	}
	options := connect.WithHandlerOptions(
		connect.WithCodec(binaryCodec{}), connect.WithCodec(jsonCodec{"json"}), connect.WithCodec(jsonCodec{"json; charset=utf-8"}),
		connect.WithReadMaxBytes(g.Options().FrameBytes),
		connect.WithCompression("gzip", newDecompressor, newCompressor),
		connect.WithCompressMinBytes(compression.Threshold),
	)
	t.handlers = map[string]http.Handler{
		clientv1connect.ClientConnectProcedure: connect.NewBidiStreamHandler(clientv1connect.ClientConnectProcedure, t.connect, options),
		clientv1connect.ClientConsumeProcedure: connect.NewServerStreamHandler(clientv1connect.ClientConsumeProcedure, t.consume, options),
		clientv1connect.ClientSendProcedure:    connect.NewUnaryHandler(clientv1connect.ClientSendProcedure, t.send, options),
		unistreamconnect.CentrifugoUniStreamConsumeProcedure: connect.NewServerStreamHandler(
			unistreamconnect.CentrifugoUniStreamConsumeProcedure, t.listen, options),
	}
	var patterns []string
	for path := range t.handlers {
		patterns = append(patterns, "POST "+path)
	}
	t.Transport = stream.NewTransport(g, Name, patterns, slices.Concat(t.twoWay.all(), t.emulated.all(), t.oneWay.all())...)
	return t
}

// Paths returns the prefixes of the paths of the services, for a mux that does not know the patterns.
func Paths() []string {
	return []string{"/" + clientv1connect.ClientName + "/", "/" + unistreamconnect.CentrifugoUniStreamName + "/"}
}

// exchange is a request that is being served. It travels in the context of the call.
type exchange struct {
	w    http.ResponseWriter
	r    *http.Request
	body *clientBody
	// understood says that the request has come to the function that serves its method: connect-go has refused it otherwise.
	understood bool
}

// exchangeKey is the key of the exchange.
type exchangeKey struct{}

// exchangeOf returns the exchange of a call, which ServeHTTP has put there.
func exchangeOf(ctx context.Context) *exchange {
	return ctx.Value(exchangeKey{}).(*exchange) //nolint:forcetypeassert // all have one
}

// ServeHTTP serves a call until it ends.
func (t *transport) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if !t.Allow(w, r) {
		return
	}
	if r.Header.Get("Origin") != "" {
		w.Header().Set("Access-Control-Expose-Headers", exposed)
	}
	if text, inBytes, ok := newTextCall(w, r); ok {
		w, r = text, inBytes
		defer text.begin() // if nothing was written, the header still has the status
	}
	x := &exchange{w: w, r: r, body: &clientBody{ReadCloser: r.Body}}
	r.Body = x.body
	if r.URL.Path == clientv1connect.ClientConnectProcedure { // the body goes on as long as the client does, which the heartbeat watches
		_ = http.NewResponseController(w).SetReadDeadline(time.Time{}) // where it is not supported, the server bounds it
	}
	t.handlers[r.URL.Path].ServeHTTP(w, r.WithContext(context.WithValue(r.Context(), exchangeKey{}, x)))
	if !x.understood {
		t.gateway.RequestRefused()
	}
}

// consume serves a client that sends its first command in its call, and more by Send.
func (t *transport) consume(ctx context.Context, request *connect.Request[command], out *connect.ServerStream[message]) error {
	x := exchangeOf(ctx)
	x.understood = true
	return t.serve(x, t.emulated.of(x), out.Conn(), nil, func(s *stream.Stream) error {
		s.Begin(nil)
		s.Enqueue(frameOf(request.Msg.data)) // there is room in an empty inbox
		return nil
	})
}

// send passes commands to a client of consume.
func (t *transport) send(ctx context.Context, request *connect.Request[commands]) (*connect.Response[nothing], error) {
	exchangeOf(ctx).understood = true
	if s := clientrpc.Send(ctx, t.gateway, request.Msg.data); s.Code != codes.OK {
		return nil, errorOf(s)
	}
	return connect.NewResponse(new(nothing)), nil
}

// connect serves a client that sends commands in its call. A client that has nothing more to send goes on listening.
func (t *transport) connect(ctx context.Context, in *connect.BidiStream[command, message]) error {
	x := exchangeOf(ctx)
	x.understood = true
	var reading sync.WaitGroup
	stop := func() {
		x.body.closed.Store(true)
		_ = x.body.Close() // ends a read
		reading.Wait()
	}
	return t.serve(x, t.twoWay.of(x), in.Conn(), stop, func(s *stream.Stream) error {
		s.Begin(nil)
		reading.Go(func() { t.read(s, in, x.body) })
		return nil
	})
}

// clientBody is the body of a client's call. It notes that reading has failed, as it does when the stream of HTTP/2 was reset or the connection is
// gone, and not when the client has sent what is no message. net/http ends the context of the request after that, not before.
type clientBody struct {
	io.ReadCloser

	failed atomic.Bool
	closed atomic.Bool // by the node, which ends the call
}

// Read implements io.Reader.
func (b *clientBody) Read(p []byte) (n int, err error) {
	if n, err = b.ReadCloser.Read(p); err != nil && !errors.Is(err, io.EOF) {
		b.failed.Store(true)
	}
	return n, err
}

// read passes commands on until there are no more.
func (t *transport) read(s *stream.Stream, in *connect.BidiStream[command, message], body *clientBody) {
	defer func() { s.Recovered(recover()) }()
	for {
		m, err := in.Receive()
		switch {
		case err == nil:
			s.Message(frameOf(m.data))
			continue
		case errors.Is(err, io.EOF), body.closed.Load(), body.failed.Load() && ends(s.Context()):
			return
		}
		d := push.DisconnectBadRequest
		d.Reason = err.Error()
		s.Disconnect(d) // without effect if the stream has ended
		return
	}
}

// ends reports whether a context is done, or will be very soon.
func ends(ctx context.Context) bool {
	timer := time.NewTimer(time.Second)
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return true
	case <-timer.C:
		return false
	}
}

// listen serves a client that only listens.
func (t *transport) listen(ctx context.Context, request *connect.Request[oneWayStart], out *connect.ServerStream[message]) error {
	x := exchangeOf(ctx)
	x.understood = true
	first, err := clientrpc.DecodeConnect(request.Msg.data)
	if err != nil {
		t.gateway.RequestRefused()
		return connect.NewError(connect.CodeInvalidArgument, err)
	}
	kind := t.oneWay.of(x)
	return t.serve(x, kind, out.Conn(), nil, func(s *stream.Stream) error {
		limited, cancel := context.WithTimeout(s.Context(), t.gateway.Options().CommandTimeout)
		defer cancel()
		told, err := s.Connect(limited, first, func(string, push.Position) {})
		if err != nil {
			t.gateway.ClientRefused()
			return t.refused(s, err)
		}
		s.Begin(func(dst []byte) []byte {
			return kind.Encoder().AppendPush(dst, &protocol.Push{Kind: protocol.PushConnect, Connect: told})
		})
		return nil
	})
}

// refused returns the error of a client whose connect request was refused.
func (t *transport) refused(s *stream.Stream, err error) error {
	if s.Context().Err() != nil {
		return errorOf(clientrpc.ClientGone) // one side is gone, which may well be the error
	}
	status, unexpected := clientrpc.OfRefused(err)
	if unexpected {
		t.gateway.Options().Logger.Error("client failed to connect", "transport", Name, "error", err)
	}
	return errorOf(status)
}

// serve runs the stream of a client and returns the error with which its call ends. begin begins the stream, or returns that error.
func (t *transport) serve(x *exchange, kind *gateway.Kind, out connect.StreamingHandlerConn, stop func(), begin func(s *stream.Stream) error) error {
	var s *stream.Stream
	var err error
	w := &opener{ResponseWriter: x.w, open: func() { _ = out.Send(nil) }} // if that fails, so does what is written next
	t.Serve(w, x.r, &stream.Options{
		Kind: kind,
		Begin: func(of *stream.Stream) bool {
			s = of
			err = begin(s)
			return err == nil
		},
		Refuse: func(reason error) { err = errorOf(clientrpc.OfNotAdmitted(reason)) },
		Stop:   stop,
	})
	if err != nil {
		t.limitEnd(x)
		return err
	}
	if why := s.Why(); why != nil {
		t.limitEnd(x)
		e := errorOf(clientrpc.OfEnd(*why, &s.Client))
		e.Meta().Set(clientrpc.DisconnectTrailer, strconv.FormatUint(uint64(why.Code), 10))
		return e
	}
	switch {
	case t.gateway.Context().Err() != nil:
		return errorOf(clientrpc.CutOff)
	case s.Late():
		return errorOf(clientrpc.TookNothing)
	}
	return errorOf(clientrpc.ClientGone)
}

// limitEnd bounds the time in which connect-go writes the end of a call.
func (t *transport) limitEnd(x *exchange) {
	if d := t.gateway.Options().WriteTimeout; d > 0 && t.gateway.Context().Err() == nil {
		_ = http.NewResponseController(x.w).SetWriteDeadline(time.Now().Add(d)) // where it is not supported, the client bounds it
	}
}

// opener is a response whose header connect-go writes.
type opener struct {
	http.ResponseWriter
	open func()
}

// WriteHeader implements http.ResponseWriter.
func (o *opener) WriteHeader(int) { o.open() }

// Unwrap is for http.ResponseController.
func (o *opener) Unwrap() http.ResponseWriter { return o.ResponseWriter }

// frameOf returns a frame with one command.
func frameOf(command []byte) []byte { return protowire.AppendBytes(nil, command) }

// errorOf returns the error with which a call ends. Clients of gRPC-Web read the time after which they call again as those of gRPC do, clients of
// Connect as those of HTTP do.
func errorOf(s clientrpc.Status) *connect.Error {
	e := connect.NewError(connect.Code(s.Code), errors.New(s.Text))
	if s.Wait > 0 {
		e.Meta().Set(clientrpc.PushbackTrailer, s.Pushback())
		e.Meta().Set("Retry-After", gateway.RetryAfter(s.Wait))
	}
	if s.Routes != "" {
		e.Meta().Set(clientrpc.RoutesTrailer, s.Routes)
	}
	return e
}
