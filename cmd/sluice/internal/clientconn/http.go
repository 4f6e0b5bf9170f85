package clientconn

import (
	"bufio"
	"bytes"
	"context"
	stdjson "encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"sync/atomic"

	"github.com/sluice-push/sluice/push/gateway"
	"github.com/sluice-push/sluice/push/gateway/httpstream"
	"github.com/sluice-push/sluice/push/gateway/sse"
	"github.com/sluice-push/sluice/push/protocol"
	"github.com/sluice-push/sluice/push/protocol/protobuf"
)

// Refused is the answer of a node that does not take a client.
type Refused struct {
	Status int // of HTTP
	Reason string
}

// Error implements error.
func (r *Refused) Error() string { return "the node refused the connection: " + r.Reason }

// IsTemporary reports whether the node may take the client later.
func (r *Refused) IsTemporary() bool {
	return r.Status == http.StatusTooManyRequests || r.Status >= http.StatusInternalServerError
}

// httpStream is the body of a response, with commands in requests beside it.
type httpStream struct {
	base     *url.URL
	form     form
	client   *http.Client
	response *http.Response
	in       *bufio.Reader
	frame    []byte // the last one
	cancel   context.CancelFunc
	read     func(s *httpStream) ([]byte, error) // reads the next frame
	at       atomic.Pointer[protocol.ConnectResult]
}

const (
	jsonType     = "application/json"
	protobufType = "application/octet-stream"
)

func contentType(f form) string {
	if f.isBinary() {
		return protobufType
	}
	return jsonType
}

// clientOf returns the client for requests over connections that dial makes: one of its own, or the default if dial is nil.
func clientOf(dial dialFunc) *http.Client {
	if dial == nil {
		return http.DefaultClient
	}
	return &http.Client{Transport: &http.Transport{DialContext: dial}}
}

func dialHTTPStream(ctx context.Context, base *url.URL, f form, first []byte, dial dialFunc) (stream, error) {
	s := &httpStream{base: base, form: f, client: clientOf(dial), read: readLine}
	if f.isBinary() {
		s.read = func(s *httpStream) (frame []byte, err error) {
			s.frame, err = readDelimited(s.in, s.frame)
			return s.frame, err
		}
	}
	return s.open(ctx, http.MethodPost, base.JoinPath(httpstream.Path), first)
}

func dialSSE(ctx context.Context, base *url.URL, f form, first []byte, dial dialFunc) (stream, error) {
	s := &httpStream{base: base, form: f, client: clientOf(dial), read: readEvent}
	u := base.JoinPath(sse.Path)
	u.RawQuery = url.Values{"cf_connect": {string(first)}}.Encode()
	return s.open(ctx, http.MethodGet, u, nil)
}

// open sends the request of the stream and returns the stream.
func (s *httpStream) open(ctx context.Context, method string, u *url.URL, body []byte) (stream, error) {
	if err := s.request(ctx, method, u, body); err != nil {
		s.closeIdle()
		return nil, err
	}
	return s, nil
}

// request sends the request of the stream. Its context outlives ctx, which bounds the time until the header of the response comes.
func (s *httpStream) request(ctx context.Context, method string, u *url.URL, body []byte) error {
	long, cancel := context.WithCancel(context.WithoutCancel(ctx))
	stop := context.AfterFunc(ctx, cancel)
	r, err := http.NewRequestWithContext(long, method, u.String(), bytes.NewReader(body))
	if err != nil {
		cancel()
		return err
	}
	r.Header.Set("Content-Type", contentType(s.form))
	if method == http.MethodGet {
		r.Header.Set("Accept", "text/event-stream")
	}
	response, err := s.client.Do(r)
	if err != nil || !stop() {
		cancel()
		return fmt.Errorf("%s does not answer: %w", s.base, errors.Join(withoutURL(err), ctx.Err()))
	}
	if response.StatusCode != http.StatusOK {
		why, _ := io.ReadAll(io.LimitReader(response.Body, 1024))
		_ = response.Body.Close()
		cancel()
		return &Refused{Status: response.StatusCode, Reason: strings.TrimSpace(string(why))}
	}
	s.response, s.in, s.cancel = response, bufio.NewReader(response.Body), cancel
	return nil
}

// withoutURL returns an error without the address that the caller adds itself.
func withoutURL(err error) error {
	if u := new(url.Error); errors.As(err, &u) {
		return u.Err
	}
	return err
}

// session notes where commands go.
func (s *httpStream) session(r *protocol.ConnectResult) {
	kept := protocol.ConnectResult{Session: r.Session, Node: r.Node}
	s.at.Store(&kept)
}

// Send sends a frame of commands in a request of its own.
func (s *httpStream) Send(ctx context.Context, frame []byte) error {
	at := s.at.Load()
	if at == nil {
		return errors.New("not connected yet: the first reply has not come")
	}
	in := protocol.Batch{Node: at.Node, Session: at.Session, Commands: frame}
	body, err := protobuf.AppendEmulation(nil, &in), error(nil)
	if !s.form.isBinary() {
		body, err = stdjson.Marshal(map[string]string{"node": in.Node, "session": in.Session, "data": string(in.Commands)})
	}
	if err != nil {
		return err
	}
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, s.base.JoinPath(gateway.EmulationPath).String(), bytes.NewReader(body))
	if err != nil {
		return err
	}
	r.Header.Set("Content-Type", contentType(s.form))
	response, err := s.client.Do(r)
	if err != nil {
		return fmt.Errorf("commands could not be sent: %w", withoutURL(err))
	}
	why, _ := io.ReadAll(io.LimitReader(response.Body, 1024))
	_ = response.Body.Close()
	if response.StatusCode != http.StatusNoContent {
		return fmt.Errorf("commands were not taken: %s", strings.TrimSpace(string(why)))
	}
	return nil
}

// Receive returns the next frame. When ctx ends, so does the stream.
func (s *httpStream) Receive(ctx context.Context) ([]byte, error) {
	stop := context.AfterFunc(ctx, s.cancel)
	defer stop()
	frame, err := s.read(s)
	if err != nil {
		return nil, fmt.Errorf("connection lost: %w", err)
	}
	return frame, nil
}

func (s *httpStream) Close() {
	s.cancel()
	_ = s.response.Body.Close()
	s.closeIdle()
}

// closeIdle closes the connections that nothing uses, unless other streams share them.
func (s *httpStream) closeIdle() {
	if s.client != http.DefaultClient {
		s.client.CloseIdleConnections()
	}
}

// readLine returns the next line, with its end.
func readLine(s *httpStream) ([]byte, error) {
	s.frame = s.frame[:0]
	for {
		part, err := s.in.ReadSlice('\n')
		s.frame = append(s.frame, part...)
		switch {
		case len(s.frame) > maxMessage:
			return nil, errTooLong
		case err != nil && !errors.Is(err, bufio.ErrBufferFull):
			return nil, err
		case err == nil:
			return s.frame, nil
		}
	}
}

// errTooLong is the error for a message that exceeds maxMessage.
var errTooLong = errors.New("a message is too long")

// readDelimited returns a message with its length before it.
func readDelimited(in *bufio.Reader, buf []byte) ([]byte, error) {
	for ahead := 1; ; ahead++ {
		head, err := in.Peek(ahead)
		if err != nil {
			return nil, err
		}
		if head[ahead-1] >= 0x80 && ahead < 5 {
			continue
		}
		size := 0
		for i, b := range head {
			size |= int(b&0x7f) << (7 * i)
		}
		if size > maxMessage {
			return nil, errTooLong
		}
		buf = slices.Grow(buf[:0], ahead+size)[:ahead+size]
		_, err = io.ReadFull(in, buf)
		return buf, err
	}
}

// readEvent returns the data of the next event.
func readEvent(s *httpStream) ([]byte, error) {
	for {
		line, err := readLine(s)
		if err != nil {
			return nil, err
		}
		if data, ok := bytes.CutPrefix(line, []byte("data: ")); ok {
			return data, nil
		}
	}
}
