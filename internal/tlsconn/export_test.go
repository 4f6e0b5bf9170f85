package tlsconn

import (
	"crypto/tls"
	"errors"
)

// Pair makes two ends in memory after their handshake.
func Pair(version uint16) (server, client *Conn, err error) {
	config, err := testConfig()
	if err != nil {
		return nil, nil, err
	}
	p, err := newPair(config, version)
	if err != nil {
		return nil, nil, err
	}
	return p.server, p.client, nil
}

// Versions are those that Test looks at.
func Versions() []uint16 { return []uint16{tls.VersionTLS13, tls.VersionTLS12} }

// Say writes to the wire as TLS does when it answers.
func (c *Conn) Say(p []byte) error {
	if n, err := c.wire.Write(p); err != nil || n != len(p) {
		return errors.New("writing has failed")
	}
	return nil
}

// Holds returns how much memory the wire has for what waits.
func (c *Conn) Holds() int {
	c.wire.mu.Lock()
	defer c.wire.mu.Unlock()
	if c.wire.lent != nil {
		return bufferSize
	}
	return cap(c.wire.out)
}

// BufferSize is the size of the buffers of a pool.
const BufferSize = bufferSize
