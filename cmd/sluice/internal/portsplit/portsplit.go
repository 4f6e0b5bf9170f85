package portsplit

import (
	"context"
	"crypto/tls"
	"errors"
	"net"
	"slices"
	"sync"
	"time"

	"github.com/sluice-push/sluice/transport"
)

// Options are the settings of a split.
type Options struct {
	// TLS completes the handshakes of connections; nil means without TLS. Its GetConfigForClient is not used.
	TLS *tls.Config
	// Shared leaves everything to net/http, HTTP/2 too. It is for ports behind proxies that speak HTTP/2 to all.
	Shared bool
	// Timeout is how long the first bytes, or a handshake, may take; default 10 s.
	Timeout time.Duration
	// BadHeader is called for each connection that is closed because its PROXY header is missing, late or not valid; nil: nothing is called. Calls may
	// be concurrent.
	BadHeader func()
}

// split is a listener that is split in two.
type split struct {
	Options
	source     net.Listener
	http, grpc *side

	tasks  sync.WaitGroup  // the goroutine that accepts, and those of connections that are not told yet
	ctx    context.Context // ends with the split
	cancel context.CancelFunc
	close  func() error
}

// prelude is a connection with something before the client's bytes, as a [transport.ProxyConn] has: HandshakeContext reads that.
//
// [transport.ProxyConn]: https://pkg.go.dev/github.com/sluice-push/sluice/transport#ProxyConn
type prelude interface {
	HandshakeContext(ctx context.Context) error
}

// New splits a listener. Closing the listener of HTTP closes the source and both sides. After the listener of gRPC is closed, its connections are
// closed when they come. A Close also ends the connections that were not accepted. Errors of the source are returned by Accept of HTTP.
func New(source net.Listener, o Options) (http, grpc net.Listener) {
	if o.Timeout <= 0 {
		o.Timeout = 10 * time.Second
	}
	s := &split{Options: o, source: source}
	s.ctx, s.cancel = context.WithCancel(context.Background())
	s.close = sync.OnceValue(s.closeAll)
	s.http, s.grpc = newSide(source.Addr()), newSide(source.Addr())
	s.http.whenClosed = s.close
	if o.TLS != nil {
		s.TLS = o.TLS.Clone()
		s.TLS.GetConfigForClient = noteOffer
	}
	s.tasks.Go(s.accept)
	return s.http, s.grpc
}

func (s *split) closeAll() error {
	err := s.source.Close()
	s.cancel()
	s.http.shut()
	s.grpc.shut()
	s.tasks.Wait()
	s.http.drain()
	s.grpc.drain()
	return err
}

// accept accepts connections until the source is closed.
func (s *split) accept() {
	for {
		conn, err := s.source.Accept()
		if err != nil {
			if errors.Is(err, net.ErrClosed) || !s.http.fail(err) {
				s.http.shut()
				return
			}
			continue
		}
		if _, waits := conn.(prelude); s.TLS == nil && !waits {
			if to := s.sideOf(conn); to != nil {
				to.deliver(conn)
				continue
			}
		}
		s.tasks.Go(func() { s.decide(conn) })
	}
}

// sideOf returns the side of a connection without TLS, nil if its first bytes have not arrived.
func (s *split) sideOf(conn net.Conn) *side {
	if s.Shared {
		return s.http
	}
	var first [len(preface)]byte
	return s.sideFor(first[:peek(conn, first[:])])
}

// preface is how the preface of HTTP/2 begins, as no method of HTTP/1 does.
const preface = "PRI"

// sideFor returns the side of a connection that begins with some bytes, nil if more have to come.
func (s *split) sideFor(first []byte) *side {
	switch {
	case string(first) != preface[:len(first)]:
		return s.http
	case len(first) == len(preface):
		return s.grpc
	}
	return nil
}

// decide waits until it is known which side a connection belongs to.
func (s *split) decide(conn net.Conn) {
	_ = conn.SetDeadline(time.Now().Add(s.Timeout)) // fails on a connection that is closed, and then so does all else
	stop := context.AfterFunc(s.ctx, func() { _ = conn.Close() })
	to, decided := s.sideAfter(conn)
	if !stop() || to == nil {
		_ = conn.Close()
		return
	}
	_ = conn.SetDeadline(time.Time{})
	to.deliver(decided)
}

// sideAfter reads from a connection until it is known which side it belongs to; nil if it belongs to none.
func (s *split) sideAfter(conn net.Conn) (to *side, decided net.Conn) {
	if p, ok := conn.(prelude); ok && p.HandshakeContext(s.ctx) != nil {
		if s.BadHeader != nil && s.ctx.Err() == nil {
			s.BadHeader()
		}
		return nil, conn
	}
	switch {
	case s.TLS != nil:
		return s.handshake(conn)
	case s.Shared:
		return s.http, conn
	}
	first, decided := await(conn, func(first []byte) bool { return s.sideFor(first) != nil })
	return s.sideFor(first), decided
}

// handshake completes the handshake of a connection. The side is nil if it fails.
func (s *split) handshake(conn net.Conn) (*side, net.Conn) {
	var onlyHTTP2 bool
	secured := transport.ServerTLS(conn, s.TLS)
	if err := secured.HandshakeContext(context.WithValue(s.ctx, offerKey{}, &onlyHTTP2)); err != nil {
		return nil, conn
	}
	if onlyHTTP2 && !s.Shared {
		return s.grpc, secured
	}
	return s.http, secured
}

// offerKey is the key of a *bool in the context of a handshake: whether the client offers only HTTP/2.
type offerKey struct{}

// noteOffer is a tls.Config.GetConfigForClient that notes the offer and leaves the configuration as it is.
func noteOffer(hello *tls.ClientHelloInfo) (*tls.Config, error) {
	if onlyHTTP2, ok := hello.Context().Value(offerKey{}).(*bool); ok {
		*onlyHTTP2 = slices.Equal(hello.SupportedProtos, []string{"h2"})
	}
	return nil, nil
}

// replayConn is a connection of which some bytes have been read. Its Read returns them first.
type replayConn struct {
	net.Conn
	first []byte // owned by the goroutine that reads
}

// Read implements net.Conn.
func (c *replayConn) Read(p []byte) (int, error) {
	if len(c.first) == 0 {
		return c.Conn.Read(p)
	}
	n := copy(p, c.first)
	c.first = c.first[n:]
	return n, nil
}

// NetConn returns the connection below.
func (c *replayConn) NetConn() net.Conn { return c.Conn }

// readUntil reads the first bytes of a connection until they suffice. The connection that it returns has them too.
func readUntil(conn net.Conn, enough func(first []byte) bool) ([]byte, net.Conn) {
	var first []byte
	for !enough(first) {
		var next [1]byte
		if _, err := conn.Read(next[:]); err != nil {
			return nil, conn
		}
		first = append(first, next[0])
	}
	return first, &replayConn{Conn: conn, first: first}
}
