package main

import (
	"errors"
	"log/slog"
	"net"
	"sync/atomic"
	"unicode/utf8"

	"github.com/sluice-push/sluice/examples/internal/command"
	"github.com/sluice-push/sluice/session"
)

// server is a session.Server that carries commands out. Its functions run for many sessions at a time.
type server struct {
	*session.Server
	logger   *slog.Logger
	received atomic.Uint64 // connects and submits
	sent     atomic.Uint64 // answers that sessions took
}

// client is the state of a session, and is used by its functions only, which never run at the same time.
type client struct {
	name      string
	connected bool
	answer    [command.AnswerSize]byte // where answers are made
}

// newServer makes a server. The logger hears of sessions that ended otherwise than in order.
func newServer(logger *slog.Logger, o *session.Options) *server {
	srv := &server{logger: logger}
	o.Logger = logger
	h := session.Typed[*client]{
		Open:    func(*session.Session) (*client, error) { return new(client), nil },
		Message: srv.message,
		Close:   srv.closed,
	}
	srv.Server = session.NewServer(command.Codec, h.Handler(), o)
	return srv
}

// closed tells the logger of a session that ended neither because the peer wanted it nor because the server ends.
func (srv *server) closed(s *session.Session, c *client, info *session.CloseInfo) {
	if info.By != session.ByPeer && !errors.Is(info.Err, net.ErrClosed) {
		srv.logger.Info("session ended", "remote", s.RemoteAddr(), "name", c.name, "by", info.By, "error", info.Err)
	}
}

// message handles one frame.
func (srv *server) message(s *session.Session, c *client, msg []byte) {
	r, err := command.Parse(msg)
	if err != nil {
		s.End(nil, err) // nobody knows to what an answer would belong
		return
	}
	srv.received.Add(1)
	answer := c.carryOut(r)
	if err := s.Write(command.AppendAnswer(c.answer[:0], answer)); err == nil {
		srv.sent.Add(1)
	}
}

// carryOut does what a request says. The server has nothing to do with payloads: put your work here.
func (c *client) carryOut(r command.Request) command.Answer {
	a := command.Answer{ID: r.ID, Command: command.Submitted, Result: command.OK}
	if r.Command == command.Connect {
		a.Command = command.Connected
	}
	switch {
	case r.Command == command.Submit && !c.connected:
		a.Result = command.NotConnected
	case r.Command == command.Submit:
	case c.connected:
		a.Result = command.Again
	case len(r.Body) > command.MaxName || !utf8.Valid(r.Body):
		a.Result = command.BadName
	default:
		c.name, c.connected = string(r.Body), true
	}
	return a
}
