package laws_test

import (
	"context"
	"fmt"
	"net"
	"sync"
	"time"

	"github.com/gorilla/websocket"

	"github.com/sluice-push/sluice/push/gateway"
	"github.com/sluice-push/sluice/push/protocol"
)

// gate is what a client's connection is read through: not at all, by small pieces, or freely.
type gate struct {
	net.Conn

	mu    sync.Mutex
	opens sync.Cond
	shut  bool
	most  int // bytes at a time, 0 for any
}

func newGate(c net.Conn) *gate {
	g := &gate{Conn: c}
	g.opens.L = &g.mu
	return g
}

func (g *gate) Read(p []byte) (int, error) {
	g.mu.Lock()
	for g.shut {
		g.opens.Wait()
	}
	if g.most > 0 {
		p = p[:min(len(p), g.most)]
	}
	g.mu.Unlock()
	return g.Conn.Read(p)
}

// set changes how the connection is read.
func (g *gate) set(shut bool, most int) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.shut, g.most = shut, most
	g.opens.Broadcast()
}

// conn is one connection of a client: a goroutine reads what comes, another one writes the commands.
type conn struct {
	gate    *gate
	ws      *websocket.Conn
	sends   chan []byte
	running sync.WaitGroup
	done    chan struct{} // closed when the connection is over
	stop    sync.Once
}

// connect connects to the node, by a pipe of a size, or by a socket if that is 0.
func (n *node) connect(ctx context.Context, pipe int) (net.Conn, error) {
	if pipe > 0 {
		return n.listener.dial(ctx, pipe)
	}
	return new(net.Dialer).DialContext(ctx, "unix", n.sockets.Addr().String())
}

// dial begins a WebSocket connection to a node: see [node.connect]. receive is called with each line, over when the connection
// has ended, by whomever.
func dial(ctx context.Context, n *node, pipe int, receive func(line []byte), over func(err error)) (*conn, error) {
	c := &conn{sends: make(chan []byte, 256), done: make(chan struct{})}
	d := websocket.Dialer{NetDialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
		raw, err := n.connect(ctx, pipe)
		if err != nil {
			return nil, err
		}
		c.gate = newGate(raw)
		return c.gate, nil
	}}
	ws, _, err := d.DialContext(ctx, "ws://node"+gateway.WebSocketPath, nil)
	if err != nil {
		return nil, err
	}
	c.ws = ws
	c.running.Go(func() {
		for {
			kind, frame, err := ws.ReadMessage()
			if err == nil && kind != websocket.TextMessage {
				err = fmt.Errorf("a message of type %d came", kind)
			}
			if err != nil {
				c.end()
				over(err)
				return
			}
			for line, rest := protocol.NextLine(frame); line != nil; line, rest = protocol.NextLine(rest) {
				receive(line)
			}
		}
	})
	c.running.Go(func() {
		for {
			select {
			case frame := <-c.sends:
				if ws.WriteMessage(websocket.TextMessage, frame) != nil {
					c.end()
					return
				}
			case <-c.done:
				return
			}
		}
	})
	return c, nil
}

// send sends a command, some time. It reports false when the node has not taken the last ones yet.
func (c *conn) send(cmd *protocol.Command) bool {
	select {
	case c.sends <- protocol.AppendCommand(nil, cmd):
		return true
	default:
		return false
	}
}

// end breaks the connection, without goodbye.
func (c *conn) end() {
	c.stop.Do(func() {
		close(c.done)
		_ = c.gate.Conn.Close()
		c.gate.set(false, 0) // whoever waits there finds out
	})
}

// cut breaks the connection and waits until nothing comes of it any more.
func (c *conn) cut() {
	c.end()
	c.running.Wait()
}

func (c *conn) isOver() bool { return isClosed(c.done) }

// pause waits for a moment, or until a context is over.
func pause(ctx context.Context, d time.Duration) {
	select {
	case <-time.After(d):
	case <-ctx.Done():
	}
}
