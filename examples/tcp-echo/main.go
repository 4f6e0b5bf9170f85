// Command tcp-echo is a server in two lines: NewServer and Serve. Its messages are 4 bytes of length, most significant first, and
// that many bytes, at most 16 MiB; each comes back as it is.
//
// Who sends what is no message, or does not read what it gets, is disconnected. Silence is allowed.
package main

import (
	"github.com/sluice-push/sluice/codec"
	"github.com/sluice-push/sluice/examples/internal/run"
	"github.com/sluice-push/sluice/session"
)

const most = 16 << 20 // bytes of a message

func main() {
	app := run.Start("127.0.0.1:7001")
	o := &session.Options{MaxMessage: most, FirstTimeout: -1}
	srv := session.NewServer(codec.Length{Max: most}, &session.Handler{Message: echo}, o)
	app.AtEnd(srv.Shutdown)
	app.Exit(srv.Serve(app.Listener))
}

// echo sends a message back. If that fails the session is over, and there is nobody to tell.
func echo(s *session.Session, msg []byte) { _ = s.Send(msg) }
