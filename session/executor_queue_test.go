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

// How long sessions wait for an executor, and in which order. The tests run in synctest bubbles, over connections in memory.

// attach runs a session and returns its other end when all goroutines of the bubble are blocked.
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

// echoes sends a line and expects it back within a minute of the bubble's time.
func echoes(t *testing.T, client net.Conn, what string) {
	t.Helper()
	_ = client.SetDeadline(time.Now().Add(time.Minute))
	write(t, client, what)
	expect(t, client, what)
}

// Tasks for Tick do not reset the idle timeout of a silent peer.
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
		case <-time.After(time.Minute): // bubble time
			t.Error("a silent session was not ended")
		}
		_ = srv.Close()
		_ = ex.Close()
	})
}

// chanListener accepts the connections that the test gives it.
type chanListener struct {
	conns chan net.Conn
	over  chan struct{}
	once  sync.Once
}

func (l *chanListener) Accept() (net.Conn, error) {
	select {
	case c := <-l.conns:
		return c, nil
	case <-l.over:
		return nil, net.ErrClosed
	}
}

func (l *chanListener) Close() error {
	l.once.Do(func() { close(l.over) })
	return nil
}

func (l *chanListener) Addr() net.Addr { return &net.TCPAddr{} }

// A peer that sends a byte now and then gets no more time for its first message because an executor handles the bytes.
func TestDribblingToAnExecutor(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ex := workerpool.NewShared(&workerpool.Options{Workers: 1})
		srv := session.NewServer(line, nil, &session.Options{Executor: ex, FirstTimeout: 3 * time.Second})
		ln := &chanListener{conns: make(chan net.Conn, 1), over: make(chan struct{})}
		served := make(chan error, 1)
		go func() { served <- srv.Serve(ln) }()
		client, server := network.Pipe(0)
		ln.conns <- server
		n := 0
		for ; n < 100; n++ {
			if _, err := client.Write([]byte("x")); err != nil {
				break
			}
			<-time.After(time.Second) // bubble time
		}
		if n > 4 {
			t.Errorf("it took %d bytes in as many seconds", n)
		}
		_ = srv.Close()
		<-served
		_ = ex.Close()
	})
}

// evenExecutor has no room for odd keys, and a goroutine for each task of even ones.
type evenExecutor struct{ tasks sync.WaitGroup }

func (e *evenExecutor) TrySubmit(key uint64, task func()) error {
	if key%2 == 1 {
		return workerpool.ErrFull
	}
	e.tasks.Go(task)
	return nil
}

// An executor may have room for one session while it has none for another that has waited longer.
func TestRoomForOthersThanTheFirst(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ex := new(evenExecutor)
		h := session.Handler{Message: func(s *session.Session, msg []byte) { _ = s.Send(msg) }}
		srv := session.NewServer(line, &h, &session.Options{Executor: ex})
		attach(t, srv)
		client, _ := attach(t, srv)
		echoes(t, client, "hello\n")
		_ = srv.Close()
		ex.tasks.Wait()
	})
}

// laterExecutor has room for the first session, and for others once the test says so. One of its refusals takes a second.
type laterExecutor struct {
	tasks      sync.WaitGroup
	room, slow atomic.Bool
}

func (l *laterExecutor) TrySubmit(key uint64, task func()) error {
	if key == 1 || l.room.Load() {
		l.tasks.Go(task)
		return nil
	}
	if l.slow.CompareAndSwap(true, false) {
		<-time.After(time.Second) // bubble time, during which other goroutines run
	}
	return workerpool.ErrFull
}

// The watchdog goes on while the last queued task is being submitted, although the queue is empty then.
func TestWatchdogRunsWhileTasksWait(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ex := new(laterExecutor)
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
		<-time.After(5 * time.Second) // bubble time
		ex.room.Store(true)
		echoes(t, second, "two\n")
		_ = srv.Close()
		ex.tasks.Wait()
	})
}

// fullExecutor never has room.
type fullExecutor struct{}

func (fullExecutor) TrySubmit(uint64, func()) error { return workerpool.ErrFull }

// The tasks of ended sessions leave the queue.
func TestEndedSessionsLeaveTheTaskQueue(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		srv := session.NewServer(line, nil, &session.Options{Executor: fullExecutor{}})
		var all []*session.Session
		for range 5 {
			_, s := attach(t, srv)
			all = append(all, s)
		}
		for left, i := range []int{2, 0, 4, 1, 3} {
			if n := session.QueuedTasks(srv); n != 5-left {
				t.Errorf("%d sessions are in line, not %d", n, 5-left)
			}
			all[i].Close()
		}
		_, s := attach(t, srv)
		if n := session.QueuedTasks(srv); n != 1 {
			t.Errorf("%d sessions are in line", n)
		}
		s.Close()
		_ = srv.Close()
	})
}
