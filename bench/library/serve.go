package main

import (
	"bufio"
	"context"
	"encoding/binary"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"net"
	"os"
	"runtime"
	"runtime/debug"
	"runtime/pprof"
	"sync"
	"sync/atomic"
	"syscall"
	"time"
)

// The wire, as csrc/common.h describes it.
const (
	ackSize       = 14
	requestHeader = 13
	commandSleep  = 0x03
	commandAck    = 0x81
	maxFrame      = 64 << 10
)

// errFrame says that a frame's length cannot be.
var errFrame = errors.New("a frame of an impossible length")

// protocol says how servers answer.
type protocol struct {
	echo bool // with the same frame; otherwise with an acknowledgement
}

// smallest is the length of the shortest frame.
func (p protocol) smallest() int {
	if p.echo {
		return 4
	}
	return requestHeader
}

// frameSize returns the length of the frame that begins with head, which has at least four bytes.
func (p protocol) frameSize(head []byte) (int, error) {
	n := int(binary.BigEndian.Uint32(head))
	if n < p.smallest() || n > maxFrame {
		return 0, errFrame
	}
	return n, nil
}

// answer is what every server's handler does with a frame: it sleeps if the frame says so, and returns the answer, which is the
// frame itself or built in ack.
func (p protocol) answer(frame []byte, ack *[ackSize]byte) []byte {
	if p.echo {
		return frame
	}
	if frame[4] == commandSleep && len(frame) >= requestHeader+4 {
		time.Sleep(time.Duration(binary.BigEndian.Uint32(frame[requestHeader:])) * time.Microsecond)
	}
	binary.BigEndian.PutUint32(ack[:], ackSize)
	ack[4] = commandAck
	copy(ack[5:13], frame[5:13])
	ack[13] = 0
	return ack[:]
}

// served is a server that runs.
type served struct {
	conns func() int // how many connections it has now
	close func()     // ends it and waits
}

// status is what a server process says of itself.
type status struct {
	Conns      int    `json:"conns"`
	CPU        int64  `json:"cpu_ns"`
	Goroutines int    `json:"goroutines"`
	Mallocs    uint64 `json:"mallocs"`
}

// address is the first thing a server process prints.
type address struct {
	Addr string `json:"addr"`
}

// serve is the process of a server in Go: it serves until its input ends, and answers the commands stats, sample (which does not
// stop the world, and knows no mallocs) and gc.
func serve(args []string, stdin io.Reader, stdout io.Writer) error {
	flags := flag.NewFlagSet("serve", flag.ContinueOnError)
	name := flags.String("server", "", "which")
	proto := flags.String("proto", "ack", "ack or echo")
	burners := flags.Int("burners", 0, "goroutines that do nothing but compute")
	profile := flags.String("profile", "", "a file for a profile of the processors")
	if err := flags.Parse(args); err != nil {
		return err
	}
	begin := starters()[*name]
	if begin == nil {
		return fmt.Errorf("no server is called %q", *name)
	}
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return err
	}
	addr := ln.Addr().String()
	srv, err := begin(ln, protocol{echo: *proto == "echo"})
	if err != nil {
		return errors.Join(err, ln.Close())
	}
	defer srv.close()
	if *profile != "" {
		f, err := os.Create(*profile)
		if err != nil {
			return err
		}
		defer f.Close() //nolint:errcheck // a profile that is cut is seen when it is read
		if err := pprof.StartCPUProfile(f); err != nil {
			return err
		}
		defer pprof.StopCPUProfile()
	}
	defer burn(*burners)()
	out := json.NewEncoder(stdout)
	if err := out.Encode(address{Addr: addr}); err != nil {
		return err
	}
	lines := bufio.NewScanner(stdin)
	for lines.Scan() {
		if lines.Text() == "gc" {
			for range 3 {
				runtime.GC()
			}
			debug.FreeOSMemory()
		}
		if err := out.Encode(measure(srv, lines.Text() != "sample")); err != nil {
			return err
		}
	}
	return lines.Err()
}

func measure(srv *served, exact bool) status {
	s := status{Conns: srv.conns(), Goroutines: runtime.NumGoroutine()}
	if exact {
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

// burn keeps n goroutines busy until the function it returns is called.
func burn(n int) func() {
	ctx, cancel := context.WithCancel(context.Background())
	var all sync.WaitGroup
	var sink atomic.Uint64
	for range n {
		all.Go(func() {
			x := uint64(1)
			for ctx.Err() == nil {
				for range 1 << 16 {
					x = x*6364136223846793005 + 1442695040888963407
				}
			}
			sink.Add(x)
		})
	}
	return func() {
		cancel()
		all.Wait()
	}
}
