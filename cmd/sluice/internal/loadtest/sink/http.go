// Package sink publishes to a push server, and says of each publication whether the server has it.
package sink

import (
	"bufio"
	"bytes"
	"context"
	"crypto/tls"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/sluice-push/sluice/cmd/sluice/internal/loadtest/reasoncount"
	"github.com/sluice-push/sluice/push"
)

// Refusal is the error for a publication that the server has certainly not accepted. After any other error the server may have it or not.
type Refusal struct {
	why         string
	isTemporary bool // another node may accept it
}

// Error implements error.
func (r *Refusal) Error() string { return r.why }

// HTTP publishes through the HTTP API, over one persistent connection. It serves one goroutine.
type HTTP struct {
	url     *url.URL
	head    []byte // of a request, up to the value of Content-Length
	timeout time.Duration

	conn net.Conn // nil if there is none; publish dials again
	in   *bufio.Reader
	out  []byte
}

// NewHTTP returns a sink that posts publications to a URL, with a key unless that is empty. It waits for each answer for at most timeout.
func NewHTTP(to, key string, timeout time.Duration) (*HTTP, error) {
	u, err := url.Parse(to)
	if err != nil {
		return nil, err
	}
	if strings.ContainsAny(key, "\r\n") {
		return nil, errors.New("the key has a line break")
	}
	head := "POST " + u.RequestURI() + " HTTP/1.1\r\nHost: " + u.Host + "\r\nContent-Type: application/json\r\n"
	if key != "" {
		head += "X-API-Key: " + key + "\r\n"
	}
	return &HTTP{url: u, head: []byte(head + "Content-Length: "), timeout: timeout}, nil
}

// Publish publishes data and waits for the answer. The error is nil if the server has accepted the publication, and a *[Refusal] if it certainly has
// not. The data is borrowed until Publish returns.
func (s *HTTP) Publish(ctx context.Context, channel string, data []byte) error {
	if s.conn == nil {
		if err := s.dial(ctx); err != nil {
			return &Refusal{"no connection: " + reasoncount.Of(err), true}
		}
	}
	if err := s.conn.SetDeadline(time.Now().Add(s.timeout)); err != nil {
		s.Close()
		return &Refusal{"no connection: " + reasoncount.Of(err), true}
	}
	conn := s.conn
	stop := context.AfterFunc(ctx, func() { _ = conn.SetDeadline(time.Unix(1, 0)) })
	defer stop()
	const before, between, behind = `{"channel":"`, `","data":`, `}`
	n := len(before) + len(channel) + len(between) + len(data) + len(behind)
	s.out = strconv.AppendInt(append(s.out[:0], s.head...), int64(n), 10)
	s.out = append(append(append(s.out, "\r\n\r\n"...), before...), channel...)
	s.out = append(append(append(s.out, between...), data...), behind...)
	err := s.exchange()
	if no := new(Refusal); err != nil && !errors.As(err, &no) {
		s.Close() // a late answer on this connection would be taken for that of the next request
	}
	return err
}

// exchange sends the request in s.out and reads the answer.
func (s *HTTP) exchange() error {
	if _, err := s.conn.Write(s.out); err != nil {
		return err
	}
	r, err := http.ReadResponse(s.in, nil)
	if err != nil {
		return err
	}
	body, err := io.ReadAll(io.LimitReader(r.Body, maxAnswer))
	if err == nil {
		err = r.Body.Close()
	}
	if err != nil {
		return err
	}
	if r.Close {
		defer s.Close()
	}
	return parseAnswer(r.StatusCode, body)
}

// maxAnswer is how many bytes of an answer's body are decoded at most.
const maxAnswer = 64 << 10

// parseAnswer returns nil for an answer of the API that accepts the publication, a *Refusal for one that certainly rejects it, and another
// error if the server may have the publication.
func parseAnswer(status int, body []byte) error {
	if status == http.StatusOK && bytes.HasPrefix(body, []byte(`{"result":`)) {
		return nil
	}
	var r struct {
		Error *struct {
			Code    int    `json:"code"`
			Message string `json:"message"`
		} `json:"error"`
	}
	switch err := json.Unmarshal(body, &r); {
	case status >= http.StatusInternalServerError && status != http.StatusServiceUnavailable: // it may have failed before or after publishing
		return fmt.Errorf("status %d %s", status, http.StatusText(status))
	case err == nil && r.Error != nil:
		return failure(r.Error.Code, fmt.Sprintf("%s (code %d)", r.Error.Message, r.Error.Code))
	case status != http.StatusOK:
		return &Refusal{fmt.Sprintf("status %d %s", status, http.StatusText(status)), status == http.StatusServiceUnavailable}
	case err != nil:
		return &Refusal{why: "not a reply of a publish API: check the URL"}
	}
	return nil
}

// failure returns the error for an error code of the server: a *Refusal, unless the code leaves open whether the server has the publication.
func failure(code int, why string) error {
	if code == int(push.ErrInternal.Code) {
		return errors.New(why)
	}
	return &Refusal{why, code == int(push.ErrTooManyRequests.Code)}
}

func (s *HTTP) dial(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, s.timeout)
	defer cancel()
	address := s.url.Host
	if s.url.Port() == "" {
		address = net.JoinHostPort(s.url.Hostname(), s.url.Scheme)
	}
	var err error
	if s.url.Scheme == "https" {
		s.conn, err = (&tls.Dialer{Config: &tls.Config{NextProtos: []string{"http/1.1"}}}).DialContext(ctx, "tcp", address)
	} else {
		s.conn, err = new(net.Dialer).DialContext(ctx, "tcp", address)
	}
	if err != nil {
		s.conn = nil
		return err
	}
	s.in = bufio.NewReader(s.conn)
	return nil
}

// Close closes the connection. The next Publish dials again.
func (s *HTTP) Close() {
	if s.conn != nil {
		_ = s.conn.Close()
		s.conn = nil
	}
}
