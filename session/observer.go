package session

import (
	"errors"
	"log/slog"
	"net"
)

// Observer is told of the events that [Stats] counts, with the session and the reason. Any function may be nil. The goroutine that causes an
// event calls its function at the moment the event is counted. Several calls may run at a time. The functions must be quick, must not block or
// panic, and must not call Close of a session or of the server.
type Observer struct {
	// Opened is called before Open of the handler, and Closed after Close of the handler, once each for a session. The info must not be changed
	// or kept.
	Opened func(*Session)
	Closed func(*Session, *CloseInfo)
	// Refused is called for a connection that did not become a session, or whose Open returned err. Otherwise err is [ErrLimit], or the error of
	// the TLS handshake or of the PROXY header. The address may be nil.
	Refused func(remote net.Addr, err error)
	// HandedOff is called when a handler has lost its event loop, because it kept the loop from other sessions for too long: see the package
	// comment.
	HandedOff func(*Session)
	// Dropped is called when the policy refused or dropped frames because the queue of a session was full. Frames that TryWrite does not take do
	// not count.
	Dropped func(s *Session, frames int)
	// BadDatagram is called for a datagram whose rest could not be decoded, or that was cut off because it was too large. Stats counts it too.
	// The address of its sender may be forged.
	BadDatagram func(s *Session, err error)
	// Panicked is called when a function of the handler, or the codec, has panicked or ended its goroutine.
	Panicked func(*Session, *PanicError)
	// AcceptFailed is called when accepting has failed and will be tried again. If a [transport.Listener] lacks descriptors, it closes
	// connections instead, and Stats.Shed counts them.
	AcceptFailed func(error)
}

// opening counts a session whose Open is about to be called, and tells the observer.
func (s *Session) opening() {
	s.srv.shard(s).opened.Add(1)
	if f := s.srv.observer.Opened; f != nil {
		f(s)
	}
}

// closed counts a session whose Close has been called, and tells the observer.
func (s *Session) closed(info *CloseInfo) {
	s.srv.shard(s).closed.Add(1)
	if f := s.srv.observer.Closed; f != nil {
		f(s, info)
	}
}

// refused counts a connection that did not become a session, and tells the observer.
func (srv *Server) refused(remote net.Addr, err error) {
	if errors.Is(err, srv.closedErr) {
		return
	}
	srv.counters[0].refused.Add(1)
	srv.o.Logger.Debug("session: connection refused", "remote", addressValue{remote}, "error", err)
	if f := srv.observer.Refused; f != nil {
		f(remote, err)
	}
}

// addressValue is an address for logs. It is formatted only if the record is logged.
type addressValue struct{ net.Addr }

// LogValue returns the text.
func (a addressValue) LogValue() slog.Value {
	if a.Addr == nil {
		return slog.StringValue("")
	}
	return slog.StringValue(a.String())
}

// droppedLocked counts n frames that were refused or dropped because the queue was full. If there is an observer, the lock is released
// meanwhile.
func (s *Session) droppedLocked(n int) {
	s.srv.shard(s).drops.Add(uint64(n))
	if f := s.srv.observer.Dropped; f != nil {
		s.out.Unlock()
		f(s, n)
		s.out.Lock()
	}
}

// countHandOff counts a handler that has lost its loop, and tells the observer.
func (s *Session) countHandOff() {
	s.srv.shard(s).handedOff.Add(1)
	if f := s.srv.observer.HandedOff; f != nil {
		f(s)
	}
}
