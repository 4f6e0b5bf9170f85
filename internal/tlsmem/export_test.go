package tlsmem

import (
	"crypto/tls"
	"errors"
)

// Pair returns two ends in memory after their handshake.
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

// Versions returns the versions that Test checks.
func Versions() []uint16 { return []uint16{tls.VersionTLS13, tls.VersionTLS12} }

// Say writes to the wire like TLS when it answers by itself.
func (c *Conn) Say(p []byte) error {
	if n, err := c.wire.Write(p); err != nil || n != len(p) {
		return errors.New("writing has failed")
	}
	return nil
}

// Holds returns the bytes of memory that the wire has for waiting bytes.
func (c *Conn) Holds() int {
	c.wire.mu.Lock()
	defer c.wire.mu.Unlock()
	if c.wire.pooled != nil {
		return bufferSize
	}
	return cap(c.wire.out)
}

// BufferSize is the size in bytes of a pooled buffer.
const BufferSize = bufferSize
