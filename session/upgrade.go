package session

import "time"

// What a session may have of its own, instead of the server's: a codec (SetCodec), a handler, limits. All three are changed by who has
// the turn, so a protocol that begins with one language and goes on in another switches in the middle of Message.

// Limits are the options that a session may have of its own. Zero keeps the server's; negative means what it means in [Options], off
// where there is such a thing.
type Limits struct {
	MaxMessage   int
	QueueBytes   int
	QueueFrames  int
	QueueAge     time.Duration
	Policy       Policy
	WriteTimeout time.Duration
	IdleTimeout  time.Duration
	Linger       time.Duration
	TickInterval time.Duration
}

// limitsMax is how many different limits are shared: sessions with others have a copy each.
const limitsMax = 64

// limited returns the server's settings with l instead, the same for all who ask for it.
func (srv *Server) limited(l Limits) *settings {
	if l == (Limits{}) {
		return &srv.o
	}
	srv.mu.Lock()
	defer srv.mu.Unlock()
	if o := srv.limits[l]; o != nil {
		return o
	}
	o := l.settings(srv.o.Options)
	if srv.limits == nil {
		srv.limits = make(map[Limits]*settings)
	}
	if len(srv.limits) < limitsMax {
		srv.limits[l] = &o
	}
	return &o
}

// settings returns what o is with l.
func (l *Limits) settings(o Options) settings {
	o.MaxMessage = size(l.MaxMessage, o.MaxMessage, -1)
	o.QueueBytes = size(l.QueueBytes, o.QueueBytes, -1)
	o.QueueFrames = size(l.QueueFrames, o.QueueFrames, -1)
	o.QueueAge = instead(l.QueueAge, o.QueueAge)
	if l.Policy != 0 {
		o.Policy = l.Policy
	}
	o.WriteTimeout = instead(l.WriteTimeout, o.WriteTimeout)
	o.HandshakeTimeout = instead(0, o.HandshakeTimeout)
	o.FirstTimeout = instead(0, o.FirstTimeout)
	o.IdleTimeout = instead(l.IdleTimeout, o.IdleTimeout)
	o.Linger = instead(l.Linger, o.Linger)
	o.TickInterval = instead(l.TickInterval, o.TickInterval)
	return o.settings()
}

// instead returns d or, when it is zero, what Options have to say for the time old, of which 0 is off.
func instead(d, old time.Duration) time.Duration {
	switch {
	case d != 0:
		return d
	case old == 0:
		return -1
	default:
		return old
	}
}

// limited returns the settings of a session with l.
func (s *Session) limited(l Limits) *settings {
	if s.packet != nil {
		return s.srv.packetLimited(l)
	}
	return s.srv.limited(l)
}

// SetLimits gives the session limits of its own from now on, in place of the server's, not of those that an earlier call gave it. It
// may be called from Open, Message and Tick only. What has arrived, or is in the queue, and is more than the new limits allow is not
// lost for that; times that are running are measured against the new ones.
func (s *Session) SetLimits(l Limits) {
	o := s.limited(l)
	s.mu.Lock()
	defer s.mu.Unlock()
	old := s.o
	s.o = o
	// Bytes that are there are decoded, and refused, by the codec. There is always room for one more, so that it is asked.
	s.in.Limit = max(o.MaxMessage+headerSlack, len(s.in.Unread())+1)
	s.in.Need = 0
	if s.phase.Load() != phaseOpen {
		return
	}
	now := s.srv.clock()
	if o.IdleTimeout > 0 && old.IdleTimeout == 0 { // until now nobody noted when something arrived
		s.lastRead.Store(now)
	}
	if o.TickInterval != old.TickInterval {
		s.nextTick = 0
		if o.TickInterval > 0 {
			s.nextTick = now + int64(o.TickInterval)
		}
	}
	s.armLocked()
	if s.waiters != nil && s.q != nil {
		s.letInLocked()
	}
}

// SetHandler gives the session another handler from now on; nil handles nothing. It may be called from Open, Message and Tick only. A
// session is opened once, so Open of h is not called; Close of h is, in the end, and that of the handler before it is not. h must not be
// changed afterwards: it may be shared by any number of sessions.
func (s *Session) SetHandler(h *Handler) {
	if h == nil {
		h = new(Handler)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.h = h
	if h.Pull {
		s.pullLocked()
	}
}
