package clientconn

import (
	"bufio"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"net/url"
	"sync"
	"time"
)

// tcpStream is a connection of messages with their length before them.
type tcpStream struct {
	conn net.Conn
	in   *bufio.Reader

	frame []byte // the memory of what was received last

	mu sync.Mutex // held while a frame is written
}

// networkOf returns the network of a URL for TCP, TLS and Unix sockets; empty if it is none.
func networkOf(base *url.URL) string {
	switch {
	case base.Scheme == "unix" && base.Path != "":
		return "unix"
	case (base.Scheme == "tcp" || base.Scheme == "tls") && base.Port() != "":
		return "tcp"
	}
	return ""
}

// dialTCP connects to tcp://host:port, tls://host:port or unix:/path.
func dialTCP(ctx context.Context, base *url.URL, _ form, first []byte, dial dialFunc) (stream, error) {
	if dial == nil {
		dial = new(net.Dialer).DialContext
	}
	network, address := networkOf(base), base.Host
	if network == "unix" {
		address = base.Path
	}
	conn, err := dial(ctx, network, address)
	if err == nil && base.Scheme == "tls" {
		secure := tls.Client(conn, &tls.Config{ServerName: base.Hostname()})
		if err = secure.HandshakeContext(ctx); err != nil {
			_ = conn.Close()
		}
		conn = secure
	}
	if err != nil {
		return nil, fmt.Errorf("%s does not answer: %w", base, err)
	}
	s := &tcpStream{conn: conn, in: bufio.NewReaderSize(conn, 64<<10)}
	if err := s.Send(ctx, first); err != nil {
		s.Close()
		return nil, err
	}
	return s, nil
}

func (s *tcpStream) Send(ctx context.Context, frame []byte) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	stop := context.AfterFunc(ctx, func() { _ = s.conn.SetWriteDeadline(time.Unix(1, 0)) })
	defer stop()
	if _, err := s.conn.Write(frame); err != nil {
		return fmt.Errorf("commands could not be sent: %w", errors.Join(ctx.Err(), err))
	}
	return nil
}

// Receive returns the next message. When ctx ends, so does the connection.
func (s *tcpStream) Receive(ctx context.Context) ([]byte, error) {
	stop := context.AfterFunc(ctx, func() { _ = s.conn.Close() })
	defer stop()
	frame, err := readDelimited(s.in, s.frame)
	if err != nil {
		return nil, fmt.Errorf("connection lost: %w", err)
	}
	s.frame = frame
	return frame, nil
}

func (s *tcpStream) Close() { _ = s.conn.Close() }
