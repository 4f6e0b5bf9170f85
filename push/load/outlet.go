package load

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
	"sync"
	"time"

	"github.com/sluice-push/sluice/push"
	"github.com/sluice-push/sluice/push/protocol"
	"github.com/sluice-push/sluice/session"
	"github.com/sluice-push/sluice/websocket"
)

// apiOutlet publishes by HTTP, over one connection that is kept. It is for one writer.
type apiOutlet struct {
	url     *url.URL
	head    []byte // of a request, up to the length of its body
	timeout time.Duration

	conn net.Conn
	in   *bufio.Reader
	out  []byte
}

func newAPIOutlet(s *Spec) (*apiOutlet, error) {
	u, err := url.Parse(s.PublishURL)
	if err != nil {
		return nil, fmt.Errorf("load: %w", err)
	}
	if strings.ContainsAny(s.Key, "\r\n") {
		return nil, errors.New("load: the key has a line break")
	}
	head := "POST " + u.RequestURI() + " HTTP/1.1\r\nHost: " + u.Host + "\r\nContent-Type: application/json\r\n"
	if s.Key != "" {
		head += "X-API-Key: " + s.Key + "\r\n"
	}
	return &apiOutlet{url: u, head: []byte(head + "Content-Length: "), timeout: answerTime(s)}, nil
}

func (o *apiOutlet) publish(ctx context.Context, channel string, data []byte) error {
	if o.conn == nil {
		if err := o.dial(ctx); err != nil {
			return &refusal{"no connection: " + cause(err)}
		}
	}
	if err := o.conn.SetDeadline(time.Now().Add(o.timeout)); err != nil {
		o.close()
		return &refusal{"no connection: " + cause(err)}
	}
	conn := o.conn
	stop := context.AfterFunc(ctx, func() { _ = conn.SetDeadline(time.Unix(1, 0)) })
	defer stop()
	const before, between, behind = `{"channel":"`, `","data":`, `}`
	n := len(before) + len(channel) + len(between) + len(data) + len(behind)
	o.out = strconv.AppendInt(append(o.out[:0], o.head...), int64(n), 10)
	o.out = append(append(append(o.out, "\r\n\r\n"...), before...), channel...)
	o.out = append(append(append(o.out, between...), data...), behind...)
	err := o.exchange()
	if no := new(refusal); err != nil && !errors.As(err, &no) {
		o.close() // what comes over it now belongs to nobody knows what
	}
	return err
}

// exchange sends the request and reads the answer.
func (o *apiOutlet) exchange() error {
	if _, err := o.conn.Write(o.out); err != nil {
		return err
	}
	r, err := http.ReadResponse(o.in, nil)
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
		defer o.close()
	}
	return answered(r.StatusCode, body)
}

// maxAnswer bounds the answer to a publication.
const maxAnswer = 64 << 10

// answered says what an answer of the API means.
func answered(status int, body []byte) error {
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
	case status >= http.StatusInternalServerError && status != http.StatusServiceUnavailable: // before it published, or after
		return fmt.Errorf("status %d %s", status, http.StatusText(status))
	case err == nil && r.Error != nil:
		return failure(r.Error.Code, fmt.Sprintf("%s (code %d)", r.Error.Message, r.Error.Code))
	case status != http.StatusOK:
		return &refusal{fmt.Sprintf("status %d %s", status, http.StatusText(status))}
	case err != nil:
		return &refusal{"the answer is not what a publish API says: is this the right URL?"}
	}
	return nil
}

// failure is an error that a server has answered with: a refusal, unless its code leaves open whether it has the publication.
func failure(code int, why string) error {
	if code == int(push.ErrInternal.Code) {
		return errors.New(why)
	}
	return &refusal{why}
}

func (o *apiOutlet) dial(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, o.timeout)
	defer cancel()
	address := o.url.Host
	if o.url.Port() == "" {
		address = net.JoinHostPort(o.url.Hostname(), o.url.Scheme)
	}
	var err error
	if o.url.Scheme == "https" {
		o.conn, err = (&tls.Dialer{Config: &tls.Config{NextProtos: []string{"http/1.1"}}}).DialContext(ctx, "tcp", address)
	} else {
		o.conn, err = new(net.Dialer).DialContext(ctx, "tcp", address)
	}
	if err != nil {
		o.conn = nil
		return err
	}
	o.in = bufio.NewReader(o.conn)
	return nil
}

func (o *apiOutlet) close() {
	if o.conn != nil {
		_ = o.conn.Close()
		o.conn = nil
	}
}

// clientOutlet publishes over one connection of a client: by commands, or by messages that are publications. All writers share it.
type clientOutlet struct {
	plain   bool
	timeout time.Duration
	client  *websocket.Client
	conn    *websocket.Conn

	mu      sync.Mutex
	last    uint32
	pending map[uint32]chan error // answers that are awaited; nil when none can come any more
}

// newClientOutlet connects a client that publishes.
func newClientOutlet(ctx context.Context, s *Spec) (*clientOutlet, error) {
	o := &clientOutlet{plain: s.Protocol == Plain, timeout: answerTime(s), pending: map[uint32]chan error{}}
	options := websocket.Options{MaxMessage: maxMessage}
	options.Session.HandshakeTimeout = o.timeout
	o.client = websocket.NewClient(&websocket.Handler{Message: o.message, Close: o.closed}, &options)
	var err error
	if o.conn, err = o.client.Dial(ctx, s.URL); err == nil && !o.plain {
		connect := protocol.Command{Kind: protocol.KindConnect}
		connect.Connect.Token, connect.Connect.Name = s.Token, "sluice-bench"
		err = o.ask(ctx, &connect)
	}
	if err != nil {
		o.close()
		return nil, fmt.Errorf("load: the client that is to publish cannot connect: %w", err)
	}
	return o, nil
}

func (o *clientOutlet) publish(ctx context.Context, channel string, data []byte) error {
	if o.plain {
		if err := o.conn.Send(websocket.OpText, data); err != nil {
			return &refusal{"no connection: " + cause(err)}
		}
		return nil
	}
	cmd := protocol.Command{Kind: protocol.KindPublish}
	cmd.Publish.Channel, cmd.Publish.Data = channel, data
	return o.ask(ctx, &cmd)
}

// ask sends a command and waits for its answer.
func (o *clientOutlet) ask(ctx context.Context, cmd *protocol.Command) error {
	answer := make(chan error, 1)
	o.mu.Lock()
	if o.pending == nil {
		o.mu.Unlock()
		return &refusal{"no connection: it has ended"}
	}
	o.last++
	cmd.ID = o.last
	o.pending[cmd.ID] = answer
	o.mu.Unlock()
	defer o.forget(cmd.ID)
	if err := o.conn.Send(websocket.OpText, protocol.AppendCommand(nil, cmd)); err != nil {
		return fmt.Errorf("the connection has ended: %w", err)
	}
	timer := time.NewTimer(o.timeout)
	defer timer.Stop()
	select {
	case err := <-answer:
		return err
	case <-timer.C:
		return fmt.Errorf("no answer within %v", o.timeout)
	case <-ctx.Done():
		return ctx.Err()
	}
}

func (o *clientOutlet) forget(id uint32) {
	o.mu.Lock()
	defer o.mu.Unlock()
	delete(o.pending, id)
}

// message reads answers; publications, which a plain server sends to everybody, are passed over.
func (o *clientOutlet) message(ws *websocket.Conn, m websocket.Message) {
	if o.plain {
		return
	}
	for line, rest := nextLine(m.Data); len(line) > 0 || len(rest) > 0; line, rest = nextLine(rest) {
		var r protocol.Reply
		switch err := protocol.DecodeReply(line, &r); {
		case err != nil:
		case r.IsPing():
			_ = ws.Send(websocket.OpText, pong) // a connection that has ended is told elsewhere
		case r.Error != nil:
			o.answered(r.ID, failure(int(r.Error.Code), r.Error.Error()))
		case r.ID != 0:
			o.answered(r.ID, nil)
		}
	}
}

func (o *clientOutlet) answered(id uint32, err error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if answer := o.pending[id]; answer != nil {
		answer <- err // there is room for one, and it is asked once
		delete(o.pending, id)
	}
}

// closed tells all who wait that no answer will come.
func (o *clientOutlet) closed(_ *websocket.Conn, info *session.CloseInfo) {
	reason, _ := ending(info)
	o.mu.Lock()
	defer o.mu.Unlock()
	for _, answer := range o.pending {
		answer <- errors.New(reason)
	}
	o.pending = nil
}

func (o *clientOutlet) close() { _ = o.client.Close() }

// outlets makes the outlets of the writers.
func outlets(ctx context.Context, p *plan) ([]outlet, error) {
	if p.writers == 0 {
		return nil, nil
	}
	if p.spec.Publish == ByClient {
		o, err := newClientOutlet(ctx, &p.spec)
		if err != nil {
			return nil, err
		}
		return []outlet{o}, nil
	}
	list := make([]outlet, p.writers)
	for i := range list {
		o, err := newAPIOutlet(&p.spec)
		if err != nil {
			return nil, err
		}
		list[i] = o
	}
	return list, nil
}
