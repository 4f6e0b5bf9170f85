package discovery

import (
	"encoding/binary"
	"net"
	"sync"
	"time"
)

// ttlKey is the key of a [leastTTL] in the context of a question.
type ttlKey struct{}

// leastTTL is the least time to live of the records of some answers. Its methods may be called concurrently.
type leastTTL struct {
	mu    sync.Mutex
	known bool          // guarded by mu, as what follows
	ttl   time.Duration // of all records seen
}

// answer looks at a DNS message.
func (l *leastTTL) answer(message []byte) {
	ttl, ok := ttlOf(message)
	if !ok {
		return
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if !l.known || ttl < l.ttl {
		l.known, l.ttl = true, ttl
	}
}

// least returns the least time to live, or another if no record was seen.
func (l *leastTTL) least(otherwise time.Duration) time.Duration {
	l.mu.Lock()
	defer l.mu.Unlock()
	if !l.known {
		return otherwise
	}
	return l.ttl
}

// ttlOf returns the least time to live of the answers of a DNS message (RFC 1035 §4.1), and whether it has any. A message that is not valid has none.
func ttlOf(message []byte) (ttl time.Duration, ok bool) {
	const header, response = 12, 0x80
	if len(message) < header || message[2]&response == 0 {
		return 0, false
	}
	questions, answers := binary.BigEndian.Uint16(message[4:]), binary.BigEndian.Uint16(message[6:])
	rest := message[header:]
	for range questions {
		if rest = afterName(rest); len(rest) < 4 {
			return 0, false
		}
		rest = rest[4:] // type, class
	}
	for range answers {
		if rest = afterName(rest); len(rest) < 10 {
			return ttl, ok
		}
		seconds := binary.BigEndian.Uint32(rest[4:])
		if seconds > 1<<31-1 { // RFC 2181 §8: as if it were zero
			seconds = 0
		}
		if t := time.Duration(seconds) * time.Second; !ok || t < ttl {
			ttl, ok = t, true
		}
		data := 10 + int(binary.BigEndian.Uint16(rest[8:]))
		if len(rest) < data {
			return ttl, ok
		}
		rest = rest[data:]
	}
	return ttl, ok
}

// afterName returns what follows a name, nil if it does not end.
func afterName(b []byte) []byte {
	const pointer = 0xc0
	for len(b) > 0 {
		switch n := int(b[0]); {
		case n == 0:
			return b[1:]
		case n >= pointer: // the rest of the name is elsewhere
			if len(b) < 2 {
				return nil
			}
			return b[2:]
		case n >= 64 || len(b) < 1+n:
			return nil
		default:
			b = b[1+n:]
		}
	}
	return nil
}

// ttlConn is a connection to a DNS server.
type ttlConn struct {
	net.Conn
	seen *leastTTL
}

// ttlPackets is one over UDP: each read is an answer.
type ttlPackets struct {
	ttlConn
	net.PacketConn
}

// The methods that both have.

func (c *ttlPackets) Close() error                       { return c.Conn.Close() }
func (c *ttlPackets) LocalAddr() net.Addr                { return c.Conn.LocalAddr() }
func (c *ttlPackets) SetDeadline(t time.Time) error      { return c.Conn.SetDeadline(t) }
func (c *ttlPackets) SetReadDeadline(t time.Time) error  { return c.Conn.SetReadDeadline(t) }
func (c *ttlPackets) SetWriteDeadline(t time.Time) error { return c.Conn.SetWriteDeadline(t) }

// Read implements net.Conn.
func (c *ttlPackets) Read(p []byte) (int, error) {
	n, err := c.Conn.Read(p)
	c.seen.answer(p[:n])
	return n, err
}

// ttlStream is one over TCP, where each message has its length of two bytes before it. Package net reads that, and then the message.
type ttlStream struct {
	ttlConn
	got []byte // of the message that is being read, with its length
}

// Read implements net.Conn.
func (c *ttlStream) Read(p []byte) (int, error) {
	n, err := c.Conn.Read(p)
	c.got = append(c.got, p[:n]...)
	for len(c.got) >= 2 {
		size := 2 + int(binary.BigEndian.Uint16(c.got))
		if len(c.got) < size {
			break
		}
		c.seen.answer(c.got[2:size])
		c.got = c.got[size:]
	}
	return n, err
}
