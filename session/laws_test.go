package session_test

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"runtime"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/sluice-push/sluice/codec"
	"github.com/sluice-push/sluice/internal/testwait"
	"github.com/sluice-push/sluice/session"
	"github.com/sluice-push/sluice/workerpool"
)

// errOurs is the cause that these tests give to Abort and End.
var errOurs = errors.New("ours")

// trial is a server with some clients, in which handlers, peers and other goroutines act at random.
type trial struct {
	t      *testing.T
	seed   uint64
	draws  atomic.Uint64
	stamp  atomic.Int64
	faults atomic.Int32

	o     session.Options
	ex    session.Executor // used by some trials
	dir   string           // for files
	fixed int              // the size of all frames, if frames may be dropped
	srv   *session.Server

	mu  sync.Mutex
	all map[uint64]*record // by session ID
}

// bad reports a broken law, with the seed that repeats it.
func (tr *trial) bad(format string, args ...any) {
	if tr.faults.Add(1) <= 10 {
		tr.t.Errorf("SLUICE_SEED=%d: %s", tr.seed, fmt.Sprintf(format, args...))
	}
}

// draw returns a source of random numbers.
func (tr *trial) draw() *rand.Rand {
	return rand.New(rand.NewPCG(tr.seed, tr.draws.Add(1))) //nolint:gosec // repeatable
}

func choose[T any](rnd *rand.Rand, from ...T) T { return from[rnd.IntN(len(from))] }

// maxSessions is how many sessions a trial has at most, so that each is counted in a shard of its own.
const maxSessions = 15

// options sets random limits that are soon reached.
func (tr *trial) options(engine session.Engine) {
	rnd := tr.draw()
	const ms = time.Millisecond
	tr.o = session.Options{
		Engine:           engine,
		Policy:           choose(rnd, session.Wait, session.Wait, session.Refuse, session.DropOldest, session.CloseSlow),
		QueueBytes:       choose(rnd, 1, 500, 5000, 64<<10),
		QueueFrames:      choose(rnd, 1, 3, 100),
		QueueAge:         choose(rnd, 0, 0, 0, ms),
		SendBuffer:       choose(rnd, 8<<10, 16<<10, 32<<10, 0),
		NotSentLowat:     choose(rnd, 0, 0, 4096),
		MaxMessage:       4096,
		WriteTimeout:     choose(rnd, 10*ms, 30*ms, -1),
		IdleTimeout:      choose(rnd, 0, 0, 0, 25*ms),
		HandshakeTimeout: choose(rnd, -1, 20*ms, time.Second),
		Linger:           choose(rnd, 1*ms, 20*ms, -1),
		MaxSessions:      choose(rnd, 0, 0, 10),
		Executor:         choose[session.Executor](rnd, nil, nil, tr.ex),
		TickInterval:     choose(rnd, 0, 2*ms, 10*ms),
		ZeroCopy:         choose(rnd, 0, 0, 1, 10_000),
	}
	tr.fixed = choose(rnd, 20, 3000, 20_000, 100_000)
}

// recordOf returns the record of a session whose Open was called, or nil.
func recordOf(s *session.Session) *record { b, _ := s.Value().(*record); return b }

func (tr *trial) handler() *session.Handler {
	return &session.Handler{
		Open: func(s *session.Session) error {
			b := &record{trial: tr, s: s, client: ^uint32(0)}
			if s.Value() != nil {
				tr.bad("Open was called twice")
			}
			b.running.Add(1)
			defer b.running.Add(-1)
			b.state.Store(1)
			s.SetValue(b)
			tr.mu.Lock()
			tr.all[s.ID()] = b
			tr.mu.Unlock()
			rnd := tr.draw()
			tr.act(b, rnd, true)
			if rnd.IntN(20) == 0 {
				return fmt.Errorf("%w: refused", errOurs)
			}
			return nil
		},
		Message: func(s *session.Session, msg []byte) {
			b := recordOf(s)
			defer b.enter("Message", 1)()
			b.gotMessage(msg)
			tr.act(b, tr.draw(), true)
		},
		Tick: func(s *session.Session) {
			b := recordOf(s)
			defer b.enter("Tick", 1)()
			tr.act(b, tr.draw(), true)
		},
		Writable: func(s *session.Session) {
			b := recordOf(s)
			defer b.notifying.Add(-1)
			if b.notifying.Add(1) != 1 || b.state.Load() != 1 {
				tr.bad("%d calls of Writable in state %d", b.notifying.Load(), b.state.Load())
			}
			tr.act(b, tr.draw(), true)
		},
		Drain: func(s *session.Session) {
			if b := recordOf(s); b != nil {
				tr.act(b, tr.draw(), false)
			}
		},
		Close: tr.closed,
	}
}

func (tr *trial) closed(s *session.Session, info *session.CloseInfo) {
	b := recordOf(s)
	defer b.enter("Close", 1)()
	if b.notifying.Load() != 0 {
		tr.bad("Close while Writable runs")
	}
	b.mu.Lock()
	if b.over != 0 {
		tr.bad("Close was called twice")
	}
	b.over, b.closed = tr.stamp.Add(1), *info
	b.mu.Unlock()
	rnd := tr.draw()
	tr.act(b, rnd, false)
	if other := tr.other(rnd); other != nil {
		tr.act(other, rnd, false)
	}
	b.state.Store(2)
	tr.maybePanic(rnd, 10)
}

// gotMessage checks that messages come in order and without a gap.
func (b *record) gotMessage(msg []byte) {
	client, number := binary.BigEndian.Uint32(msg), binary.BigEndian.Uint32(msg[4:])
	if b.client == ^uint32(0) {
		b.client = client
	}
	if client != b.client || number != b.messages {
		b.trial.bad("message %d of client %d came, expected %d of %d", number, client, b.messages, b.client)
	}
	b.messages++
}

// other returns a random session that has been opened.
func (tr *trial) other(rnd *rand.Rand) *record {
	tr.mu.Lock()
	defer tr.mu.Unlock()
	id := uint64(1 + rnd.IntN(maxSessions))
	return tr.all[id]
}

// maybePanic sometimes panics or ends the goroutine.
func (tr *trial) maybePanic(rnd *rand.Rand, often int) {
	switch rnd.IntN(1000 / often) {
	case 0:
		panic(fmt.Sprint("at random: ", tr.draws.Load()))
	case 1:
		runtime.Goexit()
	}
}

// act calls random methods of a session. If function is set, it runs in a function of the handler and may end it.
func (tr *trial) act(b *record, rnd *rand.Rand, function bool) {
	if function {
		defer tr.maybePanic(rnd, 8)
		switch rnd.IntN(60) {
		case 0, 1: // wait
			<-time.After(time.Duration(rnd.IntN(5)) * time.Millisecond)
		case 2: // compute
			for began := time.Now(); time.Since(began) < 15*time.Millisecond; {
				_ = filling(1, 2)
			}
		case 3, 4:
			if other := tr.other(rnd); other != nil {
				b = other
			}
		}
	}
	for range 1 + rnd.IntN(3) {
		if !tr.actOnce(b, rnd) {
			return
		}
	}
}

// actOnce calls one random method, and reports whether the session is still open.
func (tr *trial) actOnce(b *record, rnd *rand.Rand) bool {
	s := b.s
	size := headBytes + choose(rnd, 0, 5, 100, 100, 100, 1000, 20_000, 150_000)
	if tr.o.Policy == session.DropOldest {
		size = tr.fixed
	}
	cause := fmt.Errorf("%w: %d", errOurs, tr.draws.Load())
	switch what := rnd.IntN(140); {
	case what == 0:
		b.ends(session.ErrClosed, func() {
			s.Close()
		})
		return false
	case what == 1:
		b.ends(cause, func() { s.Abort(cause) })
		return false
	case what == 2:
		first, p := b.frames(1, size, true)
		b.ends(cause, func() { choose(rnd, s.End, s.EndWait)(p[0], cause) })
		b.setOutcome(first, 1, accepted)
		return false
	case what == 3:
		_, _, _ = s.LocalAddr(), s.RemoteAddr(), s.Conn()
		return true
	case what < 40:
		first, p := b.frames(1, size, false)
		return b.wrote(first, s.Send(p[0][4:]))
	case what < 60:
		first, p := b.frames(1, size, false)
		err := s.Write(p[0])
		clear(p[0])
		return b.wrote(first, err)
	case what < 80:
		first, p := b.frames(1, size, false)
		return b.wrote(first, s.WriteShared(p[0]))
	case what < 84:
		first, p := b.frames(1, size, false)
		err := s.WriteLarge(p[0])
		clear(p[0])
		return b.wrote(first, err)
	case what < 88:
		first, p := b.frames(1, size, false)
		return b.wrote(first, tr.writeFile(s, p[0], rnd.IntN(size+1)))
	default:
		first, p := b.frames(1+rnd.IntN(4), size, false)
		taken, err := s.TryWrite(p)
		b.setOutcome(first, taken, accepted)
		b.setRest(first+taken, len(p)-taken)
		return err == nil
	}
}

// writeFile writes p, of which the first head bytes are not in the file.
func (tr *trial) writeFile(s *session.Session, p []byte, head int) error {
	f, err := os.CreateTemp(tr.dir, "")
	if err != nil {
		return err
	}
	defer f.Close()
	if _, err := f.WriteAt(p[head:], 3); err != nil {
		return err
	}
	return s.WriteFile(p[:head], f, 3, int64(len(p)-head))
}

// setRest records the frames that TryWrite did not take. The policy does not count these.
func (b *record) setRest(first, n int) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for i := range n {
		b.offers[first+i].outcome = refused
	}
}

// disturb acts on random sessions from outside, until stop is closed.
func (tr *trial) disturb(stop <-chan struct{}) {
	rnd := tr.draw()
	for {
		select {
		case <-stop:
			return
		case <-time.After(time.Duration(rnd.IntN(1000)) * time.Microsecond):
		}
		for s := range tr.srv.Sessions() {
			_ = s.Conn()
			if b := recordOf(s); b != nil && rnd.IntN(3) == 0 {
				tr.act(b, rnd, false)
			}
		}
		if b := tr.other(rnd); b != nil && rnd.IntN(100) == 0 {
			b.ends(session.ErrClosed, b.s.Close)
			if b.state.Load() != 2 {
				tr.bad("Close did not wait")
			}
		}
	}
}

// run runs one trial.
func (tr *trial) run(kind transport) {
	ex := workerpool.NewShared(&workerpool.Options{Workers: 2, Queue: 1})
	defer ex.Close() //nolint:errcheck // it has nothing left to do
	tr.ex, tr.dir = ex, tr.t.TempDir()
	tr.options(kind.engine)
	tr.srv = session.NewServer(codec.Length{Max: 1 << 20}, tr.handler(), &tr.o)
	session.SetFreshAfter(tr.srv, choose(tr.draw(), time.Microsecond, time.Millisecond, time.Hour))
	rnd := tr.draw()
	if rnd.IntN(2) == 0 {
		session.KeepZeroCopy(tr.srv)
	}
	dial := kind.start(tr.t, tr.srv)
	over, end := context.WithCancel(context.Background())
	defer end()
	var clients, others sync.WaitGroup
	peers := make([]*peer, maxSessions)
	for i := range peers {
		peers[i] = &peer{number: uint32(i), rnd: tr.draw()}
		clients.Go(func() { peers[i].run(over, dial) })
	}
	stop := make(chan struct{})
	for range 4 {
		others.Go(func() { tr.disturb(stop) })
	}
	gone := make(chan struct{})
	go func() { clients.Wait(); close(gone) }()
	select {
	case <-gone:
	case <-time.After(time.Duration(rnd.IntN(80)) * time.Millisecond):
	}
	ctx, cancel := context.WithTimeout(context.Background(), 20*time.Millisecond)
	defer cancel()
	if rnd.IntN(2) == 0 {
		_ = tr.srv.Shutdown(ctx)
	} else {
		_ = tr.srv.Close()
	}
	end()
	close(stop)
	testwait.Receive(tr.t, gone)
	testwait.Return(tr.t, others.Wait)
	tr.check(peers)
}

// check checks the laws after the trial.
func (tr *trial) check(peers []*peer) {
	if st := tr.srv.Stats(); st.Sessions != 0 || st.Opened != st.Closed || int(st.Opened) != len(tr.all) {
		tr.bad("%+v, %d sessions were opened", st, len(tr.all))
	}
	received := make(map[uint64]*peer)
	for _, p := range peers {
		if len(p.received) < headBytes {
			continue
		}
		id := uint64(binary.BigEndian.Uint32(p.received[12:]))
		if tr.all[id] == nil || received[id] != nil {
			tr.bad("client %d received bytes of session %d", p.number, id)
		}
		received[id] = p
	}
	for id, b := range tr.all {
		if p := received[id]; p != nil {
			b.check(p.received, p.whole)
			if b.client != ^uint32(0) && b.client != p.number {
				tr.bad("client %d received bytes for client %d", p.number, b.client)
			}
		} else {
			b.check(nil, false)
		}
	}
}

// All sides act at random, on every kind of connection: handlers write, block, compute, panic, end their goroutines and their sessions. Other
// goroutines do so too. Peers stop reading, send bytes that cannot be decoded, and end in every way. In the middle of that the server is closed.
// The laws hold: see record.
func TestLaws(t *testing.T) {
	rounds := 8
	seed := rand.Uint64()
	if given, err := strconv.ParseUint(os.Getenv("SLUICE_SEED"), 10, 64); err == nil {
		seed, rounds = given, 1
	}
	over(t, func(t *testing.T, kind transport) {
		_ = listen(t, "tcp", "127.0.0.1:0").Close() // the first listener makes the runtime open descriptors of its own
		for i := range rounds {
			tr := &trial{t: t, seed: seed + uint64(i), all: make(map[uint64]*record)}
			before := openFiles()
			t.Run(strconv.FormatUint(tr.seed, 10), func(t *testing.T) { tr.t = t; tr.run(kind) })
			if after := openFiles(); after != before {
				t.Errorf("SLUICE_SEED=%d: %d descriptors are open, it were %d", tr.seed, after, before)
			}
			if t.Failed() {
				return
			}
		}
	})
}
