package websocket_test

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"net/http/httptest"
	neturl "net/url"
	"strings"
	"time"

	"github.com/sluice-push/sluice/reconnect"
	"github.com/sluice-push/sluice/session"
	"github.com/sluice-push/sluice/websocket"
	"github.com/sluice-push/sluice/websocket/wire"
)

// running runs a server on a free port and returns its URL.
func running(srv *websocket.Server) (url string, stop func()) {
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		log.Fatal(err)
	}
	served := make(chan struct{})
	go func() { defer close(served); _ = srv.Serve(ln) }()
	return "ws://" + ln.Addr().String() + "/", func() { _ = srv.Close(); <-served }
}

// dialed returns a connection to a server.
func dialed(url string, o *websocket.Options) *websocket.Conn {
	c, err := websocket.Dial(context.Background(), url, o)
	if err != nil {
		log.Fatal(err)
	}
	return c
}

// printNext prints the next message of a connection.
func printNext(c *websocket.Conn) {
	m, err := c.Receive(context.Background())
	if err != nil {
		log.Fatal(err)
	}
	fmt.Printf("%s\n", m.Data)
}

// A server in two lines, and a client.
func Example() {
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		log.Fatal(err)
	}

	echo := func(c *websocket.Conn, m websocket.Message) { _ = c.Send(m.Op, m.Data) }
	srv := websocket.NewServer(&websocket.Handler{Message: echo}, nil)
	go func() { _ = srv.Serve(ln) }()
	defer srv.Close()

	c := dialed("ws://"+ln.Addr().String(), nil)
	defer c.CloseNow()
	_ = c.SendText("hello")
	printNext(c)
	// Output: hello
}

// On a path of a net/http server: the connection keeps no memory of net/http.
func ExampleServer_ServeHTTP() {
	live := websocket.NewServer(echo, nil)
	defer live.Close()

	mux := http.NewServeMux()
	mux.Handle("/live", live)
	mux.HandleFunc("/", func(w http.ResponseWriter, r *http.Request) { fmt.Fprintln(w, "a page") })

	web := httptest.NewServer(mux)
	defer web.Close()
	c := dialed("ws"+strings.TrimPrefix(web.URL, "http")+"/live", nil)
	defer c.CloseNow()
	_ = c.SendText("hello")
	printNext(c)
	// Output: hello
}

// An upgrade listener serves WebSocket requests where connections are accepted, and leaves the others to net/http.
func ExampleNewUpgradeListener() {
	live := websocket.NewServer(echo, nil)
	defer live.Close()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		log.Fatal(err)
	}
	addr := ln.Addr().String()

	mux := http.NewServeMux()
	mux.HandleFunc("/", func(w http.ResponseWriter, r *http.Request) { fmt.Fprintln(w, "a page") })
	mux.Handle("/live", live) // requests that are not served in place
	ln = websocket.NewUpgradeListener(ln, func(r *http.Request) http.Handler {
		if r.URL.Path != "/live" {
			return nil
		}
		return live
	}, nil)
	web := &http.Server{Handler: mux, ReadHeaderTimeout: 10 * time.Second}
	go func() { _ = web.Serve(ln) }()
	defer web.Close()

	c := dialed("ws://"+addr+"/live", nil)
	defer c.CloseNow()
	_ = c.SendText("hello")
	printNext(c)
	// Output: hello
}

// follow prints the messages of a server until the connection ends.
func follow(ctx context.Context, url string) error {
	c, err := websocket.Dial(ctx, url, nil)
	if err != nil {
		return err
	}
	defer c.CloseNow()
	for m := range c.Messages(ctx, &err) {
		fmt.Printf("%s\n", m.Data) // valid until the next one
	}
	return err // nil if the server closed the connection in order
}

// A client fetches its messages. The loop ends when the server closes the connection.
func ExampleConn_Messages() {
	url, stop := running(websocket.NewServer(&websocket.Handler{
		Open: func(c *websocket.Conn, _ *websocket.Request) error {
			return errors.Join(c.SendText("sunny"), c.SendText("still sunny"), c.Close(websocket.CloseGoingAway, "no more"))
		},
	}, nil))
	defer stop()

	fmt.Println(follow(context.Background(), url))
	// Output:
	// sunny
	// still sunny
	// <nil>
}

// shout answers in capitals. The server has Handler.Pull.
func shout(srv *websocket.Server, w http.ResponseWriter, r *http.Request) {
	c, err := srv.Upgrade(w, r)
	if err != nil {
		return // the client has been answered
	}
	for m := range c.Messages(r.Context(), &err) {
		_ = c.SendText(strings.ToUpper(string(m.Data)))
	}
}

// Under net/http a handler may keep its goroutine and fetch the messages itself.
func ExampleServer_Upgrade() {
	srv := websocket.NewServer(&websocket.Handler{Pull: true}, nil)
	defer srv.Close()
	web := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { shout(srv, w, r) }))
	defer web.Close()

	c := dialed("ws"+strings.TrimPrefix(web.URL, "http"), nil)
	defer c.CloseNow()
	_ = c.SendText("hello")
	printNext(c)
	// Output: HELLO
}

// upload sends the data of a reader, of any length, as one message.
func upload(c *websocket.Conn, r io.Reader) error {
	w, err := c.NextWriter(websocket.OpBinary)
	if err != nil {
		return err
	}
	_, err = io.Copy(w, r)
	return errors.Join(err, w.Close())
}

// Messages larger than memory, in both directions.
func ExampleConn_NextReader() {
	conns := make(chan *websocket.Conn, 1)
	url, stop := running(websocket.NewServer(&websocket.Handler{
		Pull: true,
		Open: func(c *websocket.Conn, _ *websocket.Request) error { conns <- c; return nil },
	}, &websocket.Options{MaxMessage: 1 << 30}))
	defer stop()
	c := dialed(url, nil)
	defer c.CloseNow()
	sent := make(chan error, 1)
	go func() { sent <- upload(c, io.LimitReader(zeros{}, 10<<20)) }()

	_, r, err := (<-conns).NextReader(context.Background())
	if err != nil {
		log.Fatal(err)
	}
	n, err := io.Copy(io.Discard, r) // as it arrives
	fmt.Println(n, err, <-sent)
	// Output: 10485760 <nil> <nil>
}

// zeros is a source without end.
type zeros struct{}

func (zeros) Read(p []byte) (int, error) { clear(p); return len(p), nil }

// tell sends a message to all clients. The server has the policy session.Refuse, so that a slow client does not delay the others.
func tell(srv *websocket.Server, text string) {
	p := websocket.Prepare(websocket.OpText, []byte(text))
	websocket.Broadcast(p, srv.Conns(), func(c *websocket.Conn, err error) {
		if errors.Is(err, session.ErrQueueFull) {
			_ = c.Close(4008, "you read too slowly")
		}
	})
}

// One frame for all connections. A client that does not keep up is disconnected, and may connect again.
func ExamplePrepare() {
	opened := make(chan struct{})
	srv := websocket.NewServer(&websocket.Handler{
		Open: func(*websocket.Conn, *websocket.Request) error { opened <- struct{}{}; return nil },
	}, &websocket.Options{Session: session.Options{Policy: session.Refuse}})
	url, stop := running(srv)
	defer stop()
	ann, bob := dialed(url, nil), dialed(url, nil)
	defer ann.CloseNow()
	defer bob.CloseNow()
	<-opened
	<-opened

	tell(srv, "the same for all")
	printNext(ann)
	printNext(bob)
	// Output:
	// the same for all
	// the same for all
}

// Compression is used if both sides enable it.
func ExampleCompression() {
	o := &websocket.Options{Compression: &websocket.Compression{}}
	url, stop := running(websocket.NewServer(echo, o))
	defer stop()

	compressed := make(chan bool, 1)
	c := dialed(url, &websocket.Options{
		Compression: &websocket.Compression{},
		Accepted: func(r *websocket.ClientResponse) error {
			compressed <- strings.HasPrefix(r.Extensions, "permessage-deflate")
			return nil
		},
	})
	defer c.CloseNow()
	_ = c.SendText(strings.Repeat("again and ", 10) + "again")
	m, err := c.Receive(context.Background())
	fmt.Println(<-compressed, len(m.Data), err)
	// Output: true 105 <nil>
}

// A close code states the reason; the other side gets it.
func ExampleConn_Close() {
	told := make(chan uint16)
	srv := websocket.NewServer(&websocket.Handler{
		Message: func(c *websocket.Conn, _ websocket.Message) { _ = c.Close(4003, "log in first") },
		Close:   func(_ *websocket.Conn, info *session.CloseInfo) { told <- websocket.CodeOf(info.Err) },
	}, nil)
	url, stop := running(srv)
	defer stop()

	c := dialed(url, nil)
	_ = c.SendText("give me everything")
	_, err := c.Receive(context.Background())
	if end, ok := errors.AsType[*websocket.CloseError](err); ok {
		fmt.Println(end.Code, end.Reason, end.Remote)
	}
	fmt.Println(websocket.CodeOf(err), <-told)
	// Output:
	// 4003 log in first true
	// 4003 4003
}

// player is the state of a connection.
type player struct {
	name  string
	moves int
}

// playerOf is the only function that knows the type of Value.
func playerOf(c *websocket.Conn) *player { return c.Value().(*player) }

// game is a handler of connections with a state.
var game = &websocket.Handler{
	Open: func(c *websocket.Conn, r *websocket.Request) error {
		c.SetValue(&player{name: strings.Clone(r.RawQuery)})
		return nil
	},
	Message: func(c *websocket.Conn, m websocket.Message) {
		p := playerOf(c)
		p.moves++
		_ = c.SendText(fmt.Sprintf("%s, move %d: %s", p.name, p.moves, m.Data))
	},
}

// A connection with a state. The functions of one connection run one after the other, so the state needs no lock.
func ExampleConn_SetValue() {
	url, stop := running(websocket.NewServer(game, nil))
	defer stop()

	c := dialed(url+"?ann", nil)
	defer c.CloseNow()
	_ = errors.Join(c.SendText("e4"), c.SendText("e5"))
	printNext(c)
	printNext(c)
	// Output:
	// ann, move 1: e4
	// ann, move 2: e5
}

// secure connects over TLS, to a server whose certificate one of roots has signed.
func secure(ctx context.Context, url string, roots *x509.CertPool) (*websocket.Conn, error) {
	return websocket.Dial(ctx, url, &websocket.Options{
		Header:  http.Header{"Authorization": {"Bearer secret"}},
		Session: session.Options{TLS: &tls.Config{RootCAs: roots}},
	})
}

// A connection over TLS, with a private certificate authority.
func ExampleDial() {
	srv := websocket.NewServer(echo, nil)
	defer srv.Close()
	web := httptest.NewTLSServer(srv)
	defer web.Close()

	roots := x509.NewCertPool()
	roots.AddCert(web.Certificate())
	c, err := secure(context.Background(), "wss"+strings.TrimPrefix(web.URL, "https"), roots)
	if err != nil {
		log.Fatal(err)
	}
	defer c.CloseNow()
	_ = c.SendText("hello")
	printNext(c)
	// Output: hello
}

// public holds the settings of a server on the open internet.
var public = &websocket.Options{
	Origins:      []string{"https://example.com", "https://*.example.org"},
	Subprotocols: []string{"prices.v2", "prices.v1"},
	MaxMessage:   4 << 10,
	Ping:         25 * time.Second,
	Accept: func(r *websocket.Request, _ *websocket.Response) error {
		if r.Path != "/live" {
			return &websocket.Refusal{Status: http.StatusNotFound, Reason: "nothing here"}
		}
		return nil
	},
	Session: session.Options{MaxSessions: 100_000, MaxSessionsPerAddress: 100, NotSentLowat: 16 << 10},
}

// Origins, subprotocols and the Accept function restrict the clients of a server.
func ExampleOptions() {
	url, stop := running(websocket.NewServer(echo, public))
	defer stop()

	c := dialed(url+"live", &websocket.Options{Subprotocols: []string{"prices.v1"}})
	defer c.CloseNow()
	_, err := websocket.Dial(context.Background(), url+"nowhere", nil)
	refused, ok := errors.AsType[*wire.HandshakeError](err)
	fmt.Println(c.Subprotocol(), ok, refused.Status)
	// Output: prices.v1 true 404
}

// A client with many connections, whose handler gets the messages.
func ExampleClient() {
	url, stop := running(websocket.NewServer(echo, nil))
	defer stop()

	got := make(chan string)
	client := websocket.NewClient(&websocket.Handler{
		Message: func(_ *websocket.Conn, m websocket.Message) { got <- string(m.Data) },
	}, nil)
	defer client.Close()
	for range 2 {
		c, err := client.Dial(context.Background(), url)
		if err != nil {
			log.Fatal(err)
		}
		_ = c.SendText("hello")
	}
	fmt.Println(<-got, <-got, client.Len())
	// Output: hello hello 2
}

// A client that reconnects automatically, with a new token each time, and subscribes again.
func ExampleClient_DialSession() {
	url, stop := running(websocket.NewServer(&websocket.Handler{
		Message: func(c *websocket.Conn, m websocket.Message) {
			_ = c.Send(m.Op, m.Data)
			if string(m.Data) == "restart" {
				_ = c.Close(websocket.CloseServiceRestart, "")
			}
		},
	}, nil))
	defer stop()

	got := make(chan string, 8)
	client := websocket.NewClient(&websocket.Handler{
		Message: func(_ *websocket.Conn, m websocket.Message) { got <- string(m.Data) },
	}, &websocket.Options{RequestHeader: func(context.Context, *neturl.URL) (http.Header, error) {
		return http.Header{"Authorization": {"Bearer " + newToken()}}, nil
	}})
	defer client.Close()
	pool, err := reconnect.New(nil, &reconnect.Options{
		Addresses:   []string{url},
		DialSession: client.DialSession,
		Resume: func(_ context.Context, s *session.Session) error {
			return s.Value().(*websocket.Conn).SendText("subscribe")
		},
	})
	if err != nil {
		log.Fatal(err)
	}
	defer pool.Close()
	if err := pool.Wait(context.Background(), 1); err != nil {
		log.Fatal(err)
	}
	fmt.Println(<-got)
	_ = pool.Send("", []byte("restart"))
	fmt.Println(<-got)
	fmt.Println(<-got) // on the next connection
	// Output:
	// subscribe
	// restart
	// subscribe
}

// newToken stands for a request to an identity provider.
func newToken() string { return "secret" }
