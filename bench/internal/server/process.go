// Package server is the process of a server in Go that is measured.
package server

import (
	"bufio"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"runtime"
	"runtime/debug"
	"runtime/metrics"
	"runtime/pprof"
	"syscall"
	"time"
)

// Served is a server that runs.
type Served struct {
	Conns func() int // how many connections it has now
	Close func()     // ends it and waits
	Addr  string     // where it listens, if it closed the listener that it was given

	// A server that is a process of its own, which this one looks after, has these in place of Conns.
	PID    int
	Status func(command string) (Status, error)
}

// Status is what a server process says of itself.
type Status struct {
	Conns      int    `json:"conns"`
	CPU        int64  `json:"cpu_ns"`
	GC         int64  `json:"gc_ns"` // of CPU, until the end of the last collection
	Goroutines int    `json:"goroutines"`
	Mallocs    uint64 `json:"mallocs"`
	Unused     int64  `json:"unused"` // bytes of memory that it would give back if it were told to, like the others
}

// Address is the first thing a server process prints.
type Address struct {
	Addr string `json:"addr"`
	PID  int    `json:"pid"` // of the server, if that is another process
}

// Process is a server that lives as long as its input.
type Process struct {
	flags         *flag.FlagSet
	name, profile *string
}

// NewProcess returns a process; flags of its own are added to Flags before it runs.
func NewProcess() *Process {
	p := &Process{flags: flag.NewFlagSet("serve", flag.ContinueOnError)}
	p.name = p.flags.String("server", "", "which")
	p.profile = p.flags.String("profile", "", "a file for a profile of the processors")
	return p
}

// Flags are the flags of the process.
func (p *Process) Flags() *flag.FlagSet { return p.flags }

// Run starts the server that begin returns for its name, and serves until its input ends. It answers the commands stats, sample (which
// does not stop the world, and knows no mallocs) and gc, which collects garbage and gives memory back first.
func (p *Process) Run(args []string, stdin io.Reader, stdout io.Writer, begin func(name string, ln net.Listener) (*Served, error)) error {
	if err := p.flags.Parse(args); err != nil {
		return err
	}
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return err
	}
	addr := ln.Addr().String()
	srv, err := begin(*p.name, ln)
	if err != nil {
		return errors.Join(err, ln.Close())
	}
	defer srv.Close()
	if *p.profile != "" && srv.PID == 0 {
		f, err := os.Create(*p.profile)
		if err != nil {
			return err
		}
		defer f.Close() //nolint:errcheck // a profile that is cut is seen when it is read
		if err := pprof.StartCPUProfile(f); err != nil {
			return err
		}
		defer pprof.StopCPUProfile()
	}
	out := json.NewEncoder(stdout)
	if srv.Addr != "" {
		addr = srv.Addr
	}
	if err := out.Encode(Address{Addr: addr, PID: srv.PID}); err != nil {
		return err
	}
	return answer(srv, stdin, out)
}

// answer answers commands.
func answer(srv *Served, stdin io.Reader, out *json.Encoder) error {
	lines := bufio.NewScanner(stdin)
	for lines.Scan() {
		command := lines.Text()
		if srv.Status != nil {
			s, err := srv.Status(command)
			if err == nil {
				err = out.Encode(s)
			}
			if err != nil {
				return err
			}
			continue
		}
		if command == "gc" {
			for range 3 {
				runtime.GC()
			}
			debug.FreeOSMemory()
		}
		if err := out.Encode(status(srv, command != "sample")); err != nil {
			return err
		}
	}
	return lines.Err()
}

// UnderHTTP starts a net/http server; stop ends it and waits. Handlers of WebSocket begin a goroutine and return, so that nothing of the
// request is kept.
func UnderHTTP(ln net.Listener, h http.HandlerFunc) (stop func()) {
	srv := &http.Server{Handler: h, ReadHeaderTimeout: time.Minute}
	done := make(chan error, 1)
	go func() { done <- srv.Serve(ln) }()
	return func() {
		_ = srv.Close()
		<-done
	}
}

// Unknown is the error for a name that no server has.
func Unknown(name string) error { return fmt.Errorf("no server is called %q", name) }

func status(srv *Served, exact bool) Status {
	s := Status{Conns: srv.Conns(), Goroutines: runtime.NumGoroutine()}
	if exact {
		gc := []metrics.Sample{{Name: "/cpu/classes/gc/total:cpu-seconds"}}
		metrics.Read(gc) // first: it allocates
		s.GC = int64(gc[0].Value.Float64() * 1e9)
		var m runtime.MemStats
		runtime.ReadMemStats(&m)
		s.Mallocs = m.Mallocs
	}
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err == nil {
		s.CPU = u.Utime.Nano() + u.Stime.Nano()
	}
	return s
}
