//go:build !linux

package portsplit

import "net"

// peek returns 0: nothing is known of a connection before it is read.
func peek(net.Conn, []byte) int { return 0 }

// await reads the first bytes of a connection until they are enough.
func await(conn net.Conn, enough func(first []byte) bool) ([]byte, net.Conn) {
	return readUntil(conn, enough)
}
