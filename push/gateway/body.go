package gateway

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"time"

	"github.com/sluice-push/sluice/push/compression"
)

// leftoverTimeout is how long the part of a body may take that the handler has not read. net/http reads it after the handler returns.
const leftoverTimeout = time.Second

// BoundBodies returns a handler that serves requests by next and bounds the time in which their bodies arrive: a request whose body takes longer
// than most fails. That includes a body that next does not read. net/http waits for such a body, for ever if there is no deadline, before it writes
// the header of the response over HTTP/1, and after next has returned.
//
// next may set another read deadline. No deadline is left when the body has ended: net/http lifts that of a connection of HTTP/1, on which it then
// waits for the client to go, and a deadline of HTTP/2 is one of the body only.
func BoundBodies(most time.Duration, next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Body == nil || r.Body == http.NoBody {
			next.ServeHTTP(w, r)
			return
		}
		b := &boundBody{ReadCloser: r.Body, control: http.NewResponseController(w)}
		b.limit(most)
		defer b.left()
		// The copy leaves the request of net/http as it is: with another body in it, net/http would read the next request of the connection from a
		// body that has not ended.
		bounded := r.WithContext(r.Context())
		bounded.Body = b
		next.ServeHTTP(w, bounded)
	})
}

// boundBody is a body with a time in which it has to arrive. A server that does not support deadlines has to bound it in another way.
type boundBody struct {
	io.ReadCloser
	control *http.ResponseController
	ended   bool // owned by the goroutine that reads, and then by that of the request
}

// Read implements io.Reader, and notes the end.
func (b *boundBody) Read(p []byte) (int, error) {
	n, err := b.ReadCloser.Read(p)
	if errors.Is(err, io.EOF) {
		b.ended = true
	}
	return n, err
}

func (b *boundBody) limit(d time.Duration) { _ = b.control.SetReadDeadline(time.Now().Add(d)) }

// left bounds the rest of a body that the handler has left.
func (b *boundBody) left() {
	if !b.ended {
		b.limit(leftoverTimeout)
	}
}

// ReadBody reads the body of a client's request, of at most so many bytes, within Options.ConnectTimeout: [Gateway.Handler] has set the deadline. If
// the body is compressed, which Options.Compression has to allow, it has at most so many bytes before and after it is inflated. If that fails, ReadBody
// has refused the request.
func (g *Gateway) ReadBody(w http.ResponseWriter, r *http.Request, most int) (body []byte, ok bool) {
	isCompressed, ok := g.contentEncoding(w, r)
	if !ok {
		return nil, false
	}
	body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, int64(most)))
	status, reason := http.StatusRequestTimeout, "the body did not come in time"
	if err == nil && isCompressed {
		status, reason = http.StatusBadRequest, "the body is not what its Content-Encoding says"
		body, err = compression.ReadAll(bytes.NewReader(body), most)
	}
	if err == nil {
		return body, true
	}
	g.RequestRefused()
	if tooLarge := new(http.MaxBytesError); errors.As(err, &tooLarge) || errors.Is(err, compression.ErrTooLarge) {
		status, reason = http.StatusRequestEntityTooLarge, fmt.Sprintf("the body has more than the %d bytes that are allowed: send fewer commands at a time", most)
	}
	Refuse(w, r, status, reason)
	return nil, false
}

// contentEncoding reports whether the body of a request is compressed. If that is not allowed, it refuses the request, and ok is false.
func (g *Gateway) contentEncoding(w http.ResponseWriter, r *http.Request) (isCompressed, ok bool) {
	encoding := r.Header.Get("Content-Encoding")
	switch {
	case encoding == "", strings.EqualFold(encoding, "identity"):
		return false, true
	case g.options.Compression && strings.EqualFold(encoding, "gzip"):
		return true, true
	}
	g.RequestRefused()
	reason := "the body must not be compressed"
	if g.options.Compression {
		w.Header().Set("Accept-Encoding", "gzip") // RFC 9110, section 12.5.3
		reason = "the body may be compressed by gzip only"
	}
	Refuse(w, r, http.StatusUnsupportedMediaType, reason)
	return false, false
}
