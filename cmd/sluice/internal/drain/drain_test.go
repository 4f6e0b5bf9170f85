package drain_test

import (
	"bufio"
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/sluice-push/sluice/cmd/sluice/internal/drain"
	"github.com/sluice-push/sluice/internal/testwait"
	"github.com/sluice-push/sluice/push/config"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// clients are seven clients, whose drain takes until the channel is closed.
type clients chan struct{}

func (clients) Len() int { return 7 }

func (c clients) Drain(ctx context.Context, over time.Duration) error {
	if over != time.Hour {
		return fmt.Errorf("to drain over %v", over)
	}
	select {
	case <-c:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// serve returns the drain of a node, the address at which it takes requests, and how many connections the node has closed.
func serve(t *testing.T, defaults config.Shutdown, c clients) (d *drain.Drain, addr string, closed *atomic.Int64) {
	t.Helper()
	d, closed = drain.New(defaults), new(atomic.Int64)
	d.Serve(c)
	server := httptest.NewUnstartedServer(d)
	server.Listener = listener{server.Listener, closed}
	server.Start()
	t.Cleanup(server.Close)
	return d, server.Listener.Addr().String(), closed
}

// listener counts its connections that are closed.
type listener struct {
	net.Listener
	closed *atomic.Int64
}

func (l listener) Accept() (net.Conn, error) {
	c, err := l.Listener.Accept()
	return &conn{c, l.closed}, err
}

type conn struct {
	net.Conn
	closed *atomic.Int64
}

func (c *conn) Close() error {
	c.closed.Add(1)
	return c.Conn.Close()
}

// watch sends a request that waits for the end, and returns the status and the body.
func watch(t *testing.T, addr string) (conn net.Conn, status string, body *bufio.Reader) {
	t.Helper()
	conn, err := net.Dial("tcp", addr)
	must(t, err)
	t.Cleanup(func() { _ = conn.Close() })
	must(t, conn.SetDeadline(time.Now().Add(testwait.Bound)))
	_, err = fmt.Fprintf(conn, "POST /drain?wait=true HTTP/1.1\r\nHost: x\r\n\r\n")
	must(t, err)
	body = bufio.NewReader(conn)
	res, err := http.ReadResponse(body, nil)
	must(t, err)
	return conn, res.Status, body
}

// A request that waits gets a line for each state, and its connection stays open after the last one, until the process ends.
func TestWatch(t *testing.T) {
	c := make(clients)
	d, addr, closed := serve(t, config.Shutdown{Delay: config.Duration(time.Nanosecond), Spread: config.Duration(time.Hour)}, c)
	_, _, body := watch(t, addr)
	want := func(state drain.State, text string) {
		t.Helper()
		line, err := body.ReadString('\n')
		must(t, err)
		var r drain.Report
		must(t, json.Unmarshal([]byte(line), &r))
		if r.State != state || !r.Started || r.Clients != 7 || r.ClientsAtStart != 7 || r.Error != text || time.Duration(r.Spread) != time.Hour {
			t.Errorf("the node says %s", line)
		}
	}
	want(drain.Delay, "")
	testwait.Receive(t, d.Requested())
	ran := make(chan struct{})
	go func() {
		defer close(ran)
		d.Run(t.Context(), slog.New(slog.DiscardHandler))
	}()
	want(drain.Spread, "")
	close(c)
	testwait.Receive(t, ran)
	d.Shutdown()
	want(drain.Shutdown, "")
	d.End(errors.New("it broke"))
	want(drain.Ended, "it broke")
	if n := closed.Load(); n != 0 {
		t.Error("the node has closed the connection, which says that its process has ended")
	}
}

// Only so many requests may wait. One that is gone makes room, and End waits for none that is gone.
func TestWatchers(t *testing.T) {
	d, addr, _ := serve(t, config.Shutdown{Delay: config.Duration(time.Hour)}, make(clients))
	var all []net.Conn
	for range drain.MostWatchers {
		conn, status, _ := watch(t, addr)
		if !strings.HasPrefix(status, "200") {
			t.Fatalf("answered %s", status)
		}
		all = append(all, conn)
	}
	if _, status, _ := watch(t, addr); !strings.HasPrefix(status, "503") {
		t.Errorf("one more is answered %s", status)
	}
	must(t, all[0].Close())
	testwait.True(t, "there is room again", func() bool {
		_, status, _ := watch(t, addr)
		return strings.HasPrefix(status, "200")
	})
	testwait.Return(t, func() { d.End(nil) })
}

// A node that does not serve clients yet does not drain.
func TestNotServing(t *testing.T) {
	d := drain.New(config.Shutdown{})
	w := httptest.NewRecorder()
	r := httptest.NewRequestWithContext(t.Context(), http.MethodPost, drain.Path, nil)
	r.RemoteAddr = "127.0.0.1:1"
	d.ServeHTTP(w, r)
	if w.Code != http.StatusServiceUnavailable || w.Header().Get("Retry-After") != "1" || d.IsGoing() {
		t.Errorf("status %d, header %v", w.Code, w.Header())
	}
}

// A request from another machine needs a client certificate.
func TestElsewhere(t *testing.T) {
	withCertificate := &tls.ConnectionState{PeerCertificates: []*x509.Certificate{{}}}
	for _, tt := range []struct {
		from, to string
		state    *tls.ConnectionState
		want     bool
	}{
		{"127.0.0.1:1", "127.0.0.1:9000", nil, true},
		{"127.8.9.10:1", "127.0.0.1:9000", nil, true},
		{"[::1]:1", "[::1]:9000", nil, true},
		{"[::ffff:127.0.0.1]:1", "[::]:9000", nil, true},
		{"10.0.0.1:1", "10.0.0.1:9000", nil, true},
		{"[::ffff:10.0.0.1]:1", "10.0.0.1:9000", nil, true},
		{"10.0.0.2:1", "10.0.0.1:9000", nil, false},
		{"10.0.0.2:1", "10.0.0.1:9000", new(tls.ConnectionState), false},
		{"10.0.0.2:1", "10.0.0.1:9000", withCertificate, true},
		{"[2001:db8::2]:1", "[2001:db8::1]:9000", nil, false},
		{"", "10.0.0.1:9000", nil, false},
		{"@", "10.0.0.1:9000", nil, false},
	} {
		local, err := net.ResolveTCPAddr("tcp", tt.to)
		must(t, err)
		r := httptest.NewRequestWithContext(context.WithValue(t.Context(), http.LocalAddrContextKey, local), http.MethodPost, drain.Path, nil)
		r.RemoteAddr, r.TLS = tt.from, tt.state
		d, w := drain.New(config.Shutdown{}), httptest.NewRecorder()
		d.Serve(make(clients))
		d.ServeHTTP(w, r)
		if (w.Code == http.StatusOK) != tt.want || d.IsGoing() != tt.want || !tt.want && w.Code != http.StatusForbidden {
			t.Errorf("from %q to %s with TLS %v: status %d", tt.from, tt.to, tt.state != nil, w.Code)
		}
	}
}
