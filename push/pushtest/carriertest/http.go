package carriertest

import (
	"bufio"
	"bytes"
	"compress/gzip"
	"context"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/http"
	"strings"
	"sync"
	"unicode/utf8"

	"github.com/sluice-push/sluice/push/gateway"
)

// HTTPStream describes clients that listen to the body of an HTTP response that does not end, and send commands, if they may, to
// [gateway.EmulationPath]. It has a Dial for [Harness].
type HTTPStream struct {
	Form Form
	Way  gateway.Way
	// Request returns the request that opens the stream. first is the client's first frame, and lastID that of [Target].
	Request func(first []byte, lastID string) StreamRequest
	// Read reads the next frame of the body. id is what to return as lastID, if the frame has one; nil leaves it. Nil reads messages of the form.
	Read func(r *bufio.Reader) (frame []byte, id *string, err error)
	// HTTP2 connects by HTTP/2 without TLS.
	HTTP2 bool
	// Compressed asks for a body that is compressed by gzip, and sends commands to [gateway.EmulationPath] compressed.
	Compressed bool
}

// StreamRequest is an HTTP request, without host and scheme.
type StreamRequest struct {
	Method string
	Target string // path and query
	Header http.Header
	Body   []byte
}

// StatusError is a refusal by the status of an HTTP response.
type StatusError struct {
	Status int
	Text   string
}

// Error returns the status and the body.
func (e *StatusError) Error() string { return fmt.Sprintf("HTTP status %d: %s", e.Status, e.Text) }

// Dial implements Dial of [Harness].
func (h *HTTPStream) Dial(_ context.Context, t Target) (Conn, error) {
	c := &streamConn{HTTPStream: h, target: t}
	protocols := new(http.Protocols)
	protocols.SetHTTP1(!h.HTTP2)
	protocols.SetUnencryptedHTTP2(h.HTTP2)
	c.stream.DialContext, c.commands.DialContext = t.Dial, t.DialCommands
	c.stream.Protocols, c.commands.Protocols = protocols, protocols
	c.stream.HTTP2 = &http.HTTP2Config{MaxReceiveBufferPerStream: 64 << 10}
	c.stream.DisableCompression = true
	c.ctx, c.cancel = context.WithCancel(context.Background())
	c.lastID = t.LastID
	return c, nil
}

// streamConn is one client of an HTTPStream.
type streamConn struct {
	*HTTPStream
	target           Target
	stream, commands http.Transport
	ctx              context.Context
	cancel           context.CancelFunc

	opened bool // by Send
	res    *http.Response
	body   *bufio.Reader

	mu                    sync.Mutex // guards what follows
	session, node, lastID string
}

// Send implements Conn.
func (c *streamConn) Send(frame []byte) error {
	if c.opened {
		return c.post(frame)
	}
	c.opened = true
	q := c.Request(frame, c.target.LastID)
	r, err := http.NewRequestWithContext(c.ctx, q.Method, "http://node"+q.Target, bytes.NewReader(q.Body))
	if err != nil {
		return err
	}
	maps.Copy(r.Header, q.Header)
	if c.Compressed {
		r.Header.Set("Accept-Encoding", "gzip")
	}
	if c.res, err = c.stream.RoundTrip(r); err != nil { //nolint:bodyclose // Close does
		return err
	}
	c.body = bufio.NewReader(c.res.Body)
	if err := statusOf(c.res, http.StatusOK); err != nil || !c.Compressed {
		return err
	}
	if got := c.res.Header.Get("Content-Encoding"); got != "gzip" {
		return fmt.Errorf("the body is not compressed: content encoding %q", got)
	}
	c.body = bufio.NewReader(&gunzip{from: c.body})
	return nil
}

// gunzip inflates a body. It reads the header of the stream when it is asked for bytes: until then the body may have none.
type gunzip struct {
	from   *bufio.Reader
	stream *gzip.Reader
}

func (g *gunzip) Read(p []byte) (n int, err error) {
	if g.stream == nil {
		if g.stream, err = gzip.NewReader(g.from); err != nil {
			return 0, err
		}
	}
	return g.stream.Read(p)
}

// statusOf returns a StatusError unless a response has a status.
func statusOf(res *http.Response, want int) error {
	if res.StatusCode == want {
		return nil
	}
	text, _ := io.ReadAll(io.LimitReader(res.Body, 1<<10))
	return &StatusError{Status: res.StatusCode, Text: strings.TrimSpace(string(text))}
}

// post sends commands beside the stream. Body and type are those of the SDKs.
func (c *streamConn) post(frame []byte) error {
	c.mu.Lock()
	session, node := c.session, c.node
	c.mu.Unlock()
	kind, body := "application/json", []byte(nil)
	if c.Form == Protobuf {
		kind = "application/octet-stream"
		for i, field := range [][]byte{[]byte(node), []byte(session), frame} {
			body = append(body, byte(i+1)<<3|2) // EmulationRequest of the client protocol: node, session, data
			body = append(binary.AppendUvarint(body, uint64(len(field))), field...)
		}
	} else if !utf8.Valid(frame) {
		return errors.ErrUnsupported
	} else {
		body, _ = json.Marshal(map[string]string{"node": node, "session": session, "data": string(frame)}) // strings
	}
	r, err := http.NewRequestWithContext(c.ctx, http.MethodPost, "http://node"+gateway.EmulationPath, bytes.NewReader(body))
	if err != nil {
		return err
	}
	r.Header.Set("Content-Type", kind)
	if c.Compressed {
		var packed bytes.Buffer
		w := gzip.NewWriter(&packed)
		_, _ = w.Write(body) // to memory
		_ = w.Close()
		r.Body, r.ContentLength = io.NopCloser(&packed), int64(packed.Len())
		r.Header.Set("Content-Encoding", "gzip")
	}
	res, err := c.commands.RoundTrip(r)
	if err != nil {
		return err
	}
	defer func() { _ = res.Body.Close() }()
	return statusOf(res, http.StatusNoContent)
}

// Receive implements Conn.
func (c *streamConn) Receive() ([]byte, error) {
	if c.body == nil {
		return nil, io.EOF
	}
	if c.Read == nil {
		frame, err := c.Form.ReadMessage(c.body)
		c.learn(frame, nil)
		return frame, err
	}
	frame, id, err := c.Read(c.body)
	c.learn(frame, id)
	return frame, err
}

// learn remembers an id, and where commands go, from the reply to connect.
func (c *streamConn) learn(frame []byte, id *string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if id != nil {
		c.lastID = *id
	}
	if c.Way != gateway.Emulated || c.session != "" {
		return
	}
	replies, _ := c.Form.replies(frame, false) // the suite complains
	for i := range replies {
		if told := &replies[i].Connect; told.Session != "" {
			c.session, c.node = told.Session, told.Node
		}
	}
}

// LastID implements Resumer.
func (c *streamConn) LastID() string {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.lastID
}

// Close implements Conn.
func (c *streamConn) Close() {
	c.cancel()
	if c.res != nil {
		_ = c.res.Body.Close()
	}
	c.stream.CloseIdleConnections()
	c.commands.CloseIdleConnections()
}

// ReadEvent reads one server-sent event, for [HTTPStream]: lines of a name and a value, up to an empty one. The frame is its data.
func ReadEvent(r *bufio.Reader) (data []byte, id *string, err error) {
	for {
		line, err := r.ReadString('\n')
		if err != nil {
			return nil, id, err
		}
		name, value, _ := strings.Cut(strings.TrimSuffix(line, "\n"), ":")
		value = strings.TrimPrefix(value, " ")
		switch name {
		case "":
			if data != nil {
				return data, id, nil
			}
		case "data":
			data = []byte(value)
		case "id":
			id = &value
		case "retry":
		default:
			return nil, id, fmt.Errorf("a line %q", line)
		}
	}
}
