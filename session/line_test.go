package session_test

import (
	"errors"
	"net"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/sluice-push/sluice/session"
	network "github.com/sluice-push/sluice/transport"
	"github.com/sluice-push/sluice/workerpool"
)

// Who waits for an executor, and for how long. All of this is in bubbles, over connections in memory.

// attach runs a session and returns its other end when nothing moves any more.
func attach(t *testing.T, srv *session.Server) (client net.Conn, s *session.Session) {
	t.Helper()
	client, server := network.Pipe(0)
	s, err := srv.ServeConn(server, nil)
	if err != nil {
		t.Fatal(err)
	}
	synctest.Wait()
	return client, s
}

// echoes says something and expects it back within a minute of the bubble.
func echoes(t *testing.T, client net.Conn, what string) {
	t.Helper()
	_ = client.SetDeadline(time.Now().Add(time.Minute))
	write(t, client, what)
	expect(t, client, what)
}

// Turns for Tick do not make a silent peer look as if it had spoken.
func TestTicksOnAnExecutorAndIdleTimeout(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ex := workerpool.NewShared(&workerpool.Options{Workers: 1})
		closed := make(chan session.CloseInfo, 1)
		h := session.Handler{
			Tick:  func(*session.Session) {},
			Close: func(_ *session.Session, info *session.CloseInfo) { closed <- *info },
		}
		srv := session.NewServer(line, &h, &session.Options{Executor: ex, IdleTimeout: 3 * time.Second, TickInterval: time.Second})
		attach(t, srv)
		select {
		case info := <-closed:
			if !errors.Is(info.Err, session.ErrTimeout) {
				t.Errorf("ended by %v, %v", info.By, info.Err)
			}
		case <-time.After(time.Minute): // of the bubble
			t.Error("a silent session was not ended")
		}
		_ = srv.Close()
		_ = ex.Close()
	})
}

// givenListener accepts what it is given.
type givenListener struct {
	conns chan net.Conn
	over  chan struct{}
	once  sync.Once
}

func (l *givenListener) Accept() (net.Conn, error) {
	select {
	case c := <-l.conns:
		return c, nil
	case <-l.over:
		return nil, net.ErrClosed
	}
}

func (l *givenListener) Close() error {
	l.once.Do(func() { close(l.over) })
	return nil
}

func (l *givenListener) Addr() net.Addr { return &net.TCPAddr{} }

// A peer that says a byte now and then does not get more time for its first message because an executor handles the bytes.
func TestDribblingToAnExecutor(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ex := workerpool.NewShared(&workerpool.Options{Workers: 1})
		srv := session.NewServer(line, nil, &session.Options{Executor: ex, FirstTimeout: 3 * time.Second})
		ln := &givenListener{conns: make(chan net.Conn, 1), over: make(chan struct{})}
		served := make(chan error, 1)
		go func() { served <- srv.Serve(ln) }()
		client, server := network.Pipe(0)
		ln.conns <- server
		n := 0
		for ; n < 100; n++ {
			if _, err := client.Write([]byte("x")); err != nil {
				break
			}
			<-time.After(time.Second) // of the bubble
		}
		if n > 4 {
			t.Errorf("it took %d bytes in as many seconds", n)
		}
		_ = srv.Close()
		<-served
		_ = ex.Close()
	})
}

// evenly has no room for odd keys, and a goroutine for each task of even ones.
type evenly struct{ tasks sync.WaitGroup }

func (e *evenly) TrySubmit(key uint64, task func()) error {
	if key%2 == 1 {
		return workerpool.ErrFull
	}
	e.tasks.Go(task)
	return nil
}

// An executor may have room for one session while it has none for another that has waited longer.
func TestRoomForOthersThanTheFirst(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ex := new(evenly)
		h := session.Handler{Message: func(s *session.Session, msg []byte) { _ = s.Send(msg) }}
		srv := session.NewServer(line, &h, &session.Options{Executor: ex})
		attach(t, srv)
		client, _ := attach(t, srv)
		echoes(t, client, "hello\n")
		_ = srv.Close()
		ex.tasks.Wait()
	})
}

// later has room for the first session, and for others when it says so. Once it takes its time to say that it has none.
type later struct {
	tasks      sync.WaitGroup
	room, slow atomic.Bool
}

func (l *later) TrySubmit(key uint64, task func()) error {
	if key == 1 || l.room.Load() {
		l.tasks.Go(task)
		return nil
	}
	if l.slow.CompareAndSwap(true, false) {
		<-time.After(time.Second) // of the bubble: others have the processor
	}
	return workerpool.ErrFull
}

// The watch does not end because the last in line is not there while the executor is being asked.
func TestWatchStaysWhileAnExecutorIsAsked(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ex := new(later)
		begun := make(chan struct{})
		h := session.Handler{Message: func(s *session.Session, msg []byte) {
			if s.ID() == 1 {
				<-begun
				ex.slow.Store(true)
			}
			_ = s.Send(msg)
		}}
		srv := session.NewServer(line, &h, &session.Options{Executor: ex})
		first, _ := attach(t, srv)
		write(t, first, "one\n")
		second, _ := attach(t, srv)
		close(begun)
		<-time.After(5 * time.Second) // of the bubble
		ex.room.Store(true)
		echoes(t, second, "two\n")
		_ = srv.Close()
		ex.tasks.Wait()
	})
}

// full never has room.
type full struct{}

func (full) TrySubmit(uint64, func()) error { return workerpool.ErrFull }

// Sessions that are over do not wait in line.
func TestSessionsLeaveTheLine(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		srv := session.NewServer(line, nil, &session.Options{Executor: full{}})
		var all []*session.Session
		for range 5 {
			_, s := attach(t, srv)
			all = append(all, s)
		}
		for left, i := range []int{2, 0, 4, 1, 3} {
			if n := session.InLine(srv); n != 5-left {
				t.Errorf("%d sessions are in line, not %d", n, 5-left)
			}
			all[i].Close()
		}
		_, s := attach(t, srv)
		if n := session.InLine(srv); n != 1 {
			t.Errorf("%d sessions are in line", n)
		}
		s.Close()
		_ = srv.Close()
	})
}
