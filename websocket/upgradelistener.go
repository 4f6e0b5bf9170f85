package websocket

import (
	"bufio"
	"bytes"
	"io"
	"log/slog"
	"net"
	"net/http"
	"runtime/debug"
	"strconv"
	"syscall"
	"time"
)

// maxUpgradeRequest is the size in bytes of the largest request that an upgrade listener reads itself.
const maxUpgradeRequest = 4 << 10

// refusalTimeout bounds the write of an upgrade handler's refusal.
const refusalTimeout = time.Second

// NewUpgradeListener returns a listener for a net/http server. Its Accept serves WebSocket requests in place, on the accepting
// goroutine, and returns every other connection to net/http. In place, an upgrade needs neither the goroutine nor the 12 KiB of buffers
// that net/http allocates for each connection, which matters when thousands of clients reconnect at the same time:
//
//	mux.Handle("/live", live) // requests that are not served in place
//	ln = websocket.NewUpgradeListener(ln, func(r *http.Request) http.Handler {
//		if r.URL.Path != "/live" {
//			return nil
//		}
//		return live
//	}, nil)
//	err := http.Serve(ln, mux)
//
// The function choose gets one request at a time and returns its handler, or nil to leave the connection to net/http. Accept waits for
// both choose and the handler, so neither may block. [Server.ServeHTTP] does not block.
//
// A request is served in place if all of the following hold. It is complete when the connection is accepted, it has at most 4 KiB, no byte
// follows it, and it is written so plainly that net/http would read it in the same way (RFC 9112). Every other connection is returned
// untouched, so that net/http applies its own limits and refusals. In-place upgrades work on Linux with connections of type
// *net.TCPConn. If ln is a *net.TCPListener, or gives access to the socket of one as a syscall.Conn, the kernel holds a new connection back for
// up to a second until its first bytes have arrived (TCP_DEFER_ACCEPT).
//
// A handler that panics loses its connection, and log gets a record; a nil log is [slog.Default]. Only one goroutine may call Accept.
func NewUpgradeListener(ln net.Listener, choose func(r *http.Request) http.Handler, log *slog.Logger) net.Listener {
	if socket, ok := ln.(syscall.Conn); ok {
		deferAccept(socket)
	}
	if log == nil {
		log = slog.Default()
	}
	return &upgradeListener{Listener: ln, choose: choose, log: log, reader: bufio.NewReaderSize(nil, maxUpgradeRequest)}
}

type upgradeListener struct {
	net.Listener
	choose func(r *http.Request) http.Handler
	log    *slog.Logger

	// Owned by the goroutine in Accept.
	peeked [maxUpgradeRequest]byte
	reader *bufio.Reader
}

// Accept returns the next connection that was not served in place.
func (l *upgradeListener) Accept() (net.Conn, error) {
	for {
		conn, err := l.Listener.Accept()
		if err != nil {
			return nil, err
		}
		tcp, ok := conn.(*net.TCPConn)
		if !ok || !l.serveInPlace(tcp) {
			return conn, nil
		}
	}
}

// serveInPlace reports whether it served a connection, which then belongs to the handler or is closed.
func (l *upgradeListener) serveInPlace(conn *net.TCPConn) bool {
	n := peek(conn, l.peeked[:])
	r := l.parse(l.peeked[:n])
	if r == nil {
		return false
	}
	h := l.choose(r)
	if h == nil {
		return false
	}
	r.RemoteAddr = conn.RemoteAddr().String()
	if _, err := io.ReadFull(conn, l.peeked[:n]); err != nil {
		_ = conn.Close() // the peer has reset the connection
		return true
	}
	l.call(h, conn, r)
	return true
}

// call runs the handler and finishes its response. If the handler panics, call closes the connection and logs the panic.
func (l *upgradeListener) call(h http.Handler, conn net.Conn, r *http.Request) {
	defer func() {
		if v := recover(); v != nil {
			_ = conn.Close() // the handler may have closed it
			l.log.Error("websocket: upgrade handler panicked", "remote", r.RemoteAddr, "panic", v, "stack", string(debug.Stack()))
		}
	}()
	w := &inPlaceWriter{conn: conn, header: http.Header{}}
	h.ServeHTTP(w, r)
	w.finish()
}

var (
	getMethod    = []byte("GET ")
	upgradeField = []byte("\r\nupgrade: websocket\r\n")
	endOfHead    = []byte("\r\n\r\n")
)

// parse returns the request in text. The result is nil unless text is exactly one plain WebSocket request.
func (l *upgradeListener) parse(text []byte) *http.Request {
	if !bytes.HasPrefix(text, getMethod) || bytes.Index(text, endOfHead) != len(text)-len(endOfHead) {
		return nil
	}
	if !bytes.Contains(bytes.ToLower(text), upgradeField) || !isPlain(text) {
		return nil
	}
	l.reader.Reset(bytes.NewReader(text))
	r, err := http.ReadRequest(l.reader)
	if err != nil || r.ContentLength != 0 || len(r.TransferEncoding) > 0 || r.ProtoMajor != 1 || r.ProtoMinor != 1 {
		return nil
	}
	return r
}

// inPlaceWriter is the ResponseWriter of an in-place upgrade. It holds the response back until the handler has returned, and lets the
// handler hijack the connection.
type inPlaceWriter struct {
	conn     net.Conn
	header   http.Header
	status   int
	body     bytes.Buffer
	hijacked bool
}

func (w *inPlaceWriter) Header() http.Header { return w.header }

func (w *inPlaceWriter) WriteHeader(status int) {
	if w.status == 0 {
		w.status = status
	}
}

func (w *inPlaceWriter) Write(p []byte) (int, error) {
	w.WriteHeader(http.StatusOK)
	return w.body.Write(p)
}

// Hijack implements http.Hijacker.
func (w *inPlaceWriter) Hijack() (net.Conn, *bufio.ReadWriter, error) {
	if w.hijacked {
		return nil, nil, http.ErrHijacked
	}
	w.hijacked = true
	return w.conn, bufio.NewReadWriter(bufio.NewReaderSize(w.conn, 16), nil), nil
}

// finish sends the response and closes the connection, unless the handler has hijacked the connection.
func (w *inPlaceWriter) finish() {
	if w.hijacked {
		return
	}
	w.WriteHeader(http.StatusOK)
	w.header.Set("Content-Length", strconv.Itoa(w.body.Len()))
	r := http.Response{
		StatusCode: w.status, ProtoMajor: 1, ProtoMinor: 1, Header: w.header, Close: true,
		Body: io.NopCloser(&w.body), ContentLength: int64(w.body.Len()),
	}
	_ = w.conn.SetWriteDeadline(time.Now().Add(refusalTimeout)) // the connection ends in any case
	_ = r.Write(w.conn)
	_ = w.conn.Close()
}
