//go:build !linux

package session

import (
	"net"
	"net/netip"

	"github.com/sluice-push/sluice/internal/buffer"
	"github.com/sluice-push/sluice/transport"
)

// seat is nearly nothing here: there are no loops elsewhere than on Linux.
type seat struct {
	peer   netip.AddrPort
	inline bool
}

// loops are none here.
type loops struct{}

func (*loops) seat(*Session, net.Conn) bool                         { return false }
func (*loops) seatTLS(*Session, net.Conn) bool                      { return false }
func (*loops) name(*Session, net.Addr, net.Addr)                    {}
func (*loops) acceptBare(*Server, *transport.Listener) func() error { return nil }
func (*loops) look() bool                                           { return false }
func (*loops) count() int                                           { return 0 }
func (*loops) dismiss(bool) bool                                    { return false }
func (*loops) busy() bool                                           { return false }
func (*loops) stop()                                                {}
func (*loops) wait()                                                {}

// isBare reports whether frames go straight to a descriptor.
func (s *Session) isBare() bool { return false }

// offerOne is never called.
func (s *Session) offerOne([]byte) (int, error) { return 0, nil }

// pourAloneLocked leaves all to pourLocked.
func (s *Session) pourAloneLocked() {}

// raw is nothing here: elsewhere than on Linux every connection has the plain stream, and sends by copying.
type raw struct{}

func newRaw(*Session) stream { return nil }

func (s *Session) listenLocked(*buffer.Large) {}

func (s *Session) reportedLocked(*buffer.Large) bool { return true }

func (s *Session) unreportedLocked() bool { return false }
