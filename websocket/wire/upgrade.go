package wire

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"maps"
	"net"
	"net/http"
	"time"
)

// responseTimeout bounds the write of the response. The response has a few hundred bytes and the socket is empty, so only a dead connection
// takes longer.
const responseTimeout = 10 * time.Second

// Upgraded is a connection taken over from net/http. The caller of [Upgrade] owns it and must close Conn.
type Upgraded struct {
	// Conn is the connection, without deadlines. No other goroutine reads or writes it.
	Conn net.Conn
	// Codec is ready for frames.
	Codec *Codec
	// Unread holds the bytes that the client sent behind its request. They come before all bytes that Conn returns. It may be empty.
	Unread []byte
	// Request is the client's request.
	Request *Request
}

// Upgrade turns a request to a net/http server into a WebSocket connection. It applies the same checks as a codec of [NewHandshake], takes the
// connection over, and writes the accepting response, for which it waits at most ten seconds. The net/http handler may return while the
// connection lives on.
//
// If the request is refused, the client has been answered, and the error is a *[Refusal] for the log. After any other error the connection is
// closed. For many connections with the same options, an [Endpoint] is cheaper.
func Upgrade(w http.ResponseWriter, r *http.Request, o *Options) (*Upgraded, error) {
	return NewEndpoint(o).Upgrade(new(Codec), w, r)
}

// Upgrade is the function [Upgrade] with the endpoint's options. It makes c ready, and the result's Codec is c.
func (e *Endpoint) Upgrade(c *Codec, w http.ResponseWriter, r *http.Request) (*Upgraded, error) {
	req, refusal := fromHTTP(r)
	var res *Response
	if refusal == nil {
		res, refusal = e.accept(req)
	}
	if refusal != nil {
		refusal.write(w, r)
		return nil, refusal
	}
	res.adopt(w.Header())
	conn, rw, err := http.NewResponseController(w).Hijack()
	if err != nil {
		if errors.Is(err, http.ErrNotSupported) {
			err = fmt.Errorf("%w: a %T does not support hijacking: a ResponseWriter of middleware needs a method Unwrap() http.ResponseWriter, "+
				"and an HTTP/2 connection cannot be upgraded", err, w)
		}
		refusal := &Refusal{Status: http.StatusInternalServerError, Err: err}
		refusal.write(w, r)
		return nil, refusal
	}
	if err := writeResponse(conn, res.append(nil, req.key)); err != nil {
		_ = conn.Close() // Close cannot add to err
		return nil, fmt.Errorf("websocket: upgrade: %w", err)
	}
	e.Open(c)
	c.take(res)
	return &Upgraded{Conn: conn, Codec: c, Unread: buffered(rw.Reader), Request: req}, nil
}

// adopt adds the fields that middleware has set on the ResponseWriter, such as cookies, except fields that the response sets itself.
func (r *Response) adopt(header http.Header) {
	if len(header) == 0 {
		return
	}
	all := header.Clone()
	maps.Copy(all, r.Header) // r.Header may be the map of the options, so it is not changed
	r.Header = all
}

// fromHTTP makes a Request of a request that net/http parsed. It checks those rules of parseRequest that net/http does not enforce.
func fromHTTP(r *http.Request) (*Request, *Refusal) {
	if refusal := checkMethod(r.Method, r.Proto); refusal != nil {
		return nil, refusal
	}
	if r.ContentLength != 0 || len(r.TransferEncoding) > 0 {
		return nil, malformed("request has a body")
	}
	if !isHost(r.Host) {
		return nil, malformed("Host is required exactly once")
	}
	return &Request{
		Target: r.RequestURI, Path: r.URL.Path, RawQuery: r.URL.RawQuery,
		Host: r.Host, Header: r.Header,
	}, nil
}

// write sends the refusal as the answer of a net/http server.
func (r *Refusal) write(w http.ResponseWriter, req *http.Request) {
	header := w.Header()
	for name, values := range r.fields() {
		header[http.CanonicalHeaderKey(name)] = values
	}
	if req.ProtoMajor != 1 { // over HTTP/2 the connection carries other requests too
		header.Del("Connection")
		header.Del("Upgrade")
	}
	w.WriteHeader(r.status())
	_, _ = io.WriteString(w, r.body()) // an error means that the client is gone
}

// writeResponse writes the accepting response within responseTimeout. It clears all deadlines, including those of the net/http server.
func writeResponse(conn net.Conn, response []byte) error {
	if err := conn.SetDeadline(time.Now().Add(responseTimeout)); err != nil {
		return err
	}
	if _, err := conn.Write(response); err != nil {
		return err
	}
	return conn.SetDeadline(time.Time{})
}

// buffered returns a copy of the reader's buffered bytes, so that the buffer can be freed.
func buffered(r *bufio.Reader) []byte {
	held, _ := r.Peek(r.Buffered()) // no error, since all these bytes are buffered
	return bytes.Clone(held)
}
