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

// responseTimeout bounds the write of the response: a few hundred bytes into an empty socket, which only a dead one does not take.
const responseTimeout = 10 * time.Second

// Upgraded is a connection taken over from net/http. Whoever called [Upgrade] owns it and has to close Conn.
type Upgraded struct {
	// Conn is the connection, without deadlines. Nobody else reads or writes it.
	Conn net.Conn
	// Codec is ready for frames.
	Codec *Codec
	// Unread are the bytes that the client sent behind its request: they come before everything that Conn will give. May be empty.
	Unread []byte
	// Request is what the client asked for.
	Request *Request
}

// Upgrade makes a WebSocket connection of a request to a net/http server. It applies the same checks as the codec of
// [NewHandshake], takes the connection over, and writes the response that accepts it, waiting at most ten seconds for the socket.
// The handler may return while the connection lives on.
//
// If the request is refused the client has been answered, and the error is a *[Refusal] for the log. Any other error is one of the
// connection, which is closed then. For many connections with the same options, an [Endpoint] is cheaper.
func Upgrade(w http.ResponseWriter, r *http.Request, o *Options) (*Upgraded, error) {
	return NewEndpoint(o).Upgrade(new(Codec), w, r)
}

// Upgrade is the function [Upgrade]. It makes c ready, which is the codec of the result.
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
			err = fmt.Errorf("%w: the connection cannot be taken over from a %T: a ResponseWriter that middleware puts around another needs a method "+
				"Unwrap() http.ResponseWriter, and HTTP/2 has none that can be", err, w)
		}
		refusal := &Refusal{Status: http.StatusInternalServerError, Err: err}
		refusal.write(w, r)
		return nil, refusal
	}
	if err := writeResponse(conn, res.append(nil, req.key)); err != nil {
		_ = conn.Close() // the cause is err
		return nil, fmt.Errorf("websocket: upgrade: %w", err)
	}
	e.Open(c)
	c.take(res)
	return &Upgraded{Conn: conn, Codec: c, Unread: buffered(rw.Reader), Request: req}, nil
}

// adopt takes over what middleware has put on a ResponseWriter, such as cookies, except for fields that the response has of its own.
func (r *Response) adopt(header http.Header) {
	if len(header) == 0 {
		return
	}
	all := header.Clone()
	maps.Copy(all, r.Header) // which may be the options'
	r.Header = all
}

// fromHTTP makes a Request of what net/http parsed, under the rules of parseRequest that net/http does not enforce.
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

// write answers a request to a net/http server.
func (r *Refusal) write(w http.ResponseWriter, req *http.Request) {
	header := w.Header()
	for name, values := range r.fields() {
		header[http.CanonicalHeaderKey(name)] = values
	}
	if req.ProtoMajor != 1 { // there the connection carries other requests
		header.Del("Connection")
		header.Del("Upgrade")
	}
	w.WriteHeader(r.status())
	_, _ = io.WriteString(w, r.body()) // the client is gone: there is nobody left to tell
}

// writeResponse writes the accepting response within its time and leaves no deadline behind, neither its own nor the server's.
func writeResponse(conn net.Conn, response []byte) error {
	if err := conn.SetDeadline(time.Now().Add(responseTimeout)); err != nil {
		return err
	}
	if _, err := conn.Write(response); err != nil {
		return err
	}
	return conn.SetDeadline(time.Time{})
}

// buffered returns a copy of what the reader holds, so that its buffer can go.
func buffered(r *bufio.Reader) []byte {
	held, _ := r.Peek(r.Buffered()) // never more than is there: no error
	return bytes.Clone(held)
}
