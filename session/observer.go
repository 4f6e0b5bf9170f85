package session

import (
	"errors"
	"log/slog"
	"net"
)

// Observer is told of events, for what [Stats] cannot say: whose, and why. Any function may be nil. They are called by whoever
// causes the event, at the moment it is counted, possibly several at a time. So they must be quick, must not block or panic, and must not
// call Close of a session or of the server.
type Observer struct {
	// Opened is called before Open of the handler, Closed after Close of the handler, once each for a session. The info
	// must not be changed or kept.
	Opened func(*Session)
	Closed func(*Session, *CloseInfo)
	// Refused is called for a connection that did not become a session, or whose Open returned err. Besides that err is [ErrLimit], or
	// what was wrong with the TLS handshake or the PROXY header. The address may be nil.
	Refused func(remote net.Addr, err error)
	// TakenOver is called when a handler has kept an event loop from others for so long that it lost it: see the package
	// comment.
	TakenOver func(*Session)
	// Dropped is called when the full queue of a session made a policy refuse or drop so many frames; not for TryWrite.
	Dropped func(s *Session, frames int)
	// BadDatagram is called for a datagram whose rest could not be decoded, or was cut off because it was too large, which Stats counts.
	// The address it came from may not be the address of who sent it.
	BadDatagram func(s *Session, err error)
	// Panicked is called when a function of the handler, or the codec, has panicked or ended its goroutine.
	Panicked func(*Session, *PanicError)
	// AcceptFailed is called when accepting failed and is tried again. A lack of descriptors is not among it where a
	// [transport.Listener] sees to that: Stats.Shed counts it.
	AcceptFailed func(error)
}

// opening counts a session whose Open is about to be called.
func (s *Session) opening() {
	s.srv.shard(s).opened.Add(1)
	if f := s.srv.observer.Opened; f != nil {
		f(s)
	}
}

// closed counts a session whose Close was called.
func (s *Session) closed(info *CloseInfo) {
	s.srv.shard(s).closed.Add(1)
	if f := s.srv.observer.Closed; f != nil {
		f(s, info)
	}
}

// refused counts a connection that did not become a session.
func (srv *Server) refused(remote net.Addr, err error) {
	if errors.Is(err, srv.shut) {
		return
	}
	srv.counters[0].refused.Add(1)
	srv.o.Logger.Debug("session: connection refused", "remote", addressValue{remote}, "error", err)
	if f := srv.observer.Refused; f != nil {
		f(remote, err)
	}
}

// addressValue is an address for logs, which becomes text only if it is logged.
type addressValue struct{ net.Addr }

// LogValue returns the text.
func (a addressValue) LogValue() slog.Value {
	if a.Addr == nil {
		return slog.StringValue("")
	}
	return slog.StringValue(a.String())
}

// droppedLocked counts n frames that were refused or dropped because the queue was full. It may let go of the mutex meanwhile.
func (s *Session) droppedLocked(n int) {
	s.srv.shard(s).drops.Add(uint64(n))
	if f := s.srv.observer.Dropped; f != nil {
		s.mu.Unlock()
		f(s, n)
		s.mu.Lock()
	}
}

// wasTakenOver counts a handler that has lost its loop.
func (s *Session) wasTakenOver() {
	s.srv.shard(s).takenOver.Add(1)
	if f := s.srv.observer.TakenOver; f != nil {
		f(s)
	}
}
