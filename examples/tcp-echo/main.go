// Command tcp-echo is a server in two lines: NewServer and Serve. Its messages are 4 bytes of length, most significant first, and
// that many bytes, at most 64 KiB; each comes back as it is.
//
// Who connects and says nothing for ten seconds is disconnected, as are peers that send what is no message, and those that do not
// read what they get: the defaults of [session.Options].
package main

import (
	"github.com/sluice-push/sluice/codec"
	"github.com/sluice-push/sluice/examples/internal/run"
	"github.com/sluice-push/sluice/session"
)

func main() {
	app := run.Start("127.0.0.1:7001")
	srv := session.NewServer(codec.Length{}, &session.Handler{Message: echo, Drain: goodbye}, nil)
	app.AtEnd(srv.Shutdown)
	app.Exit(srv.Serve(app.Listener))
}

// echo sends a message back. If that fails the session is over, and there is nobody to tell.
func echo(s *session.Session, msg []byte) { _ = s.Send(msg) }

// goodbye ends a session when the server is about to end, after what is still to be written.
func goodbye(s *session.Session) { s.End(nil, nil) }
