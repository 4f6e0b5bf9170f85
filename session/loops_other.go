//go:build !linux

package session

import (
	"net"

	"github.com/sluice-push/sluice/transport"
)

// loopState is nearly empty here: there are event loops only on Linux.
type loopState struct{ reg struct{ OnLoop bool } }

// work is empty here.
type work struct{}

// loops is empty here.
type loops struct{}

func (*loops) adopt(*Session, net.Conn) bool                      { return false }
func (*loops) adoptTLS(*Session, net.Conn) bool                   { return false }
func (*loops) setAddrs(*Session, net.Addr, net.Addr)              {}
func (*loops) acceptor(*Server, *transport.Listener) func() error { return nil }
func (*loops) checkStalls() bool                                  { return false }
func (*loops) count() int                                         { return 0 }
func (*loops) trim(bool) bool                                     { return false }
func (*loops) busy() bool                                         { return false }
func (*loops) stop()                                              {}
func (*loops) wait()                                              {}

func (s *Session) unreportedLocked() bool { return false }
