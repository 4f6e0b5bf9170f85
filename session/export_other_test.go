//go:build !linux

package session

import "crypto/tls"

// OnLoop reports false: there are no loops.
func OnLoop(*Session) bool { return false }

// SetTLS makes the sessions of srv, which has none yet, speak TLS.
func SetTLS(srv *Server, c *tls.Config) { srv.o.TLS = c }

// KeepZeroCopy does nothing here: everything is copied.
func KeepZeroCopy(*Server) {}

// SlowDown does nothing here: no handler has a loop to hold up.
func SlowDown(*Server) {}
