//go:build !linux

package socket

import "net"

// Heirs do not ask what their sockets have.
type Heirs struct{}

// EquipConn does nothing, and says so.
func (*Heirs) EquipConn(net.Conn, []Option, bool) bool { return false }

// IsPlainTCP reports whether a TCP socket is not one of Multipath TCP.
func IsPlainTCP(int) bool { return true }
