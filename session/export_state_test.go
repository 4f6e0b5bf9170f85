package session

// Access to the state of sessions and servers for tests.

// Settings returns the settings of a session of srv with limits l.
func Settings(srv *Server, l Limits) Options { return srv.limited(l).Options }

// SameSettings reports whether sessions with limits a share their settings with those with limits b.
func SameSettings(srv *Server, a, b Limits) bool { return srv.limited(a) == srv.limited(b) }

// OwesDrain reports whether Drain is owed to a session of srv.
func OwesDrain(srv *Server) bool {
	for s := range srv.Sessions() {
		s.out.Lock()
		owes := s.drainOwed
		s.out.Unlock()
		if owes {
			return true
		}
	}
	return false
}

// AwaitsReceiver reports whether the session waits for its receiver.
func AwaitsReceiver(s *Session) bool { return s.pull != nil && s.pull.waits.Load() }

// Corked reports whether frames are corked.
func Corked(s *Session) bool {
	s.out.Lock()
	defer s.out.Unlock()
	return s.out.IsCorked()
}

// Dialing returns how many connections c is making.
func Dialing(c *Client) int { return PendingConns(c.srv) }

// ClientClosed reports whether the client of s is closed.
func ClientClosed(s *Session) bool { return s.srv.isClosed() }

// HalfClosed reports whether an ending session has half-closed its connection.
func HalfClosed(s *Session) bool {
	s.out.Lock()
	defer s.out.Unlock()
	return s.writeClosed
}
