// Package loadtest helps to test the commands that compare servers.
package loadtest

import (
	"bufio"
	"bytes"
	"context"
	"crypto/rand"
	"crypto/sha1"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/sluice-push/sluice/bench/internal/child"
	"github.com/sluice-push/sluice/bench/internal/load"
	"github.com/sluice-push/sluice/bench/internal/measure"
	"github.com/sluice-push/sluice/bench/internal/server"
)

// Main is TestMain of a command. The test is also the process of every server in Go, which is this program again, with the race
// detector if that is on.
func Main(m *testing.M, command func()) {
	if len(os.Args) > 1 && os.Args[1] == "serve" {
		command()
		return
	}
	// Otherwise the race detector makes each of these processes wait for a second before it ends.
	if err := os.Setenv("GORACE", "atexit_sleep_ms=0 "+os.Getenv("GORACE")); err != nil {
		panic(err)
	}
	goleak.VerifyTestMain(m)
}

// Sample is what a test looks at of a measurement.
type Sample struct {
	Cell, Server string
	Rate, CPU    float64
	Resident     int64
	Latency      measure.Latency `json:"latency_ns"`
}

// Result is what a test looks at of a whole run.
type Result struct {
	Samples              []Sample
	Idle, Burst, Targets []struct{ Server string }
	Tables               string `json:"-"` // as markdown
}

// Everything runs a command that measures for a blink, complains of samples that cannot be, and returns the result.
func Everything(t *testing.T, run func(args []string, stdout io.Writer) error, servers []string, args ...string) *Result {
	t.Helper()
	folder := t.TempDir()
	data, doc := filepath.Join(folder, "data.json"), filepath.Join(folder, "doc.md")
	var out bytes.Buffer
	args = append(args, "-servers", strings.Join(servers, ","), "-json", data, "-markdown", doc)
	args = append(args, "-rounds", "1", "-seconds", "0.02", "-rest", "30ms")
	if err := run(args, &out); err != nil {
		t.Fatal(err)
	}
	r := new(Result)
	text, err := os.ReadFile(data)
	if err == nil {
		err = json.Unmarshal(text, r)
	}
	if err != nil {
		t.Fatal(err)
	}
	for _, s := range r.Samples {
		l := s.Latency
		if s.Rate <= 0 || s.CPU <= 0 || s.Resident <= 0 || l.P50 <= 0 || l.P50 > l.P99 || l.P99 > l.P999 || l.P999 > l.Max {
			t.Errorf("impossible: %+v", s)
		}
	}
	tables, err := os.ReadFile(doc)
	if err != nil {
		t.Fatal(err)
	}
	r.Tables = string(tables)
	for _, server := range servers {
		if !strings.Contains(out.String(), "  "+server+" ") {
			t.Errorf("%s is not in what was printed:\n%s", server, out.String())
		}
	}
	return r
}

// Compile builds the programs in C for a test: a server, and the client called client, or another one.
func Compile(t *testing.T, server string, clients ...string) *load.Programs {
	t.Helper()
	client := "client"
	if len(clients) > 0 {
		client = clients[0]
	}
	p, err := load.Compile(server, client)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(p.Remove)
	return p
}

// Serve starts a server process that runs until the test ends, and returns its address and a function that waits until it has so many
// connections.
func Serve(t *testing.T, p *load.Programs, name string, args load.Args) (addr string, settle func(int) error) {
	t.Helper()
	b := &load.Bench{Programs: p}
	var at server.Address
	c, err := b.Start(context.WithoutCancel(t.Context()), &load.Work{Args: args}, name, &at)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := c.Stop(); err != nil {
			t.Error(err)
		}
	})
	return at.Addr, (&load.Pair{Server: c}).Settle
}

// Client runs the client against a port: it opens a connection, sends one message of 100 bytes, and returns the first error.
func Client(p *load.Programs, port, proto string) error {
	c, err := child.Start(context.Background(), nil, p.Client, port, proto, "100")
	if err != nil {
		return err
	}
	defer func() { _ = c.Stop() }() // it ends with an error when it finds one
	if err := c.Ask(&struct{}{}, "connect 1"); err != nil {
		return err
	}
	return c.Ask(new(load.Load), "run 0 1 1 0 0 0")
}

// Once is a server of one connection; it returns its port.
func Once(t *testing.T, serve func(net.Conn)) (port string) {
	t.Helper()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	done := make(chan struct{})
	go func() {
		defer close(done)
		conn, err := ln.Accept()
		if err != nil {
			return
		}
		defer conn.Close()
		serve(conn)
	}()
	t.Cleanup(func() {
		_ = ln.Close()
		<-done
	})
	_, port, err = net.SplitHostPort(ln.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	return port
}

// Dial opens a connection that lasts until the test ends, with half a minute for all that is read.
func Dial(t *testing.T, addr string) net.Conn {
	t.Helper()
	conn, err := net.Dial("tcp", addr)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close() })
	if err := conn.SetReadDeadline(time.Now().Add(30 * time.Second)); err != nil {
		t.Fatal(err)
	}
	return conn
}

// Upgrade opens a WebSocket connection, which lasts like those of Dial.
func Upgrade(t *testing.T, addr string) net.Conn {
	t.Helper()
	conn := Dial(t, addr)
	key := base64.StdEncoding.EncodeToString([]byte(rand.Text()[:16]))
	_, err := fmt.Fprintf(conn, "GET / HTTP/1.1\r\nHost: %s\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"+
		"Sec-WebSocket-Key: %s\r\nSec-WebSocket-Version: 13\r\n\r\n", addr, key)
	if err != nil {
		t.Fatal(err)
	}
	r := bufio.NewReader(conn)
	response, err := http.ReadResponse(r, nil)
	if err != nil {
		t.Fatal(err)
	}
	_ = response.Body.Close()
	sum := sha1.Sum([]byte(key + "258EAFA5-E914-47DA-95CA-C5AB0DC85B11"))
	if got := response.Header.Get("Sec-WebSocket-Accept"); response.StatusCode != 101 || got != base64.StdEncoding.EncodeToString(sum[:]) {
		t.Fatalf("%s, accepted %q for %q", response.Status, got, key)
	}
	if r.Buffered() > 0 {
		t.Fatal("bytes behind the response")
	}
	return conn
}

// Converse sends bytes in pieces, begins to read when it cannot go on, and wants others in return.
func Converse(t *testing.T, conn net.Conn, in, want []byte, chunk int) {
	t.Helper()
	full, sent := make(chan struct{}), make(chan error, 1)
	go func() { sent <- send(conn, in, chunk, full) }()
	<-full
	got := make([]byte, len(want))
	n, err := io.ReadFull(conn, got)
	if err != nil || !bytes.Equal(got, want) {
		t.Errorf("pieces of %d: %d of %d bytes, %v", chunk, n, len(want), err)
		_ = conn.Close()
	}
	if err := <-sent; err != nil {
		t.Error(err)
	}
}

// send writes in pieces, and closes full when nothing more can be written for now, or has to be.
func send(conn net.Conn, in []byte, chunk int, full chan<- struct{}) error {
	patience := 50 * time.Millisecond
	defer func() {
		if full != nil {
			close(full)
		}
	}()
	for len(in) > 0 {
		if err := conn.SetWriteDeadline(time.Now().Add(patience)); err != nil {
			return err
		}
		n, err := conn.Write(in[:min(chunk, len(in))])
		if errors.Is(err, os.ErrDeadlineExceeded) && full != nil {
			close(full)
			full, patience, err = nil, 30*time.Second, nil
		}
		if err != nil {
			return err
		}
		in = in[n:]
	}
	return nil
}
