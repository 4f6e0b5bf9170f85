// Command command-load plays clients of command-server: each connects and submits requests, of which so many are in flight at a
// time. It checks that every request is answered, in order, exactly once, and with the result 0. Then it ends with status 0, and
// otherwise, when the first thing is wrong, with status 1. Each second it says how many messages a second were answered, and how
// long the answers took: the time from when a request was sent first, in which half of the answers, and 99 of a hundred, came.
//
// With -reconnect, clients whose session ends connect again, and send again what was not answered: package reconnect. The server
// may then have carried out a request twice, of which only one answer came; who does not want that has to remember ids there.
//
// With -messages 0 it goes on until SIGTERM or ^C. These end it gently: nothing more is sent, and what is in flight is waited for.
package main

import (
	"errors"
	"flag"
	"fmt"
	"sync"
	"time"

	"github.com/sluice-push/sluice/examples/internal/command"
	"github.com/sluice-push/sluice/examples/internal/run"
)

// settings are the flags.
type settings struct {
	connect   string
	clients   int
	messages  uint64
	inFlight  int
	size      int
	reconnect bool
	attempts  int
	timeout   time.Duration
	interval  time.Duration
}

// flags defines the flags, for when they are parsed.
func flags() *settings {
	s := new(settings)
	flag.StringVar(&s.connect, "connect", "127.0.0.1:7003", "`address` of the server")
	flag.IntVar(&s.clients, "clients", 10, "how many clients")
	flag.Uint64Var(&s.messages, "messages", 10000, "how many messages each client sends; 0 is without end")
	flag.IntVar(&s.inFlight, "in-flight", 16, "how many messages of a client wait for an answer at a time")
	flag.IntVar(&s.size, "size", 915, "`bytes` of each message on the wire, 13 of them before the payload")
	flag.BoolVar(&s.reconnect, "reconnect", false, "connect again when a session ends, and send again what was not answered")
	flag.IntVar(&s.attempts, "attempts", 60, "with -reconnect, how often in a row connecting may fail")
	flag.DurationVar(&s.timeout, "timeout", 10*time.Second, "how long the server may be silent while it owes an answer")
	flag.DurationVar(&s.interval, "interval", time.Second, "how often to say how it goes")
	return s
}

// check returns what is wrong with the settings.
func (s *settings) check() error {
	switch {
	case s.clients < 1 || s.clients > 1<<20:
		return errors.New("-clients: 1 to 1048576")
	case s.inFlight < 1 || s.inFlight > 1<<16:
		return errors.New("-in-flight: 1 to 65536")
	case s.size < command.Header || s.size > command.MaxFrame:
		return fmt.Errorf("-size: %d to %d", command.Header, command.MaxFrame)
	case s.inFlight > 1<<30/s.size:
		return errors.New("-in-flight and -size: at most 1 GiB in flight for each client")
	case s.attempts < 1:
		return errors.New("-attempts: at least 1")
	case s.timeout <= 0 || s.interval <= 0:
		return errors.New("-timeout and -interval: more than nothing")
	}
	return nil
}

func main() {
	s := flags()
	run.Parse()
	if err := s.check(); err != nil {
		run.Fail(err)
	}
	ctx := run.Signals()
	l, err := newLoad(*s)
	if err != nil {
		run.Fail(err)
	}
	run.Say("%d clients, %d messages in flight each, of %d bytes, to %s", s.clients, s.inFlight, s.size, s.connect)
	var reporter sync.WaitGroup
	stop := make(chan struct{})
	reporter.Go(func() { l.report(s.interval, stop) })
	l.dial(ctx)
	l.wait(ctx)
	took := time.Duration(l.now())
	close(stop)
	reporter.Wait()
	err = l.close()
	run.Say("in all %s", l.line(l.latency.Read(), took))
	if err != nil {
		run.Fail(err)
	}
	run.Say("every answer came, in order, exactly once")
}
