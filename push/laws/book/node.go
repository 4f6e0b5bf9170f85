package main

import (
	"bufio"
	"bytes"
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// node is the command sluice at work, as users start it.
type node struct {
	cmd     *exec.Cmd
	address string // host:port
	said    bytes.Buffer
	folder  string
	exited  chan struct{}
}

// nodeConfig lacks a broker, and the number of removals that a table remembers. A client that stalls is neither pinged nor cut, since it is
// to catch up.
const nodeConfig = `
broker: {kind: %s}
auth: {anonymous: true}
limits: {write_timeout: 1h}
ping: {interval: 0s}
namespaces:
  - {name: books, mode: table, history: {size: %d, age: 1h}, delta: [merge], allow: {subscribe: [anonymous], publish: [api]}}
`

// startNode starts a program as a node with a configuration and a folder of its own, on a port that the kernel chooses.
func startNode(ctx context.Context, program, config string) (*node, error) {
	folder, err := os.MkdirTemp("", "sluice-books-")
	if err != nil {
		return nil, err
	}
	n := &node{folder: folder, exited: make(chan struct{})}
	file := filepath.Join(folder, "sluice.yaml")
	if err := os.WriteFile(file, []byte(config), 0o600); err != nil {
		n.remove()
		return nil, err
	}
	n.cmd = exec.Command(program, "serve", "--insecure", "--config", file, "--data", filepath.Join(folder, "data"),
		"--listen", "127.0.0.1:0", "--internal", "127.0.0.1:0")
	n.cmd.Stderr = &n.said
	n.cmd.Env = slices.DeleteFunc(os.Environ(), func(v string) bool { return strings.HasPrefix(v, "SLUICE_") })
	out, err := n.cmd.StdoutPipe()
	if err == nil {
		err = n.cmd.Start()
	}
	if err != nil {
		n.remove()
		return nil, err
	}
	greeted := make(chan string, 1)
	go func() {
		defer close(n.exited)
		greeted <- listens(out)
		_, _ = io.Copy(io.Discard, out)
		_ = n.cmd.Wait() // how it ended does not matter
	}()
	select {
	case n.address = <-greeted:
	case <-ctx.Done():
	}
	if n.address == "" {
		n.stop()
		return nil, fmt.Errorf("the node did not start: %s", n.said.Bytes())
	}
	return n, nil
}

// listens reads where a node listens from what it prints, empty when it does not say.
func listens(out io.Reader) string {
	for lines := bufio.NewScanner(out); lines.Scan(); {
		field, rest, _ := strings.Cut(strings.TrimSpace(lines.Text()), " ")
		if field == "websocket" {
			return strings.TrimSuffix(strings.TrimPrefix(strings.TrimSpace(rest), "ws://"), "/connection/websocket")
		}
	}
	return ""
}

// stopTime is how long a node may take to end in order.
const stopTime = 10 * time.Second

// stop ends the node, waits for that, and removes what it kept.
func (n *node) stop() {
	_ = n.cmd.Process.Signal(syscall.SIGTERM)
	late := time.AfterFunc(stopTime, func() { _ = n.cmd.Process.Kill() })
	<-n.exited
	late.Stop()
	n.remove()
}

func (n *node) remove() { _ = os.RemoveAll(n.folder) }

// publisher publishes changes to a node over its HTTP API, on one connection, so that they have one order. It does not wait for the answer
// to one request before it sends the next (RFC 9112 §9.3.2). It is for one goroutine.
type publisher struct {
	conn net.Conn
	in   *bufio.Reader
	out  *bufio.Writer
	body []byte
}

func newPublisher(ctx context.Context, address string) (*publisher, error) {
	conn, err := new(net.Dialer).DialContext(ctx, "tcp", address)
	if err != nil {
		return nil, err
	}
	return &publisher{conn: conn, in: bufio.NewReader(conn), out: bufio.NewWriterSize(conn, 64<<10)}, nil
}

// underWay is how many requests are sent before their answers are read: as many as surely fit the kernel's buffers.
const underWay = 64

// publish publishes changes in their order, and returns when all are acknowledged.
func (p *publisher) publish(channel string, changes []change) error {
	for part := range slices.Chunk(changes, underWay) {
		for _, c := range part {
			p.request(channel, c)
		}
		if err := p.out.Flush(); err != nil {
			return err
		}
		for _, c := range part {
			if err := p.answer(); err != nil {
				return fmt.Errorf("publish %s to %s: %w", c.key, channel, err)
			}
		}
	}
	return nil
}

// request writes the request for one change.
func (p *publisher) request(channel string, c change) {
	b := append(p.body[:0], `{"channel":`...)
	b = strconv.AppendQuote(b, channel)
	b = append(b, `,"key":`...)
	b = strconv.AppendQuote(b, c.key)
	if c.data == "" {
		b = append(b, `,"removed":true}`...)
	} else {
		b = append(append(append(b, `,"data":`...), c.data...), '}')
	}
	p.body = b
	const head = "POST /api/publish HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n"
	_, _ = fmt.Fprintf(p.out, head, len(b))
	_, _ = p.out.Write(b) // Flush has the error
}

// answer reads the answer to one request.
func (p *publisher) answer() error {
	resp, err := http.ReadResponse(p.in, nil)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	if err == nil && !bytes.Contains(body, []byte(`"offset"`)) {
		err = fmt.Errorf("%s: %s", resp.Status, body)
	}
	return err
}

func (p *publisher) close() { _ = p.conn.Close() }
