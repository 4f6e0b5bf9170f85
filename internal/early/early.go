// Package early handles the first request of a connection where the connection is accepted, before a net/http server takes it over. The
// server costs a goroutine and 12 KiB of garbage for a connection that is upgraded at once, which counts when thousands come back
// at the same time.
//
// Nothing is taken from a connection unless its request is whole, alone, small and one that the handler wants: all others are handed on as they
// came, so that they are read, bounded and refused as ever. On systems other than Linux all are handed on.
package early

import (
	"bufio"
	"bytes"
	"io"
	"log/slog"
	"net"
	"net/http"
	"runtime/debug"
	"strconv"
	"time"
)

// maxRequest is how large a request may be that is looked at, in bytes.
const maxRequest = 4 << 10

// patience is how long a client may take to receive a refusal.
const patience = time.Second

// Wanted returns the handler of a request, nil to hand its connection on. It is called by the goroutine that accepts, one request at a
// time. The handler is, too: it has to answer or to take the connection over without waiting for anything.
type Wanted func(r *http.Request) http.Handler

// Listen returns a listener whose Accept handles the connections whose first request is wanted, and returns the others. Only one goroutine may
// accept. A handler that panics is written to the log, and costs its connection, as it would in net/http.
func Listen(ln net.Listener, wanted Wanted, log *slog.Logger) net.Listener {
	if tcp, ok := ln.(*net.TCPListener); ok {
		await(tcp)
	}
	return &listener{Listener: ln, wanted: wanted, log: log, reader: bufio.NewReaderSize(nil, maxRequest)}
}

type listener struct {
	net.Listener
	wanted Wanted
	log    *slog.Logger
	held   [maxRequest]byte
	reader *bufio.Reader
}

// Accept returns the next connection that was not handled.
func (l *listener) Accept() (net.Conn, error) {
	for {
		conn, err := l.Listener.Accept()
		if err != nil {
			return nil, err
		}
		tcp, ok := conn.(*net.TCPConn)
		if !ok || !l.handle(tcp) {
			return conn, nil
		}
	}
}

// handle reports whether it handled a connection.
func (l *listener) handle(conn *net.TCPConn) bool {
	n := peek(conn, l.held[:])
	r := l.parse(l.held[:n])
	if r == nil {
		return false
	}
	h := l.wanted(r)
	if h == nil {
		return false
	}
	r.RemoteAddr = conn.RemoteAddr().String()
	if _, err := io.ReadFull(conn, l.held[:n]); err != nil {
		_ = conn.Close() // it is gone already
		return true
	}
	l.serve(h, conn, r)
	return true
}

// serve calls the handler.
func (l *listener) serve(h http.Handler, conn net.Conn, r *http.Request) {
	defer func() {
		if v := recover(); v != nil {
			_ = conn.Close() // it may be closed already
			l.log.Error("a handler panicked", "remote", r.RemoteAddr, "panic", v, "stack", string(debug.Stack()))
		}
	}()
	w := &answer{conn: conn, header: http.Header{}}
	h.ServeHTTP(w, r)
	w.finish()
}

var (
	get     = []byte("GET ")
	upgrade = []byte("\r\nupgrade: websocket\r\n")
	ending  = []byte("\r\n\r\n")
)

// parse returns the request that text is, nil if that is not a request for WebSocket and nothing else, or not one that is beyond doubt.
func (l *listener) parse(text []byte) *http.Request {
	if !bytes.HasPrefix(text, get) || bytes.Index(text, ending) != len(text)-len(ending) {
		return nil
	}
	if !bytes.Contains(bytes.ToLower(text), upgrade) || !isPlain(text) {
		return nil
	}
	l.reader.Reset(bytes.NewReader(text))
	r, err := http.ReadRequest(l.reader)
	if err != nil || r.ContentLength != 0 || len(r.TransferEncoding) > 0 || r.ProtoMajor != 1 || r.ProtoMinor != 1 {
		return nil
	}
	return r
}

// answer is what a handler writes to, or takes the connection over from.
type answer struct {
	conn   net.Conn
	header http.Header
	status int
	body   bytes.Buffer
	taken  bool
}

func (w *answer) Header() http.Header { return w.header }

func (w *answer) WriteHeader(status int) {
	if w.status == 0 {
		w.status = status
	}
}

func (w *answer) Write(p []byte) (int, error) {
	w.WriteHeader(http.StatusOK)
	return w.body.Write(p)
}

// Hijack implements http.Hijacker.
func (w *answer) Hijack() (net.Conn, *bufio.ReadWriter, error) {
	if w.taken {
		return nil, nil, http.ErrHijacked
	}
	w.taken = true
	return w.conn, bufio.NewReadWriter(bufio.NewReaderSize(w.conn, 16), nil), nil
}

// finish sends what was written, and closes the connection, unless that was taken over.
func (w *answer) finish() {
	if w.taken {
		return
	}
	w.WriteHeader(http.StatusOK)
	w.header.Set("Content-Length", strconv.Itoa(w.body.Len()))
	r := http.Response{
		StatusCode: w.status, ProtoMajor: 1, ProtoMinor: 1, Header: w.header, Close: true,
		Body: io.NopCloser(&w.body), ContentLength: int64(w.body.Len()),
	}
	_ = w.conn.SetWriteDeadline(time.Now().Add(patience)) // a refusal that does not arrive is a connection that ends
	_ = r.Write(w.conn)
	_ = w.conn.Close()
}
