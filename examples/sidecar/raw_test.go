package main_test

import (
	"bytes"
	"errors"
	"io"
	"net"
	"os"
	"testing"
	"time"

	sidecar "github.com/sluice-push/sluice/examples/sidecar"
	"github.com/sluice-push/sluice/internal/testwait"
	"github.com/sluice-push/sluice/rpc/frame"
	"github.com/sluice-push/sluice/splice"
)

// raw connects a client of bytes.
func raw(t *testing.T, ln net.Listener) net.Conn {
	t.Helper()
	conn, err := net.Dial(ln.Addr().Network(), ln.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close() })
	conn.SetDeadline(time.Now().Add(testwait.Bound))
	return conn
}

// echo returns the frame of a call with a body.
func echo(t *testing.T, body []byte) []byte {
	t.Helper()
	f := &frame.Frame{Dialect: frame.Dialect{Framing: frame.TTHeader, Protocol: frame.Bare}, Kind: frame.Call, Sequence: 7, Method: []byte("Echo")}
	wire, err := f.AppendEncode(nil, body)
	if err != nil {
		t.Fatal(err)
	}
	return wire
}

// A call of which a part has arrived when the proxy is to end is forwarded to its end, and answered.
func TestShutdownInFrame(t *testing.T) {
	for name, threshold := range map[string]int64{"spliced": -1, "copied": 1 << 40} {
		t.Run(name, func(t *testing.T) {
			s := serve(t, listen(t, "tcp"))
			p := sidecar.NewProxy(where(s.ln), 1, &splice.Options{Threshold: threshold})
			ln := start(t, "unix", p)
			conn := raw(t, ln)
			body := bytes.Repeat([]byte("sluice"), 200_000)
			call := echo(t, body)
			if _, err := conn.Write(call[:len(call)/2]); err != nil {
				t.Fatal(err)
			}
			testwait.True(t, "the call is being forwarded", func() bool { calls, _ := p.Calls(); return calls == 1 })
			ended := make(chan error, 1)
			go func() { ended <- p.Shutdown(testwait.Context(t)) }()
			testwait.True(t, "no more calls are taken", p.Draining)
			if _, err := conn.Write(call[len(call)/2:]); err != nil {
				t.Fatal(err)
			}
			answers, err := io.ReadAll(conn)
			if err != nil {
				t.Fatal(err)
			}
			c := frame.New(nil)
			got, n, err := c.Decode(answers)
			if err != nil || n <= 0 || c.Frame().Kind != frame.Reply || c.Frame().Sequence != 7 || !bytes.Equal(got, body) {
				t.Fatalf("%d bytes: %d, %v", len(answers), n, err)
			}
			if err := testwait.Receive(t, ended); err != nil {
				t.Error(err)
			}
			if p.Failed() != 0 {
				t.Error("the connection did not end in order")
			}
		})
	}
}

// halfClosed makes a call through a proxy and half-closes the client. It returns both ends when the server has read the call and its end.
func halfClosed(t *testing.T, p *sidecar.Proxy, servers net.Listener) (client, server net.Conn, call []byte) {
	t.Helper()
	client = raw(t, start(t, "tcp", p))
	server, err := servers.Accept()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = server.Close() })
	call = echo(t, []byte("late"))
	if _, err := client.Write(call); err != nil {
		t.Fatal(err)
	}
	if err := client.(*net.TCPConn).CloseWrite(); err != nil {
		t.Fatal(err)
	}
	server.SetDeadline(time.Now().Add(testwait.Bound))
	if got, err := io.ReadAll(server); err != nil || !bytes.Equal(got, call) {
		t.Fatalf("the server got %d bytes, %v", len(got), err)
	}
	return client, server, call
}

// A client that half-closes its connection still gets its answer.
func TestHalfClose(t *testing.T) {
	servers := listen(t, "tcp")
	defer servers.Close()
	p := sidecar.NewProxy(where(servers), 1, nil)
	client, server, call := halfClosed(t, p, servers)
	if _, err := server.Write(call); err != nil {
		t.Fatal(err)
	}
	_ = server.Close()
	if got, err := io.ReadAll(client); err != nil || !bytes.Equal(got, call) {
		t.Errorf("the client got %d bytes, %v", len(got), err)
	}
	testwait.True(t, "the client is gone", func() bool { return p.Clients() == 0 })
	if p.Failed() != 0 {
		t.Error("the connection did not end in order")
	}
}

// A server that stays when its client has left is disconnected after some time.
func TestLinger(t *testing.T) {
	servers := listen(t, "tcp")
	defer servers.Close()
	p := sidecar.NewProxy(where(servers), 1, nil)
	p.SetLinger(time.Millisecond)
	client, _, _ := halfClosed(t, p, servers)
	if _, err := client.Read(make([]byte, 1)); err == nil || errors.Is(err, os.ErrDeadlineExceeded) {
		t.Errorf("the client: %v", err)
	}
	testwait.True(t, "the connection has failed", func() bool { return p.Failed() == 1 && p.Clients() == 0 })
}
