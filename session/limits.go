package session

import (
	"fmt"
	"net/netip"
	"slices"

	"github.com/sluice-push/sluice/internal/clientaddr"
)

// addSession gives s its number and adds it to the live sessions, unless a limit forbids that.
func (srv *Server) addSession(s *Session) error {
	limit := srv.o.MaxSessionsPerAddress
	if limit > 0 && !s.peer.IsValid() {
		s.peer = clientaddr.AddrPort(s.RemoteAddr())
	}
	from := srv.countedAs(s)
	srv.mu.Lock()
	defer srv.mu.Unlock()
	if srv.closed {
		return srv.closedErr
	}
	srv.lastID++
	s.id = srv.lastID
	switch {
	case len(srv.live) >= srv.o.MaxSessions, s.packet != nil && srv.packetCount >= srv.o.packetSessions:
		return fmt.Errorf("%w: %d", ErrLimit, len(srv.live))
	case from.IsValid() && srv.addresses[from] >= limit:
		return fmt.Errorf("%w: %d from %v", ErrLimit, limit, from)
	}
	if from.IsValid() {
		srv.addresses[from]++
	}
	s.place = int32(len(srv.live)) //nolint:gosec // far fewer
	srv.live = append(srv.live, s)
	if s.packet != nil {
		srv.packetCount++
	}
	return nil
}

// removeSession removes s from the live sessions.
func (srv *Server) removeSession(s *Session) {
	from := srv.countedAs(s)
	srv.mu.Lock()
	defer srv.mu.Unlock()
	if from.IsValid() {
		if srv.addresses[from]--; srv.addresses[from] == 0 {
			delete(srv.addresses, from)
		}
	}
	last := len(srv.live) - 1
	srv.live[s.place] = srv.live[last]
	srv.live[s.place].place = s.place
	srv.live[last] = nil
	if srv.live = srv.live[:last]; last < cap(srv.live)/4 {
		srv.live = slices.Clone(srv.live) // a burst of connections may have left a large array
	}
	if s.packet != nil {
		srv.packetCount--
	}
	if srv.single && !srv.closed {
		srv.closeLocked()
		return
	}
	srv.emptyLocked()
}

// countedAs returns the address that s is counted by for MaxSessionsPerAddress. If no address is counted, it is not valid.
func (srv *Server) countedAs(s *Session) netip.Addr {
	if srv.o.MaxSessionsPerAddress == 0 {
		return netip.Addr{}
	}
	return clientaddr.Of(s.peer.Addr())
}
