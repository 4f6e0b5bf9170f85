package main

import (
	"bufio"
	"bytes"
	"encoding/binary"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"net"
	"os"
	"runtime"
	"runtime/pprof"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/sluice-push/sluice/push"
	"github.com/sluice-push/sluice/push/broker"
)

// linkAddress is where a hub listens for gateways, and for their acknowledgements. It is the first thing that the process prints.
type linkAddress struct {
	Addr string `json:"addr"`
	Acks string `json:"acks"`
}

// linkCounts is what a hub has sent, or a gateway has got.
type linkCounts struct {
	All  int64    `json:"all"`  // publications since the process began
	Last []uint64 `json:"last"` // the offset of the last one of each partition
	Run  int64    `json:"run"`  // publications of this run; of hubs only
	NS   int64    `json:"ns"`   // how long the run took; of hubs only
}

// linkSettings are the flags of hubs and gateways.
type linkSettings struct {
	peer, profile string
	addr, acks    string // of gateways
	shape         linkShape
	heap          int // MB of memory that the process holds besides
}

func linkFlags(role string, args []string) (*linkSettings, error) {
	s := new(linkSettings)
	f := flag.NewFlagSet(role, flag.ContinueOnError)
	f.StringVar(&s.peer, "peer", "", "which")
	f.StringVar(&s.profile, "profile", "", "a file for a profile of the processors")
	f.StringVar(&s.addr, "addr", "", "where the hub listens")
	f.StringVar(&s.acks, "acks", "", "where the hub listens for acknowledgements")
	f.IntVar(&s.shape.size, "size", 1, "publications at a time")
	f.IntVar(&s.shape.window, "window", 1, "publications under way")
	f.IntVar(&s.shape.every, "every", 1, "publications for each acknowledgement")
	f.IntVar(&s.heap, "heap", 0, "MB of memory that the process holds besides")
	if err := f.Parse(args); err != nil {
		return nil, err
	}
	if !slices.Contains(linkPeers(), s.peer) {
		return nil, fmt.Errorf("no peer is called %q", s.peer)
	}
	return s, nil
}

// answer runs f, which answers commands. It holds memory, and takes a profile, if the flags say so.
func (s *linkSettings) answer(f func() error) error {
	held := make([]byte, s.heap<<20)
	defer runtime.KeepAlive(held)
	if s.profile == "" {
		return f()
	}
	file, err := os.Create(s.profile)
	if err != nil {
		return err
	}
	defer file.Close() //nolint:errcheck // a profile that is cut is seen when it is read
	if err := pprof.StartCPUProfile(file); err != nil {
		return err
	}
	defer pprof.StopCPUProfile()
	return f()
}

// linkServer is a peer at the hub. One goroutine calls its methods.
type linkServer interface {
	// deliver sends publications of a partition. The slice belongs to the caller again afterwards.
	deliver(partition int, batch []broker.Message) error
	close()
}

// linkHub is the process of a hub. It answers each line "run MILLISECONDS" with what it has sent, when the gateway has acknowledged that.
func linkHub(args []string, stdin io.Reader, stdout io.Writer) error {
	s, err := linkFlags("hub", args)
	if err != nil {
		return err
	}
	acks, err := listenAcks()
	if err != nil {
		return err
	}
	defer acks.close()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return err
	}
	server, err := serveLink(s, ln, acks)
	if err != nil {
		return errors.Join(err, ln.Close())
	}
	defer server.close()
	out := json.NewEncoder(stdout)
	if err := out.Encode(linkAddress{Addr: ln.Addr().String(), Acks: acks.ln.Addr().String()}); err != nil {
		return err
	}
	f := newFeeder(s, server, acks)
	return s.answer(func() error {
		for lines := bufio.NewScanner(stdin); lines.Scan(); {
			var ms int64
			if _, err := fmt.Sscanf(lines.Text(), "run %d", &ms); err != nil {
				return err
			}
			counts, err := f.run(time.Duration(ms) * time.Millisecond)
			if err == nil {
				err = out.Encode(counts)
			}
			if err != nil {
				return err
			}
		}
		return nil
	})
}

// feeder delivers publications that are prepared, so that little but the peer is measured.
type feeder struct {
	server  linkServer
	acks    *acks
	shape   linkShape
	batches [linkPartitions][]broker.Message
	last    []uint64 // offsets
	sent    int64
}

func newFeeder(s *linkSettings, server linkServer, acks *acks) *feeder {
	f := &feeder{server: server, acks: acks, shape: s.shape, last: make([]uint64, linkPartitions)}
	data := bytes.Repeat([]byte("x"), linkSize)
	for p := range f.batches {
		f.batches[p] = make([]broker.Message, s.shape.size)
		for i := range f.batches[p] {
			f.batches[p][i] = broker.Message{
				Channel:     linkChannels()[p],
				Publication: push.Publication{Time: time.Now().UnixMilli(), Key: fmt.Sprintf("row%02d", i%100), Data: data},
			}
		}
	}
	return f
}

// patience is how long a run may take longer than it was asked for.
const patience = 20 * time.Second

// run delivers for d, and until what was sent is a multiple of what is acknowledged at a time.
func (f *feeder) run(d time.Duration) (*linkCounts, error) {
	begin, before := time.Now(), f.sent
	f.acks.expect(begin.Add(d + patience))
	const looks = 256 // deliveries between two looks at the clock
	for i := 0; i%looks != 0 || f.sent%int64(f.shape.every) != 0 || f.sent == before || time.Since(begin) < d; i++ {
		if err := f.acks.await(f.sent + int64(f.shape.size-f.shape.window)); err != nil {
			return nil, err
		}
		p := i % linkPartitions
		batch := f.batches[p]
		for j := range batch {
			f.last[p]++
			batch[j].Offset = f.last[p]
		}
		if err := f.server.deliver(p, batch); err != nil {
			return nil, err
		}
		f.sent += int64(f.shape.size)
	}
	err := f.acks.await(f.sent)
	return &linkCounts{All: f.sent, Last: f.last, Run: f.sent - before, NS: time.Since(begin).Nanoseconds()}, err
}

// acks are the acknowledgements of a gateway: how many publications it has in all, in eight bytes each time.
type acks struct {
	ln      net.Listener
	done    chan struct{} // closed when no more come
	err     error         // why; read after done
	wake    chan struct{} // has an element if more was acknowledged
	number  atomic.Int64
	mu      sync.Mutex
	conn    net.Conn  // guarded by mu
	until   time.Time // guarded by mu: the deadline of conn
	running sync.WaitGroup
}

func listenAcks() (*acks, error) {
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	a := &acks{ln: ln, done: make(chan struct{}), wake: make(chan struct{}, 1)}
	a.running.Go(func() {
		defer close(a.done)
		a.err = a.receive()
	})
	return a, nil
}

// receive takes a gateway's acknowledgements until its connection ends.
func (a *acks) receive() error {
	conn, err := a.ln.Accept()
	if err != nil {
		return err
	}
	defer conn.Close() //nolint:errcheck // nothing is written
	a.mu.Lock()
	a.conn = conn
	until := a.until
	a.mu.Unlock()
	if err := conn.SetReadDeadline(until); err != nil {
		return err
	}
	for in := bufio.NewReader(conn); ; {
		var number [8]byte
		if _, err := io.ReadFull(in, number[:]); err != nil {
			return fmt.Errorf("%d publications were acknowledged: %w", a.number.Load(), err)
		}
		a.add(int64(binary.LittleEndian.Uint64(number[:])))
	}
}

// add says that so many publications have arrived in all.
func (a *acks) add(number int64) {
	a.number.Store(max(number, a.number.Load()))
	select {
	case a.wake <- struct{}{}:
	default:
	}
}

// expect sets until when everything has to be acknowledged.
func (a *acks) expect(until time.Time) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.until = until; a.conn != nil {
		_ = a.conn.SetReadDeadline(until) // if it is closed, receive says so
	}
}

// await waits until so many publications are acknowledged.
func (a *acks) await(number int64) error {
	for a.number.Load() < number {
		select {
		case <-a.wake:
		case <-a.done:
			return a.err
		}
	}
	return nil
}

func (a *acks) close() {
	_ = a.ln.Close()
	a.mu.Lock()
	if a.conn != nil {
		_ = a.conn.Close()
	}
	a.mu.Unlock()
	a.running.Wait()
}
