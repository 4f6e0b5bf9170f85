package loadtest

import (
	"context"
	"net"
	"sync"

	"github.com/sluice-push/sluice/cmd/sluice/internal/clientconn"
	"github.com/sluice-push/sluice/push/protocol"
	"github.com/sluice-push/sluice/websocket"
)

// filesPerStream is how many file descriptors a client of a streamDialer needs: one for the stream, and one for commands beside it.
const filesPerStream = 2

// streamDialer connects clients by the transports of package clientconn. Each client has a goroutine that reads.
type streamDialer struct {
	group   *group
	ctx     context.Context // ends with close
	cancel  context.CancelFunc
	reading sync.WaitGroup
}

func newStreamDialer(g *group) *streamDialer {
	d := &streamDialer{group: g}
	d.ctx, d.cancel = context.WithCancel(context.Background())
	return d
}

func (d *streamDialer) dial(ctx context.Context, c *client, address string, commands []*protocol.Command) (connection, error) {
	spec := &d.group.plan.spec
	conn, err := clientconn.Dial(ctx, &clientconn.Options{
		URL: address, Transport: spec.Transport, Protocol: spec.Protocol, Commands: commands,
		DialContext: func(ctx context.Context, network, address string) (net.Conn, error) {
			return d.group.dialTCP(ctx, c, network, address)
		},
	})
	if err != nil {
		return nil, err
	}
	s := &streamConn{dialer: d, conn: conn}
	c.shard.mu.Lock()
	c.conn = s
	c.shard.mu.Unlock()
	d.reading.Go(func() { s.read(c) })
	return s, nil
}

func (d *streamDialer) close() {
	d.cancel()
	d.reading.Wait()
}

// streamConn is a connection of a client. The goroutine in read calls Send.
type streamConn struct {
	dialer  *streamDialer
	conn    *clientconn.Conn
	sendErr error // the first error of Send; used by the goroutine in read
}

// Send sends a frame. If that fails, the connection ends: a server that gets no answer to its pings would end it anyway.
func (s *streamConn) Send(_ websocket.Opcode, frame []byte) error {
	ctx, cancel := context.WithTimeout(s.dialer.ctx, s.dialer.group.answerTimeout)
	defer cancel()
	err := s.conn.SendFrame(ctx, frame)
	if err != nil && s.sendErr == nil {
		s.sendErr = err
	}
	return err
}

// CloseNow ends the connection.
func (s *streamConn) CloseNow() { s.conn.Close() }

// read handles all frames that come, until the connection ends.
func (s *streamConn) read(c *client) {
	g, ctx := s.dialer.group, s.dialer.ctx
	defer s.conn.Close()
	err := s.readFirst(ctx, c)
	for err == nil {
		var frame []byte
		if frame, err = s.conn.ReceiveFrame(ctx); err == nil {
			g.handleFrame(s, c, frame)
			err = s.sendErr
		}
	}
	g.connectionEnded(s, c, err)
}

// readFirst handles the first reply.
func (s *streamConn) readFirst(ctx context.Context, c *client) error {
	var r protocol.Reply
	if err := s.conn.Receive(ctx, &r); err != nil {
		return err
	}
	c.shard.mu.Lock()
	defer c.shard.mu.Unlock()
	if c.conn == s {
		s.dialer.group.handleReplyLocked(c, &r)
	}
	return nil
}
