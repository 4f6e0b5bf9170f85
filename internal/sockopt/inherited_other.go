//go:build !linux

package sockopt

import "net"

// InheritedOptions sets no options on these systems.
type InheritedOptions struct{}

// ApplyConn does nothing, and says so.
func (*InheritedOptions) ApplyConn(net.Conn, []Option, bool) bool { return false }

// IsPlainTCP reports whether a TCP socket is not one of Multipath TCP.
func IsPlainTCP(int) bool { return true }
