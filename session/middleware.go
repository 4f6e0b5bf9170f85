package session

import (
	"context"
	"log/slog"
	"slices"
)

// Middleware changes some functions of a handler and returns the others as they are. If it does not need a function that is nil, it should leave
// it nil, so that nothing is called for it.
type Middleware func(Handler) Handler

// Chain returns h with all middleware applied. The first one is outermost.
func Chain(h Handler, m ...Middleware) *Handler {
	for _, around := range slices.Backward(m) {
		h = around(h)
	}
	return &h
}

// Logged logs when sessions begin and how they end: at Debug if ByLocal or ByPeer, otherwise at Info. A nil logger discards.
func Logged(logger *slog.Logger) Middleware {
	if logger == nil {
		logger = slog.New(slog.DiscardHandler)
	}
	return func(h Handler) Handler {
		open, closing := h.Open, h.Close
		h.Open = func(s *Session) error {
			logger.Debug("session: opened", "session", s.ID(), "remote", addressValue{s.RemoteAddr()})
			if open == nil {
				return nil
			}
			return open(s)
		}
		h.Close = func(s *Session, info *CloseInfo) {
			level := slog.LevelInfo
			if info.By == ByLocal || info.By == ByPeer {
				level = slog.LevelDebug
			}
			logger.Log(context.Background(), level, "session: closed", "session", s.ID(), "remote", addressValue{s.RemoteAddr()},
				"by", info.By.String(), "error", info.Err, "undelivered", info.Undelivered)
			if closing != nil {
				closing(s, info)
			}
		}
		return h
	}
}

// Concurrent bounds how many calls of Message run at a time, over all handlers that it is applied to. Other calls wait, and their peers are
// slowed down. It is for handlers that wait for a scarce resource, such as a database. If n is not positive, Concurrent panics.
func Concurrent(n int) Middleware {
	if n <= 0 {
		panic("session: Concurrent needs a positive number")
	}
	places := make(chan struct{}, n)
	return func(h Handler) Handler {
		message := h.Message
		if message == nil {
			return h
		}
		h.Message = func(s *Session, msg []byte) {
			places <- struct{}{}
			defer func() { <-places }()
			message(s, msg)
		}
		return h
	}
}
