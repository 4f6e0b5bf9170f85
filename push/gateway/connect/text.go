package connect

import (
	"bufio"
	"encoding/base64"
	"errors"
	"io"
	"net/http"
	"strings"
)

// The content types of gRPC-Web, and of gRPC-Web in base64 (PROTOCOL-WEB.md of gRPC), without the suffix that names the form.
const (
	webType  = "application/grpc-web"
	textType = "application/grpc-web-text"
)

// otherType returns a content type with its first part replaced, if that is from.
func otherType(contentType, from, to string) (string, bool) {
	rest, ok := strings.CutPrefix(strings.ToLower(strings.TrimSpace(contentType)), from)
	if !ok || rest != "" && !strings.ContainsRune("+; ", rune(rest[0])) {
		return contentType, false
	}
	return to + rest, true
}

// textCall is a call of gRPC-Web in base64, which connect-go does not know. connect-go gets the request, and writes the response, as gRPC-Web in
// bytes.
type textCall struct {
	http.ResponseWriter
	begun   bool
	encodes bool // the response is one of gRPC-Web, not a refusal in HTTP
}

// newTextCall returns the call of a request in base64 and the request in bytes. It returns false for other requests.
func newTextCall(w http.ResponseWriter, r *http.Request) (*textCall, *http.Request, bool) {
	contentType, ok := otherType(r.Header.Get("Content-Type"), textType, webType)
	if !ok {
		return nil, r, false
	}
	r = r.Clone(r.Context())
	r.Header.Set("Content-Type", contentType)
	r.ContentLength = -1
	r.Body = &textBody{Closer: r.Body, in: bufio.NewReaderSize(r.Body, 512)}
	return &textCall{ResponseWriter: w}, r, true
}

// begin names the content type before the header is written. The function is called again without effect.
func (c *textCall) begin() {
	if c.begun {
		return
	}
	c.begun = true
	contentType, ok := otherType(c.Header().Get("Content-Type"), webType, textType)
	c.encodes = ok
	c.Header().Set("Content-Type", contentType)
}

// WriteHeader implements http.ResponseWriter.
func (c *textCall) WriteHeader(status int) {
	c.begin()
	c.ResponseWriter.WriteHeader(status)
}

// Write implements http.ResponseWriter. Every piece is padded, so that nothing has to wait for the next one.
func (c *textCall) Write(p []byte) (int, error) {
	c.begin()
	if !c.encodes {
		return c.ResponseWriter.Write(p)
	}
	e := base64.NewEncoder(base64.StdEncoding, c.ResponseWriter)
	n, err := e.Write(p)
	return n, errors.Join(err, e.Close())
}

// Flush implements http.Flusher, for connect-go.
func (c *textCall) Flush() { _ = c.FlushError() }

// FlushError is for http.ResponseController.
func (c *textCall) FlushError() error {
	c.begin()
	return http.NewResponseController(c.ResponseWriter).Flush()
}

// Unwrap is for http.ResponseController.
func (c *textCall) Unwrap() http.ResponseWriter { return c.ResponseWriter }

// textBody decodes the body of a request. It decodes each four characters alone, because a client may pad every piece that it sends.
type textBody struct {
	io.Closer
	in      *bufio.Reader
	decoded [3]byte
	left    []byte // the part of decoded that is not read yet
}

// Read implements io.Reader.
func (b *textBody) Read(p []byte) (n int, err error) {
	const group = 4
	for n < len(p) {
		if len(b.left) == 0 {
			if n > 0 && b.in.Buffered() < group {
				break // the caller gets what has arrived
			}
			var text [group]byte
			if _, err := io.ReadFull(b.in, text[:]); err != nil {
				return n, err
			}
			size, err := base64.StdEncoding.Decode(b.decoded[:], text[:])
			if err != nil {
				return n, err
			}
			b.left = b.decoded[:size]
		}
		copied := copy(p[n:], b.left)
		b.left = b.left[copied:]
		n += copied
	}
	return n, nil
}
