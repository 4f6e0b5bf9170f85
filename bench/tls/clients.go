package main

import (
	"bufio"
	"bytes"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"sync"
	"sync/atomic"
	"time"
)

// patience is how long a connection may take until it is of use, or gone.
const patience = 30 * time.Second

// sources is from how many addresses connections come, so that none runs out of ports.
const sources = 200

// dial opens a TCP connection to a server. Each n has a source address, which others share. The connection has a deadline, patience from now on.
func dial(ctx context.Context, address string, n int) (net.Conn, error) {
	d := net.Dialer{Timeout: patience, LocalAddr: &net.TCPAddr{IP: net.IPv4(127, 0, 0, byte(2+n%sources))}}
	conn, err := d.DialContext(ctx, "tcp", address)
	if err != nil {
		return nil, err
	}
	return conn, conn.SetDeadline(time.Now().Add(patience))
}

// clients are WebSocket connections that do nothing. Its methods are for one goroutine.
type clients struct {
	peer    *peer
	config  *tls.Config // nil: without TLS
	workers int

	mu   sync.Mutex // guards open
	open []net.Conn
}

// grow opens connections until there are n.
func (c *clients) grow(ctx context.Context, n int) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	var next atomic.Int64
	next.Store(int64(len(c.open)))
	var all sync.WaitGroup
	for range c.workers {
		all.Go(func() {
			for i := int(next.Add(1)) - 1; i < n && ctx.Err() == nil; i = int(next.Add(1)) - 1 {
				if err := c.add(ctx, i); err != nil {
					cancel(fmt.Errorf("client %d: %w", i+1, err))
				}
			}
		})
	}
	all.Wait()
	return context.Cause(ctx)
}

// add opens connection n.
func (c *clients) add(ctx context.Context, n int) error {
	conn, err := dial(ctx, c.peer.address, n)
	if err != nil {
		return err
	}
	if c.config != nil {
		conn = tls.Client(conn, c.config)
	}
	if err := c.join(conn); err != nil {
		_ = conn.Close()
		return err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.open = append(c.open, conn)
	return conn.SetDeadline(time.Time{})
}

// join makes a WebSocket of a connection and, if the server knows the client protocol, a client with a subscription of it.
func (c *clients) join(conn net.Conn) error {
	_, err := fmt.Fprintf(conn, "GET /connection/websocket HTTP/1.1\r\nHost: %s\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"+
		"Sec-WebSocket-Key: AAAAAAAAAAAAAAAAAAAAAA==\r\nSec-WebSocket-Version: 13\r\n\r\n", c.peer.address)
	if err != nil {
		return err
	}
	r := bufio.NewReader(conn)
	response, err := http.ReadResponse(r, nil)
	if err != nil {
		return err
	}
	_ = response.Body.Close()
	if response.StatusCode != http.StatusSwitchingProtocols {
		return errors.New("the server answers " + response.Status)
	}
	if !c.peer.push {
		return nil
	}
	if err := send(conn, `{"id":1,"connect":{}}`+"\n"+`{"id":2,"subscribe":{"channel":"ticks:idle"}}`); err != nil {
		return err
	}
	var said []byte
	for !bytes.Contains(said, []byte(`"id":2`)) {
		b, err := r.ReadByte()
		if err != nil {
			return fmt.Errorf("%w after %q", err, said)
		}
		said = append(said, b)
	}
	rest, err := r.ReadSlice('}')
	if err != nil {
		return err
	}
	if !bytes.Contains(rest, []byte(`"subscribe"`)) {
		return fmt.Errorf("the server answers %q", append(said, rest...))
	}
	return nil
}

// send sends a short text in a frame, masked with zeros.
func send(conn io.Writer, text string) error {
	if len(text) > 125 {
		return errors.New("a text that needs a longer header")
	}
	_, err := conn.Write(append([]byte{0x81, 0x80 | byte(len(text)), 0, 0, 0, 0}, text...))
	return err
}

// closeAll ends all connections. They are reset, so that their ports are free at once.
func (c *clients) closeAll() {
	for _, conn := range c.open {
		if secure, ok := conn.(*tls.Conn); ok {
			conn = secure.NetConn()
		}
		if tcp, ok := conn.(*net.TCPConn); ok {
			_ = tcp.SetLinger(0)
		}
		_ = conn.Close()
	}
}
