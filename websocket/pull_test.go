package websocket_test

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/cookiejar"
	"net/http/httptest"
	"net/url"
	"runtime"
	"strings"
	"testing"

	"github.com/sluice-push/sluice/session"
	"github.com/sluice-push/sluice/websocket"
)

// A context that ends loses no message, neither between messages nor within one.
func TestInterrupted(t *testing.T) {
	for name, compression := range compressions {
		conns := make(chan *websocket.Conn, 1)
		_, url := serve(t, &websocket.Handler{Open: func(c *websocket.Conn, _ *websocket.Request) error {
			conns <- c
			return nil
		}}, &websocket.Options{Compression: compression})
		c := dial(t, url, &websocket.Options{MaxMessage: 1 << 20, Compression: compression})
		server := get(t, conns)

		w, err := server.NextWriter(websocket.OpText)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := w.Write(text(50_000)); err != nil { // some frames, and not the last
			t.Fatal(err)
		}
		for range 3 {
			ctx, cancel := context.WithCancel(context.Background())
			received := make(chan error, 1)
			go func() {
				_, err := c.Receive(ctx)
				received <- err
			}()
			cancel()
			if err := get(t, received); !errors.Is(err, context.Canceled) {
				t.Fatalf("%s: %v", name, err)
			}
		}
		if err := errors.Join(w.Close(), server.SendText("next"), server.SendText("last")); err != nil {
			t.Fatal(err)
		}
		if m := receive(t, c); !bytes.Equal(m.Data, text(50_000)) {
			t.Errorf("%s: got %d bytes", name, len(m.Data))
		}
		for m := range c.Messages(within(t), &err) {
			if err != nil || string(m.Data) != "next" {
				t.Errorf("%s: got %q, %v", name, m.Data, err)
			}
			break
		}
		if m := receive(t, c); string(m.Data) != "last" {
			t.Errorf("%s: got %q", name, m.Data)
		}
	}
}

// A stream that begins after an interrupted Receive is complete. The unread rest of a stream is skipped.
func TestPassedOver(t *testing.T) {
	for name, compression := range compressions {
		_, url := serve(t, echo, &websocket.Options{MaxMessage: 1 << 20, Compression: compression})
		c := dial(t, url, &websocket.Options{MaxMessage: 1 << 20, Compression: compression})
		for _, n := range []int{100_000, 200, 90_000, 7} {
			if err := c.Send(websocket.OpText, text(n)); err != nil {
				t.Fatal(err)
			}
		}
		_, r, err := c.NextReader(within(t))
		if err != nil {
			t.Fatal(err)
		}
		part := make([]byte, 1000)
		if _, err := io.ReadFull(r, part); err != nil || !bytes.Equal(part, text(1000)) {
			t.Fatalf("%s: %v", name, err)
		}
		if m := receive(t, c); len(m.Data) != 200 {
			t.Errorf("%s: got %d bytes, want 200", name, len(m.Data))
		}
		if _, _, err := c.NextReader(within(t)); err != nil {
			t.Fatal(err)
		}
		_, last, err := c.NextReader(within(t))
		if err != nil {
			t.Fatal(err)
		}
		if all, err := io.ReadAll(last); err != nil || !bytes.Equal(all, text(7)) {
			t.Errorf("%s: got %d bytes, %v", name, len(all), err)
		}
		if n, err := r.Read(part); n != 0 || !errors.Is(err, io.EOF) {
			t.Errorf("%s: a reader that was passed over gives %d bytes, %v", name, n, err)
		}
	}
}

// A message that is cut off by the end of the connection is an error, not an orderly end.
func TestCutOff(t *testing.T) {
	_, url := serve(t, &websocket.Handler{Open: func(c *websocket.Conn, _ *websocket.Request) error {
		w, err := c.NextWriter(websocket.OpBinary)
		if err == nil {
			_, err = w.Write(noise(20_000))
		}
		return errors.Join(err, c.Close(4000, ""))
	}}, nil)
	c := dial(t, url, nil)
	_, r, err := c.NextReader(within(t))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := io.ReadAll(r); !errors.Is(err, io.ErrUnexpectedEOF) || websocket.CodeOf(err) != 4000 {
		t.Errorf("got %v", err)
	}
	_, url = serve(t, &websocket.Handler{Open: func(c *websocket.Conn, _ *websocket.Request) error {
		w, err := c.NextWriter(websocket.OpBinary)
		if err == nil {
			_, err = w.Write(noise(20_000))
		}
		return errors.Join(err, c.Close(websocket.CloseNormal, ""))
	}}, nil)
	var failed error
	for m := range dial(t, url, nil).Messages(within(t), &failed) {
		t.Errorf("got %d bytes", len(m.Data))
	}
	if !errors.Is(failed, io.ErrUnexpectedEOF) {
		t.Errorf("got %v", failed)
	}
}

// A receiver answers the message before a close frame, or before a broken rule, before the close frame in reply is sent
// (crossbario/autobahn-testsuite, case 5.15).
func TestTheLastMessageIsAnswered(t *testing.T) {
	eachWay(t, func(t *testing.T, start starter) {
		for name, test := range map[string]struct {
			behind []byte // the message, in the same write
			code   uint16
		}{
			"close":     {[]byte{0x88, 0x82, 0, 0, 0, 0, 0x0f, 0xa0}, 4000},
			"violation": {[]byte{0x83, 0x80, 0, 0, 0, 0}, websocket.CloseProtocolError},
		} {
			conns := make(chan *websocket.Conn, 1)
			_, url := start(&websocket.Handler{Pull: true, Open: func(c *websocket.Conn, _ *websocket.Request) error {
				conns <- c
				return nil
			}}, nil)
			for range 20 {
				c := dial(t, url, nil)
				if err := c.Session().Write(append([]byte{0x81, 0x81, 0, 0, 0, 0, 'q'}, test.behind...)); err != nil {
					t.Fatal(name, err)
				}
				server := get(t, conns)
				m := receive(t, server)
				runtime.Gosched() // the close frame is seen now, most of the time
				if err := server.Send(m.Op, append(m.Data, '!')); err != nil {
					t.Fatalf("%s: the answer is refused: %v", name, err)
				}
				if m := receive(t, c); string(m.Data) != "q!" {
					t.Errorf("%s: answered with %q", name, m.Data)
				}
				if _, err := server.Receive(within(t)); websocket.CodeOf(err) != test.code {
					t.Errorf("%s: received at the end: %v", name, err)
				}
				if _, err := c.Receive(within(t)); websocket.CodeOf(err) != test.code {
					t.Errorf("%s: the client is told %v", name, err)
				}
				if err := server.SendText("late"); !errors.Is(err, websocket.ErrClosed) {
					t.Errorf("%s: sending at the end: %v", name, err)
				}
			}
		}
	})
}

// Only one goroutine at a time may fetch, and a corrupt message that is read as a stream ends the connection.
func TestAsking(t *testing.T) {
	_, url := serve(t, &websocket.Handler{Message: func(c *websocket.Conn, _ websocket.Message) {
		_ = c.Session().Write([]byte{0xc1, 0x01, 0xff})
	}}, &websocket.Options{Compression: &websocket.Compression{}})
	c := dial(t, url, &websocket.Options{Compression: &websocket.Compression{}})
	ctx, cancel := context.WithCancel(context.Background())
	asking := make(chan error, 2)
	for range 2 {
		go func() {
			_, _, err := c.NextReader(ctx)
			asking <- err
		}()
	}
	if err := get(t, asking); !errors.Is(err, session.ErrReceiving) { // the other one waits
		t.Errorf("who asks while another does is told %v", err)
	}
	cancel()
	if err := get(t, asking); !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
	if err := c.SendText("go"); err != nil {
		t.Fatal(err)
	}
	_, r, err := c.NextReader(within(t))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := io.ReadAll(r); websocket.CodeOf(err) != websocket.CloseInvalidPayload {
		t.Errorf("a corrupt stream is %v", err)
	}
	if err := c.SendText("more"); !errors.Is(err, websocket.ErrClosed) {
		t.Errorf("after it: %v", err)
	}
}

// A client's options set the origin and the host, and a function sets fields of each request (gobwas/ws#188, gorilla/websocket#63).
func TestDialHeaders(t *testing.T) {
	asked := make(chan string, 2)
	_, address := serve(t, echo, &websocket.Options{
		Origins: []string{"https://page.example"},
		Accept: func(r *websocket.Request, _ *websocket.Response) error {
			asked <- r.Host + " " + r.Header.Get("Authorization") + " " + r.Header.Get("X-Always")
			return nil
		},
	})
	tokens, fail := 0, errors.New("no token")
	client := websocket.NewClient(nil, &websocket.Options{
		Origin: "https://page.example", Host: "by.name:1", Header: http.Header{"X-Always": {"a"}, "Authorization": {"old"}},
		RequestHeader: func(ctx context.Context, u *url.URL) (http.Header, error) {
			if tokens++; ctx.Err() != nil || u.String() != address {
				t.Errorf("asked for %v, %v", u, ctx.Err())
			}
			if tokens == 3 {
				return nil, fail
			}
			return http.Header{"Authorization": {fmt.Sprint("token ", tokens)}}, nil
		},
	})
	defer client.Close()
	for i := range 2 {
		c, err := client.Dial(within(t), address)
		if err != nil {
			t.Fatal(err)
		}
		if got, want := get(t, asked), fmt.Sprintf("by.name:1 token %d a", i+1); got != want {
			t.Errorf("the server was asked %q, want %q", got, want)
		}
		_ = c.Close(websocket.CloseNormal, "")
	}
	if _, err := client.Dial(within(t), address); !errors.Is(err, fail) {
		t.Errorf("without a token: %v", err)
	}
}

// Connections over TLS, with cookies, and through a proxy.
func TestDial(t *testing.T) {
	srv := websocket.NewServer(echo, &websocket.Options{Accept: func(r *websocket.Request, res *websocket.Response) error {
		if strings.Contains(r.Header.Get("Cookie"), "known=yes") {
			res.Subprotocol = "known"
		}
		res.Header.Set("Set-Cookie", "known=yes")
		return nil
	}})
	front := httptest.NewTLSServer(srv)
	defer srv.Close()
	defer front.Close()
	roots := x509.NewCertPool()
	roots.AddCert(front.Certificate())
	jar, err := cookiejar.New(nil)
	if err != nil {
		t.Fatal(err)
	}
	proxied := 0
	proxy := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		proxied++
		w.WriteHeader(http.StatusBadGateway)
	}))
	defer proxy.Close()
	o := &websocket.Options{Jar: jar, Subprotocols: []string{"known"}, Session: session.Options{TLS: &tls.Config{RootCAs: roots}}}
	address := "wss" + strings.TrimPrefix(front.URL, "https")
	for _, want := range []string{"", "known"} {
		c := dial(t, address, o)
		if err := c.SendContext(within(t), websocket.OpBinary, noise(100_000)); err == nil {
			_, err = c.Receive(within(t))
			if websocket.CodeOf(err) != websocket.CloseTooBig {
				t.Error(err)
			}
		}
		if c.Subprotocol() != want {
			t.Errorf("subprotocol %q, want %q", c.Subprotocol(), want)
		}
	}
	o.Proxy = func(u *url.URL) (*url.URL, error) {
		if u.Scheme != "https" {
			t.Errorf("asked for a proxy for %v", u)
		}
		return url.Parse(proxy.URL)
	}
	if _, err := websocket.Dial(within(t), address, o); err == nil || !strings.Contains(err.Error(), "502") || proxied != 1 {
		t.Errorf("through a proxy that refuses: %v", err)
	}
}

// A send that waits for a peer that does not read ends with its context, and so does the connection.
func TestSendContext(t *testing.T) {
	_, address := serve(t, &websocket.Handler{Pull: true}, nil) // no goroutine fetches
	c := dial(t, address, nil)
	ctx, cancel := context.WithCancelCause(context.Background())
	why := errors.New("tired of waiting")
	sent := make(chan error, 1)
	go func() {
		for {
			if err := c.SendContext(ctx, websocket.OpBinary, noise(50_000)); err != nil {
				sent <- err
				return
			}
		}
	}()
	cancel(why)
	if err := get(t, sent); !errors.Is(err, why) && !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
}

// The buffer of a large message is freed when the next one is awaited.
func TestForgotten(t *testing.T) {
	const size = 32 << 20
	o := &websocket.Options{MaxMessage: -1, Compression: &websocket.Compression{}}
	_, url := serve(t, &websocket.Handler{Open: func(c *websocket.Conn, _ *websocket.Request) error {
		_ = c.Send(websocket.OpBinary, make([]byte, size))
		return nil
	}}, o)
	c := dial(t, url, o)
	if m := receive(t, c); len(m.Data) != size {
		t.Fatalf("got %d bytes", len(m.Data))
	}
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	if _, err := c.Receive(ctx); !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
	if n := heap(); n > size/2 {
		t.Errorf("%d bytes are in use", n)
	}
	if err := c.SendText("here"); err != nil { // so that it is not forgotten itself
		t.Error(err)
	}
}
