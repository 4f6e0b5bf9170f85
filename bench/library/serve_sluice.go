package main

import (
	"errors"
	"net"
	"time"

	"github.com/sluice-push/sluice/bench/internal/server"
	"github.com/sluice-push/sluice/session"
)

// framing is the codec of the wire; a message is the whole frame.
type framing struct{ protocol }

// Decode returns the first frame in in.
func (f framing) Decode(in []byte) ([]byte, int, error) {
	if len(in) < 4 {
		return nil, len(in) - 4, nil
	}
	n, err := f.frameSize(in)
	if err != nil {
		return nil, 0, err
	}
	if n > len(in) {
		return nil, len(in) - n, nil
	}
	return in[:n], n, nil
}

// AppendEncode appends a frame.
func (framing) AppendEncode(dst, frame []byte) ([]byte, error) { return append(dst, frame...), nil }

// AppendHeader says that a message is a frame already.
func (framing) AppendHeader(dst, _ []byte) ([]byte, error) { return dst, nil }

// startSluice starts a server of package session.
func startSluice(o session.Options) starter {
	return func(ln net.Listener, p protocol) (*server.Served, error) {
		// The default of 10 s is too short for those who count what thousands of silent sessions cost.
		o.HandshakeTimeout = time.Minute
		srv := session.NewServer(framing{p}, &session.Handler{Message: func(s *session.Session, frame []byte) {
			// The answer takes the place of the request, which is this function's until it returns, if there is room for it.
			if len(frame) < ackSize {
				frame = append(make([]byte, 0, ackSize), frame...)
			}
			if err := s.Send(p.answer(frame, (*[ackSize]byte)(frame[:ackSize]))); err != nil && !errors.Is(err, session.ErrClosed) {
				s.Abort(err)
			}
		}}, &o)
		done := make(chan error, 1)
		go func() { done <- srv.Serve(ln) }()
		return &server.Served{Conns: srv.Len, Close: func() {
			_ = srv.Close()
			<-done
		}}, nil
	}
}
