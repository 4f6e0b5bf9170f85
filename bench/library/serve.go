package main

import (
	"context"
	"encoding/binary"
	"errors"
	"io"
	"net"
	"sync"
	"sync/atomic"
	"time"

	"github.com/sluice-push/sluice/bench/internal/server"
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

// serve is the process of a server in Go.
func serve(args []string, stdin io.Reader, stdout io.Writer) error {
	p := server.NewProcess()
	proto := p.Flags().String("proto", ack, "ack or echo")
	burners := p.Flags().Int("burners", 0, "goroutines that do nothing but compute")
	return p.Run(args, stdin, stdout, func(name string, ln net.Listener) (*server.Served, error) {
		begin := starters()[name]
		if begin == nil {
			return nil, server.Unknown(name)
		}
		srv, err := begin(ln, protocol{echo: *proto == echo})
		if err != nil {
			return nil, err
		}
		rest := burn(*burners)
		return &server.Served{Conns: srv.Conns, Close: func() {
			rest()
			srv.Close()
		}}, nil
	})
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
