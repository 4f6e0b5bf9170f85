// Command line-chat is a chat of one room, made of lines; nc is a client. Each line goes to all the others. What begins with a
// slash is for the server:
//
//	/name NAME   changes your name: 1 to 20 letters, digits, dashes and underscores
//	/who         says who is there, and who has missed something
//	/quit        leaves
//
// A line has at most 1,000 bytes; a longer one ends the session. Those who read more slowly than the others talk are dealt with by
// -slow: drop forgets the oldest lines that wait for them (the default), refuse the newest, and close disconnects them. None of
// these makes anybody else wait, which the default of package session, [session.Wait], would do.
package main

import (
	"errors"
	"flag"
	"time"

	"github.com/sluice-push/sluice/codec"
	"github.com/sluice-push/sluice/examples/internal/run"
	"github.com/sluice-push/sluice/session"
)

// maxLine is how long a line of a peer may be, in bytes. What is made of it may be longer by a name.
const maxLine = 1000

func main() {
	slow := session.DropOldest
	flag.Func("slow", "what becomes of slow readers: `drop`, refuse or close (default drop)", func(word string) (err error) {
		slow, err = policy(word)
		return err
	})
	app := run.Start("127.0.0.1:7002")
	r := newRoom(&session.Options{
		MaxMessage:  maxLine,
		MaxSessions: 1000,
		Policy:      slow,
		SendBuffer:  32 << 10, // what the kernel keeps for a slow reader nobody counts
		Linger:      time.Second,
		// People read first and talk later, if at all.
		FirstTimeout: -1,
	})
	app.AtEnd(r.srv.Shutdown)
	app.Exit(r.srv.Serve(app.Listener))
}

// policy returns what a value of -slow stands for.
func policy(word string) (session.Policy, error) {
	switch word {
	case "drop":
		return session.DropOldest, nil
	case "refuse":
		return session.Refuse, nil
	case "close":
		return session.CloseSlow, nil
	}
	return 0, errors.New("drop, refuse or close is expected")
}

// newRoom makes a room and its server. Of the options it sets the observer.
func newRoom(o *session.Options) *room {
	r := &room{names: make(map[string]*member)}
	o.Observer = &session.Observer{Dropped: dropped}
	h := session.Typed[*member]{Open: r.open, Message: r.message, Drain: r.drain, Close: r.close}
	r.srv = session.NewServer(codec.Line{}, h.Handler(), o)
	return r
}
