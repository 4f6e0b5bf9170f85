package session

import "time"

// Settings of one session in place of the server's: a codec (SetCodec), a handler, limits. The dispatching goroutine changes them, so a
// connection can change its protocol in the middle of Message.

// Limits are the options that one session may have in place of the server's. Zero keeps the server's option. Negative means the same as in
// [Options]: off, if the option can be off.
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

// limitsMax is how many different Limits are shared between sessions. With further ones, each session has settings of its own.
const limitsMax = 64

// limited returns the server's settings with those of l that are not zero. Calls with equal l share the settings, up to limitsMax.
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
	o.writer.Pools = srv.pools
	if srv.limits == nil {
		srv.limits = make(map[Limits]*settings)
	}
	if len(srv.limits) < limitsMax {
		srv.limits[l] = &o
	}
	return &o
}

// settings returns the settings that follow from o and l.
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

// instead returns d. If d is zero, it returns the value in Options that stands for the time old, of which 0 is off.
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

// limited returns the settings of this session with l.
func (s *Session) limited(l Limits) *settings {
	if s.packet != nil {
		return s.srv.packetLimited(l)
	}
	return s.srv.limited(l)
}

// SetLimits replaces the server's limits for this session from now on; limits of an earlier call do not count. It may be called from Open,
// Message and Tick only. Bytes that have arrived, and frames in the queue, are not lost if they exceed the new limits. Timeouts that are running
// are measured against the new limits.
func (s *Session) SetLimits(l Limits) {
	o := s.limited(l)
	s.out.Lock()
	defer s.out.Unlock()
	old := s.o
	s.o = o
	s.out.SetConfig(&o.writer)
	// The codec decodes, and refuses, bytes that have arrived already. There is always room for one more byte, so that the codec is called.
	s.in.Limit = max(o.MaxMessage+headerSlack, len(s.in.Unread())+1)
	s.in.Need = 0
	if s.phase.Load() != phaseOpen {
		return
	}
	now := s.srv.clock()
	if o.IdleTimeout > 0 && old.IdleTimeout == 0 { // lastRead is kept only while there is an IdleTimeout
		s.lastRead.Store(now)
	}
	if o.TickInterval != old.TickInterval {
		s.nextTick = 0
		if o.TickInterval > 0 {
			s.nextTick = now + int64(o.TickInterval)
		}
	}
	s.armLocked()
}

// SetHandler gives the session another handler from now on. With a nil handler, messages are dropped. It may be called from Open, Message and
// Tick only. A session is opened once, so Open of h is not called. When the session ends, Close of h is called, and Close of the handler before
// it is not. Any number of sessions may share h, which must not be changed afterwards.
func (s *Session) SetHandler(h *Handler) {
	if h == nil {
		h = new(Handler)
	}
	s.out.Lock()
	defer s.out.Unlock()
	s.h = h
	if h.Pull {
		s.pullLocked()
	}
}
