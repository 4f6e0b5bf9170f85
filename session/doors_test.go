package session

// More doors for tests.

// Settings returns what a session of srv has with l.
func Settings(srv *Server, l Limits) Options { return srv.limited(l).Options }

// SameSettings reports whether sessions with a share their settings with those with b.
func SameSettings(srv *Server, a, b Limits) bool { return srv.limited(a) == srv.limited(b) }

// OwesDrain reports whether a session of srv is to be drained when its Open has returned.
func OwesDrain(srv *Server) bool {
	for s := range srv.Sessions() {
		s.mu.Lock()
		owes := s.goodbye
		s.mu.Unlock()
		if owes {
			return true
		}
	}
	return false
}

// HandsOver reports whether a message waits to be received.
func HandsOver(s *Session) bool { return s.pull != nil && s.pull.waits.Load() }

// Corked reports whether what is sent is gathered.
func Corked(s *Session) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.corked
}

// Dialing returns how many connections c is making.
func Dialing(c *Client) int { return Arriving(c.srv) }

// ClientClosed reports whether the client of s is closed.
func ClientClosed(s *Session) bool { return s.srv.isClosed() }

// HalfClosed reports whether an ending session has told its peer that nothing more comes.
func HalfClosed(s *Session) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.half
}
