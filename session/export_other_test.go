//go:build !linux

package session

import (
	"crypto/tls"
	"time"
)

// OnLoop reports false: there are no event loops on this system.
func OnLoop(*Session) bool { return false }

// SetTLS makes the sessions of srv, which has none yet, speak TLS.
func SetTLS(srv *Server, c *tls.Config) { srv.o.TLS = c }

// KeepZeroCopy does nothing: there is no zero copy on this system.
func KeepZeroCopy(*Server) {}

// OffloadAll does nothing: there are no event loops on this system.
func OffloadAll(*Server, time.Duration) {}
