//go:build !linux

package splice

import "net"

// isStream reports whether conn can be spliced. On this system no connection can.
func isStream(net.Conn) bool { return false }

// pipe does not exist on this system.
type pipe struct{}

func (*pipe) close() {}

// splice is never called.
func (*Pool) splice(_, _ net.Conn, _ int64) (int64, error) { return 0, errRefused }
