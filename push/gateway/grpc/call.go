package grpc

import (
	"context"
	"crypto/tls"
	"errors"
	"io"
	"net/http"
	"net/url"
	"runtime/debug"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/encoding"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/peer"
	"google.golang.org/grpc/status"

	"github.com/sluice-push/sluice/push"
	"github.com/sluice-push/sluice/push/gateway"
	"github.com/sluice-push/sluice/push/gateway/clientrpc"
	"github.com/sluice-push/sluice/push/gateway/grpc/rawstream"
	"github.com/sluice-push/sluice/push/gateway/outbox"
	"github.com/sluice-push/sluice/push/protocol"
)

// call is one call of a client, the carrier of the client.
type call struct {
	gateway.Client
	outbox.Outbox

	transport *Transport
	kind      *gateway.Kind
	conn      *conn
	sender    rawstream.Sender // its Send is called by the goroutine of the call
	stream    grpc.ServerStream
	cancel    context.CancelFunc // of the context of the call
	running   atomic.Int32       // goroutines of the call; the last one to end ends the client
	receiving sync.WaitGroup     // the goroutine that receives
	panicked  atomic.Bool        // the goroutine that receives has
}

// Queued implements gateway.Carrier. What is being sent is in flight.
func (c *call) Queued() int { return c.Waiting() + c.sender.InFlight() }

// serve admits a client of a kind, runs its call and returns when it has ended. run begins the outbox and calls pump.
func (t *Transport) serve(stream grpc.ServerStream, kind *gateway.Kind, run func(c *call) error) (err error) {
	ctx := stream.Context()
	from, ok := peer.FromContext(ctx)
	secured, _ := from.AuthInfo.(*security)
	if !ok || secured == nil {
		return status.Error(codes.Internal, "not a connection of this server")
	}
	if err := sendPlain(ctx); err != nil {
		return err
	}
	c := &call{transport: t, kind: kind, conn: secured.conn, stream: stream, cancel: cancelOf(ctx)}
	c.sender.Init(stream, &t.batches, t.gateway.Options().WriteTimeout, c.cancel)
	c.Request = requestOf(ctx, from.Addr.String(), secured.tls)
	c.Init(outbox.Options{
		Framing: gateway.Bare{},
		Ping:    func(dst []byte) []byte { return append(dst, kind.Ping()...) },
		Abort:   c.cancel,
	})
	if err := c.Arrive(t.gateway, kind, c, c.Request); err != nil {
		return endOf(stream, clientrpc.OfNotAdmitted(err))
	}
	t.add(c)
	stop := context.AfterFunc(t.gateway.Context(), c.cancel)
	defer stop()
	c.running.Add(1)
	defer c.leave()
	defer c.awaitReceiver()
	defer c.Outbox.Close() // replies do not wait any more
	defer func() {
		if t.recovered(recover()) {
			err = errorOf(clientrpc.Broken)
		}
	}()
	c.Open()
	return run(c)
}

// sendPlain keeps grpc-go from compressing what is sent, as it does if the client does and something in the process has registered the compression. The
// result would be grpc-go's own memory, which is not counted: see package rawstream.
func sendPlain(ctx context.Context) error { return grpc.SetSendCompressor(ctx, encoding.Identity) }

// awaitReceiver waits for the goroutine that receives, if that ends by itself because the context of the call has ended. grpc-go counts a call as open
// until the goroutine of the call returns. So a client that resets calls as fast as it makes them has no more than mostCalls in any state.
func (c *call) awaitReceiver() {
	if c.stream.Context().Err() != nil {
		c.receiving.Wait()
	}
}

// leave ends the client if the calling goroutine is the last one of the call.
func (c *call) leave() {
	if c.running.Add(-1) > 0 {
		return
	}
	switch {
	case !c.Begun():
		c.Refused()
	case c.transport.gateway.Context().Err() != nil:
		c.Closed(gateway.EndedByShutdown)
	case c.sender.Late():
		c.Closed(gateway.EndedByTimeout)
	default:
		c.Closed(gateway.EndedByClient)
	}
	c.sender.End(c.conn, c.transport.linger())
	c.transport.remove(c)
}

// recovered reports whether there was a panic, and logs it.
func (t *Transport) recovered(v any) bool {
	if v == nil {
		return false
	}
	t.panics.Add(1)
	t.gateway.Options().Logger.Error("panic in the handling of a client", "transport", Name, "panic", v, "stack", string(debug.Stack()))
	return true
}

// pump sends what waits until the call ends, and returns the status of the call. The header goes out at once: a client that waits for it is
// connected then.
func (c *call) pump() error {
	ctx := c.stream.Context()
	c.transport.opened.Add(1)
	if err := c.stream.SendHeader(nil); err != nil {
		return err
	}
	var spare []byte
	for {
		out, ends := c.Take(spare)
		if ends != nil && !c.Told() {
			bye := protocol.Push{Kind: protocol.PushDisconnect, Disconnect: *ends}
			out = c.kind.Encoder().AppendPush(out, &bye)
		}
		c.transport.out.Add(uint64(len(out)))
		var err error
		if spare, err = c.sender.Send(out); err != nil {
			return c.broken()
		}
		if ends != nil {
			c.stream.SetTrailer(metadata.Pairs(clientrpc.DisconnectTrailer, strconv.FormatUint(uint64(ends.Code), 10)))
			return endOf(c.stream, clientrpc.OfEnd(*ends, &c.Client))
		}
		if c.Written() {
			c.Writable()
		}
		select {
		case <-ctx.Done():
			return c.broken()
		case <-c.Wake():
		}
	}
}

// broken returns the status of a call that can send nothing any more.
func (c *call) broken() error {
	switch {
	case c.panicked.Load():
		return errorOf(clientrpc.Broken)
	case c.transport.gateway.Context().Err() != nil:
		return errorOf(clientrpc.CutOff)
	case c.sender.Late():
		return errorOf(clientrpc.TookNothing)
	}
	return errorOf(clientrpc.ClientGone)
}

// receive runs a goroutine that receives commands: most of them, or all if most is 0. Each goes to handle, which borrows it. When the goroutine of
// the call returns, RecvMsg fails. It must not fail earlier: it would write a status of its own.
func (c *call) receive(most int, handle func(m *rawstream.Message)) {
	c.running.Add(1)
	c.receiving.Go(func() { // Shutdown waits for it, by remove
		defer c.leave()
		defer func() {
			if c.transport.recovered(recover()) {
				c.panicked.Store(true)
				c.cancel()
			}
		}()
		var m rawstream.Message
		for n := 0; most == 0 || n < most; n++ {
			if err := c.stream.RecvMsg(&m); err != nil {
				c.receiveFailed(err)
				return
			}
			c.transport.in.Add(uint64(len(m.Frame)))
			handle(&m)
		}
	})
}

// receiveFailed disconnects a client that has sent what is no message, which RecvMsg has told the client already. A client that only has nothing
// more to send stays.
func (c *call) receiveFailed(err error) {
	if errors.Is(err, io.EOF) {
		return
	}
	switch status.Code(err) {
	case codes.Canceled, codes.DeadlineExceeded, codes.Unavailable:
		return // the call has ended
	}
	d := push.DisconnectBadRequest
	d.Reason = status.Convert(err).Message()
	c.Disconnect(d)
}

// receiveFirst receives the only message of a client.
func (c *call) receiveFirst() ([]byte, error) {
	late := time.AfterFunc(c.transport.gateway.Options().ConnectTimeout, c.cancel)
	defer late.Stop()
	var m rawstream.Message
	if err := c.stream.RecvMsg(&m); err != nil {
		return nil, err
	}
	c.transport.in.Add(uint64(len(m.Frame)))
	return m.Body(), nil
}

// requestOf returns a call as an HTTP request, for Options.Authenticate.
func requestOf(ctx context.Context, remote string, state *tls.ConnectionState) *http.Request {
	md, _ := metadata.FromIncomingContext(ctx)
	method, _ := grpc.Method(ctx)
	r := &http.Request{
		Method: http.MethodPost, URL: &url.URL{Path: method}, RequestURI: method, Proto: "HTTP/2.0", ProtoMajor: 2,
		Header: make(http.Header, len(md)), Body: http.NoBody, RemoteAddr: remote, TLS: state,
	}
	for name, values := range md {
		switch {
		case name == ":authority":
			r.Host = strings.Join(values, ",")
		case strings.HasPrefix(name, ":"), strings.HasSuffix(name, "-bin"): // binary values are not those of an HTTP header
		default:
			r.Header[http.CanonicalHeaderKey(name)] = values
		}
	}
	return r
}

// endOf returns the error with which a call ends, and sets the trailers that say when and where the client calls again.
func endOf(stream grpc.ServerStream, s clientrpc.Status) error {
	if ms := s.Pushback(); ms != "" {
		stream.SetTrailer(metadata.Pairs(clientrpc.PushbackTrailer, ms))
	}
	if s.Routes != "" {
		stream.SetTrailer(metadata.Pairs(clientrpc.RoutesTrailer, s.Routes))
	}
	return errorOf(s)
}

func errorOf(s clientrpc.Status) error { return status.Error(s.Code, s.Text) }
