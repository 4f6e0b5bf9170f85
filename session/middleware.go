package session

import (
	"context"
	"log/slog"
	"slices"
)

// Middleware puts something around the functions of a handler: it changes those that it needs and returns the rest as they are. A
// function that is nil and is not needed should stay nil, so that nothing is called for it.
type Middleware func(Handler) Handler

// Chain returns h with middleware around it, the first outermost.
func Chain(h Handler, m ...Middleware) *Handler {
	for _, around := range slices.Backward(m) {
		h = around(h)
	}
	return &h
}

// Logged tells the logger when sessions begin and how they end, at Debug what is in order, at Info what is not. A nil logger
// discards.
func Logged(logger *slog.Logger) Middleware {
	if logger == nil {
		logger = slog.New(slog.DiscardHandler)
	}
	return func(h Handler) Handler {
		open, closing := h.Open, h.Close
		h.Open = func(s *Session) error {
			logger.Debug("session: open", "session", s.ID(), "remote", addressValue{s.RemoteAddr()})
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

// Concurrent lets Message run for at most n sessions at a time, for all handlers that it is put around together. The others wait, and
// their peers feel it. It is for handlers that wait for something scarce, such as a database; n must be positive.
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
