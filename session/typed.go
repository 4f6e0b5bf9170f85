package session

import "fmt"

// Typed is a handler whose functions are given the state of their session, of which Open makes one. The functions and what they may do
// are those of [Handler]; any may be nil. Make one value, and one [Handler] of it, for all sessions: nothing is allocated per message.
//
// The state is the session's Value, so that it can be had elsewhere, as in a loop over [Server.Sessions]. Open finds there what
// [Attach].Value brought, and what it returns takes that place. Without Open the state is Attach.Value, or the zero T when there is
// none. [Session.SetValue] with another T replaces the state; with anything else it ends the session, at the next call.
type Typed[T any] struct {
	// Open returns the state. With an error the connection is refused, and Close is given the state all the same.
	Open func(*Session) (T, error)
	// Message, Tick, Writable, Drain and Close are those of [Handler]. Writable and Drain may run while another function uses
	// the state.
	Message  func(s *Session, state T, msg []byte)
	Tick     func(s *Session, state T)
	Writable func(s *Session, state T)
	Drain    func(s *Session, state T)
	Close    func(s *Session, state T, info *CloseInfo)
}

// Handler returns the handler that calls the functions of h, which may be changed afterwards.
func (h Typed[T]) Handler() *Handler {
	out := &Handler{Tick: withState(h.Tick), Writable: withState(h.Writable), Drain: withState(h.Drain)}
	if h.Open != nil {
		out.Open = func(s *Session) error {
			state, err := h.Open(s)
			s.SetValue(state)
			return err
		}
	}
	if h.Message != nil {
		out.Message = func(s *Session, msg []byte) {
			if state, ok := stateOf[T](s); ok {
				h.Message(s, state, msg)
			}
		}
	}
	if h.Close != nil {
		out.Close = func(s *Session, info *CloseInfo) {
			state, _ := stateOf[T](s) // the zero T if it is lost: Close is called in any case
			h.Close(s, state, info)
		}
	}
	return out
}

// withState returns a function that calls f with the state.
func withState[T any](f func(*Session, T)) func(*Session) {
	if f == nil {
		return nil
	}
	return func(s *Session) {
		if state, ok := stateOf[T](s); ok {
			f(s, state)
		}
	}
}

// stateOf returns the state of s. If something else is in its place it ends the session.
func stateOf[T any](s *Session) (state T, ok bool) {
	v := s.Value()
	if state, ok = v.(T); ok || v == nil {
		return state, true
	}
	s.Abort(fmt.Errorf("session: the Value is a %T and not the state, a %T", v, state))
	return state, false
}
