package session

import "fmt"

// Typed is a handler whose functions get the state of their session, a T that Open makes. The functions are those of [Handler], with the same
// rules; any may be nil. Make one Typed, and one [Handler] of it, for all sessions: nothing is allocated per message.
//
// The state is the session's Value, so other code can use it too, for example a loop over [Server.Sessions]. Open finds [Attach].Value there,
// and the state that it returns replaces that. Without Open the state is Attach.Value, or the zero T if there is none. [Session.SetValue] with
// another T replaces the state. If it stores another type, the session ends when a function is to be called next.
type Typed[T any] struct {
	// Open returns the state. If there is an error, the connection is refused, and Close gets the state all the same.
	Open func(*Session) (T, error)
	// Message, Tick, Writable, Drain and Close are those of [Handler]. Writable and Drain may run while another function uses the state.
	Message  func(s *Session, state T, msg []byte)
	Tick     func(s *Session, state T)
	Writable func(s *Session, state T)
	Drain    func(s *Session, state T)
	Close    func(s *Session, state T, info *CloseInfo)
}

// Handler returns a handler that calls the functions of h. Later changes of h do not affect it.
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
			state, _ := stateOf[T](s) // the zero T if it is lost, because Close is called in any case
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

// stateOf returns the state of s. If the Value has another type, stateOf ends the session.
func stateOf[T any](s *Session) (state T, ok bool) {
	v := s.Value()
	if state, ok = v.(T); ok || v == nil {
		return state, true
	}
	s.Abort(fmt.Errorf("session: the Value has type %T, expected %T", v, state))
	return state, false
}
