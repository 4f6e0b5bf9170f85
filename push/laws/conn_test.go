package laws_test

import (
	"context"
	"fmt"
	"net"
	"sync"
	"time"

	"github.com/gorilla/websocket"

	wsclients "github.com/sluice-push/sluice/push/gateway/websocket"
	"github.com/sluice-push/sluice/push/protocol"
	"github.com/sluice-push/sluice/push/protocol/json"
)

// gate is a connection that can be read at full speed, in small pieces, or not at all.
type gate struct {
	net.Conn

	mu    sync.Mutex
	opens sync.Cond
	shut  bool
	most  int // bytes for each read, 0: no limit
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

// set changes how the connection is read. If shut is true, reads block.
func (g *gate) set(shut bool, most int) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.shut, g.most = shut, most
	g.opens.Broadcast()
}

// conn is one connection of a client. One goroutine reads it, another one writes the commands.
type conn struct {
	gate    *gate
	ws      *websocket.Conn
	sends   chan []byte
	running sync.WaitGroup
	done    chan struct{} // closed when the connection has ended
	stop    sync.Once
}

// connect connects to the node over a pipe of the given size, or over a socket if the size is 0.
func (n *node) connect(ctx context.Context, pipe int) (net.Conn, error) {
	if pipe > 0 {
		return n.listener.dial(ctx, pipe)
	}
	return new(net.Dialer).DialContext(ctx, "unix", n.sockets.Addr().String())
}

// dial opens a WebSocket connection to a node; see [node.connect]. It calls receive with each line. When the connection has ended, on either
// side, it calls over.
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
	ws, _, err := d.DialContext(ctx, "ws://node"+wsclients.Path, nil)
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
			for line, rest := json.NextLine(frame); line != nil; line, rest = json.NextLine(rest) {
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

// send queues a command for sending. It returns false if the queue is full.
func (c *conn) send(cmd *protocol.Command) bool {
	select {
	case c.sends <- json.AppendCommand(nil, cmd):
		return true
	default:
		return false
	}
}

// end closes the connection without a closing handshake.
func (c *conn) end() {
	c.stop.Do(func() {
		close(c.done)
		_ = c.gate.Conn.Close()
		c.gate.set(false, 0) // wakes a blocked read
	})
}

// cut closes the connection and waits until no more lines can arrive.
func (c *conn) cut() {
	c.end()
	c.running.Wait()
}

func (c *conn) isOver() bool { return isClosed(c.done) }

// pause waits for a duration or until a context ends.
func pause(ctx context.Context, d time.Duration) {
	select {
	case <-time.After(d):
	case <-ctx.Done():
	}
}
