package session_test

import (
	"context"
	"math/rand/v2"
	"net"
	"os"
	"runtime"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/sluice-push/sluice/internal/testwait"
	"github.com/sluice-push/sluice/session"
)

// packetTrial is a server over datagrams whose handlers act at random.
type packetTrial struct {
	t     *testing.T
	seed  uint64
	draws atomic.Uint64
	peers sync.Map // addresses that have a session
}

// packetRecord is the state of one session.
type packetRecord struct {
	state   atomic.Int32 // 1 is open, 2 is closed
	running atomic.Int32
}

func (tr *packetTrial) draw() *rand.Rand {
	return rand.New(rand.NewPCG(tr.seed, tr.draws.Add(1))) //nolint:gosec // repeatable
}

func (tr *packetTrial) bad(what string) { tr.t.Errorf("SLUICE_SEED=%d: %s", tr.seed, what) }

// enter checks that functions run one after the other, and in the expected state.
func (tr *packetTrial) enter(s *session.Session, state int32) func() {
	b, _ := s.Value().(*packetRecord)
	if b == nil {
		tr.bad("called before Open")
		return func() {}
	}
	if b.running.Add(1) != 1 {
		tr.bad("two functions at a time")
	}
	if b.state.Load() != state {
		tr.bad("called in state " + strconv.Itoa(int(b.state.Load())))
	}
	return func() { b.running.Add(-1) }
}

// act calls a random method.
func (tr *packetTrial) act(s *session.Session, rnd *rand.Rand) {
	switch rnd.IntN(40) {
	case 0:
		s.End([]byte("bye\n"), errOurs)
	case 1:
		s.Abort(errOurs)
	case 2:
		s.Close()
	case 3:
		panic(errOurs)
	case 4:
		runtime.Goexit()
	case 5:
		<-time.After(time.Duration(rnd.IntN(4)) * time.Millisecond)
	case 6:
		s.SetLimits(session.Limits{IdleTimeout: time.Duration(1+rnd.IntN(5)) * time.Millisecond})
	case 7:
		_, _ = s.TryWrite([][]byte{[]byte("a\n"), []byte("b\n")})
	case 8:
		s.SetHandler(tr.handler())
	case 9:
		go s.Abort(errOurs)
	case 10:
		go s.End(nil, errOurs)
	default:
		_ = s.Send([]byte("message"))
	}
}

func (tr *packetTrial) handler() *session.Handler {
	return &session.Handler{
		Open: func(s *session.Session) error {
			if s.Value() != nil {
				tr.bad("Open was called twice")
			}
			if _, loaded := tr.peers.LoadOrStore(s.RemoteAddr().String(), s.ID()); loaded {
				tr.bad("a peer has two sessions")
			}
			b := new(packetRecord)
			b.state.Store(1)
			s.SetValue(b)
			defer tr.enter(s, 1)()
			rnd := tr.draw()
			tr.act(s, rnd)
			if rnd.IntN(20) == 0 {
				return errOurs
			}
			return nil
		},
		Message:  func(s *session.Session, _ []byte) { defer tr.enter(s, 1)(); tr.act(s, tr.draw()) },
		Tick:     func(s *session.Session) { defer tr.enter(s, 1)(); tr.act(s, tr.draw()) },
		Writable: func(s *session.Session) { _ = s.Send([]byte("writable")) },
		Drain:    func(s *session.Session) { s.End([]byte("drained\n"), errOurs) },
		Close: func(s *session.Session, info *session.CloseInfo) {
			defer tr.enter(s, 1)()
			s.Value().(*packetRecord).state.Store(2)
			if id, _ := tr.peers.LoadAndDelete(s.RemoteAddr().String()); id != s.ID() {
				tr.bad("closed another's session")
			}
			if info.Err == nil || info.By == 0 {
				tr.bad("closed for no reason")
			}
			if err := s.Send(nil); err == nil {
				tr.bad("sent in Close")
			}
		},
	}
}

// flood sends random datagrams until ctx is done.
func (tr *packetTrial) flood(ctx context.Context, conn net.Conn) {
	rnd := tr.draw()
	kinds := []string{"a\n", "a\nb\nc\n", "incomplete", "", "good\nbad"}
	for ctx.Err() == nil {
		_, _ = conn.Write([]byte(kinds[rnd.IntN(len(kinds))]))
		if rnd.IntN(50) == 0 {
			<-time.After(time.Millisecond)
		}
	}
}

// Whatever happens, the laws of a session hold, and Close leaves nothing behind.
func TestPacketLaws(t *testing.T) {
	seed := uint64(time.Now().UnixNano())
	if s, err := strconv.ParseUint(os.Getenv("SLUICE_SEED"), 10, 64); err == nil {
		seed = s
	}
	overPackets(t, func(t *testing.T, kind packetKind) {
		tr := &packetTrial{t: t, seed: seed}
		rnd := tr.draw()
		const ms = time.Millisecond
		f := servePackets(t, kind, tr.handler(), &session.Options{
			Policy: choose(rnd, session.Wait, session.Refuse), WriteTimeout: choose(rnd, ms, 20*ms, -1),
			IdleTimeout: choose(rnd, 0, 2*ms, 20*ms), TickInterval: choose(rnd, 0, ms, 5*ms),
			MaxSessions: choose(rnd, 0, 3), HandshakeTimeout: choose(rnd, 0, ms, -1), QueueBytes: choose(rnd, 0, 10),
		})
		ctx, cancel := context.WithTimeout(context.Background(), 400*ms)
		defer cancel()
		var flood sync.WaitGroup
		defer testwait.Return(t, flood.Wait)
		for range 6 {
			conn := f.dial(t)
			defer conn.Close()
			flood.Go(func() { tr.flood(ctx, conn) })
			flood.Go(func() {
				for b := make([]byte, 100); ; {
					if _, err := conn.Read(b); err != nil {
						return
					}
				}
			})
		}
		<-ctx.Done() // close the server while datagrams are still in the kernel's buffers
		if rnd.IntN(2) == 0 {
			stop, cancel := context.WithTimeout(context.Background(), limit)
			defer cancel()
			if err := f.srv.Shutdown(stop); err != nil {
				t.Errorf("SLUICE_SEED=%d: %v", seed, err)
			}
		}
		_ = f.srv.Close()
		_ = receive(t, f.served)
		if st := f.srv.Stats(); st.Opened != st.Closed || st.Sessions != 0 || st.Opened == 0 {
			t.Errorf("SLUICE_SEED=%d: %+v", seed, st)
		}
		tr.peers.Range(func(addr, _ any) bool { tr.bad("no Close for " + addr.(string)); return true })
	})
}
