// Command rpc-load calls the method Echo of rpc-echo, or of any server that has it: so many callers make a call each at a time, over few connections,
// and check every answer. Each second it says how many calls were answered, and how long that took: the time in which half of the answers, and 99 and
// 99.9 of a hundred, came. It ends with status 0 if every call was answered rightly, and otherwise with 1.
//
// With -registry the calls go to all servers of the service echo, by package rpc/client: servers may come, stop and be killed meanwhile. Echo may be
// carried out twice, so its calls are made again when a connection was lost.
//
// With -calls 0 it goes on until SIGTERM or ^C. These end it gently: no more calls are made, and those under way are waited for.
package main

import (
	"cmp"
	"errors"
	"flag"
	"fmt"
	"time"

	"github.com/sluice-push/sluice/examples/internal/echo"
	"github.com/sluice-push/sluice/examples/internal/registry"
	"github.com/sluice-push/sluice/examples/internal/run"
)

// settings are the flags.
type settings struct {
	addr     string
	registry string
	conns    int
	callers  int
	calls    uint64
	size     int
	form     string
	framing  string
	timeout  time.Duration
	interval time.Duration
}

// flags defines the flags, for when they are parsed.
func flags() *settings {
	s := new(settings)
	flag.StringVar(&s.addr, "addr", "127.0.0.1:7011", "`address` of the server: HOST:PORT, or unix:PATH")
	flag.StringVar(&s.registry, "registry", "", registry.Usage+"; then -addr is not used")
	flag.IntVar(&s.conns, "conns", 1, "how many connections the callers share, to each server")
	flag.IntVar(&s.callers, "callers", 100, "how many calls are under way at a time")
	flag.Uint64Var(&s.calls, "calls", 100_000, "how many calls are made in all; 0 is without end")
	flag.IntVar(&s.size, "size", 1024, "`bytes` of the text of a call")
	flag.StringVar(&s.form, "form", "raw", "form of bodies: "+echo.Names())
	flag.StringVar(&s.framing, "framing", "ttheader", "framing: ttheader, theader, framed or unframed; the last two are for thrift")
	flag.DurationVar(&s.timeout, "timeout", 10*time.Second, "deadline of each call")
	flag.DurationVar(&s.interval, "interval", time.Second, "how often to say how it goes")
	return s
}

// check returns what is wrong with the settings.
func (s *settings) check() error {
	switch {
	case s.conns < 1 || s.conns > 10_000:
		return errors.New("-conns: 1 to 10000")
	case s.callers < 1 || s.callers > 1_000_000:
		return errors.New("-callers: 1 to 1000000")
	case s.size < 0 || s.size > maxSize:
		return fmt.Errorf("-size: 0 to %d", maxSize)
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
	l, err := newLoad(ctx, s)
	if err != nil {
		run.Fail(err)
	}
	run.Say("%d callers, %d bytes each, over %d connections to %s", s.callers, s.size, s.conns, cmp.Or(s.registry, s.addr))
	err = l.run(ctx)
	l.close()
	if err != nil {
		run.Fail(err)
	}
	run.Say("every call was answered with its own text")
}
