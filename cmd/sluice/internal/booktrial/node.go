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

// node is a running process of the command sluice, started as users start it.
type node struct {
	cmd     *exec.Cmd
	address string // host:port
	stderr  bytes.Buffer
	folder  string
	exited  chan struct{}
}

// nodeConfig is a format for the configuration. Its arguments are the kind of broker, and how many removals a table remembers. The node neither
// pings nor disconnects a stalled client, because that client has to catch up later.
const nodeConfig = `
broker: {kind: %s}
auth: {anonymous: true}
limits: {write_timeout: 1h}
ping: {interval: 0s}
namespaces:
  - {name: books, mode: table, history: {size: %d, age: 1h}, delta: [merge], allow: {subscribe: [anonymous], publish: [api]}}
`

// startNode starts program as a node with the given configuration, in a folder of its own and on a port that the kernel chooses.
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
	n.cmd.Stderr = &n.stderr
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
		_ = n.cmd.Wait() // the exit status does not matter
	}()
	select {
	case n.address = <-greeted:
	case <-ctx.Done():
	}
	if n.address == "" {
		n.stop()
		return nil, fmt.Errorf("the node did not start: %s", n.stderr.Bytes())
	}
	return n, nil
}

// listens returns the address in the node's output, and "" if there is none.
func listens(out io.Reader) string {
	for lines := bufio.NewScanner(out); lines.Scan(); {
		field, rest, _ := strings.Cut(strings.TrimSpace(lines.Text()), " ")
		if field == "websocket" {
			return strings.TrimSuffix(strings.TrimPrefix(strings.TrimSpace(rest), "ws://"), "/connection/websocket")
		}
	}
	return ""
}

// stopTime is how long a node may take to shut down.
const stopTime = 10 * time.Second

// stop ends the node, waits for its exit, and removes its folder.
func (n *node) stop() {
	_ = n.cmd.Process.Signal(syscall.SIGTERM)
	killer := time.AfterFunc(stopTime, func() { _ = n.cmd.Process.Kill() })
	<-n.exited
	killer.Stop()
	n.remove()
}

func (n *node) remove() { _ = os.RemoveAll(n.folder) }

// publisher publishes changes to a node over its HTTP API. It uses one connection, which keeps the changes in order, and HTTP pipelining: it
// does not wait for an answer before it sends the next request (RFC 9112 §9.3.2). One goroutine may use it.
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

// pipelineDepth is how many requests are sent before their answers are read: as many as surely fit the kernel's buffers.
const pipelineDepth = 64

// publish publishes changes in order, and returns when all are acknowledged.
func (p *publisher) publish(channel string, changes []change) error {
	for part := range slices.Chunk(changes, pipelineDepth) {
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
	_, _ = p.out.Write(b) // Flush reports the error
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
