package session_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"runtime"
	"runtime/debug"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/sluice-push/sluice/internal/testwait"
	"github.com/sluice-push/sluice/session"
	network "github.com/sluice-push/sluice/transport"
	"github.com/sluice-push/sluice/workerpool"
)

// executorCheck checks that the functions of a session run on an executor, and how many run at a time.
type executorCheck struct {
	most    int32
	running atomic.Int32
	bad     atomic.Pointer[string]
}

// enter is called when a function begins. The function calls leave when it ends.
func (o *executorCheck) enter() (leave func()) {
	n := o.running.Add(1)
	stack := string(debug.Stack())
	if n > o.most || !strings.Contains(stack, "/workerpool.") {
		what := fmt.Sprintf("%d run: %s", n, stack)
		o.bad.Store(&what)
	}
	return func() { o.running.Add(-1) }
}

func (o *executorCheck) check(t *testing.T) {
	t.Helper()
	if what := o.bad.Load(); what != nil {
		t.Error(*what)
	}
}

// shutDown ends an executor, all of whose tasks have to end.
func shutDown(t *testing.T, ex interface{ Shutdown(context.Context) error }) {
	t.Helper()
	if err := ex.Shutdown(testwait.Context(t)); err != nil {
		t.Error(err)
	}
}

// Whatever the order that an executor keeps, the messages of a peer are handled in order, by as many workers as there are.
func TestExecutorRunsTheHandlers(t *testing.T) {
	const clients, rounds = 10, 30
	executors := map[string]func() interface {
		session.Executor
		Shutdown(context.Context) error
	}{
		"keyed": func() interface {
			session.Executor
			Shutdown(context.Context) error
		} {
			return workerpool.NewKeyedFixed(&workerpool.Options{Workers: 2, Queue: 2})
		},
		"shared": func() interface {
			session.Executor
			Shutdown(context.Context) error
		} {
			return workerpool.NewShared(&workerpool.Options{Workers: 2, Queue: 1})
		},
	}
	for name, executor := range executors {
		t.Run(name, func(t *testing.T) {
			over(t, func(t *testing.T, tr transport) {
				ex := executor()
				out := executorCheck{most: 2}
				var ticks atomic.Int32
				f := newFixture(t, tr, line, session.Handler{
					Open: func(s *session.Session) error {
						defer out.enter()()
						return s.Send([]byte("open"))
					},
					Message: func(s *session.Session, msg []byte) {
						defer out.enter()()
						runtime.Gosched()
						_ = s.Send(msg)
					},
					Tick: func(*session.Session) {
						defer out.enter()()
						ticks.Add(1)
					},
				}, &session.Options{Executor: ex, TickInterval: time.Millisecond})
				var all sync.WaitGroup
				for i := range clients {
					c := f.client
					if i > 0 {
						c = f.dial()
					}
					all.Go(func() {
						expect(t, c, "open\n")
						for r := range rounds {
							three := fmt.Sprintf("a%d\nb%d\nc%d\n", r, r, r)
							write(t, c, three)
							expect(t, c, three)
						}
					})
				}
				testwait.Return(t, all.Wait)
				await(t, func() bool { return ticks.Load() > 2 })
				_ = f.srv.Close()
				shutDown(t, ex)
				out.check(t)
			})
		})
	}
}

// While an executor has no room, sessions are not read. Later all messages are handled.
func TestFullExecutorStopsReading(t *testing.T) {
	over(t, func(t *testing.T, tr transport) {
		const clients = 8
		ex := workerpool.NewShared(&workerpool.Options{Workers: 1, Queue: 1})
		var handled atomic.Int32
		f := newFixture(t, tr, line, session.Handler{
			Message: func(*session.Session, []byte) { handled.Add(1) },
		}, &session.Options{Executor: ex})
		all := []net.Conn{f.client}
		for range clients - 1 {
			all = append(all, f.dial())
		}
		await(t, func() bool { return f.srv.Stats().Opened == clients && session.PendingTasks(f.srv) == 0 })
		stuck, release := make(chan struct{}), make(chan struct{})
		if err := ex.Submit(0, func() { close(stuck); testwait.Hold(t, release) }); err != nil {
			t.Fatal(err)
		}
		testwait.Receive(t, stuck)
		for _, c := range all {
			go func() { _, _ = io.WriteString(c, strings.Repeat("a message of twenty\n", 10_000)) }()
		}
		await(t, func() bool { return session.PendingTasks(f.srv) == clients })
		if n := handled.Load(); n != 0 {
			t.Errorf("%d messages were handled", n)
		}
		close(release)
		await(t, func() bool { return handled.Load() == clients*10_000 })
		_ = f.srv.Close()
		shutDown(t, ex)
	})
}

// Sessions end although their executor is stuck, and their pending tasks are cancelled.
func TestSessionsOfAStuckExecutorEnd(t *testing.T) {
	over(t, func(t *testing.T, tr transport) {
		ex := workerpool.NewShared(&workerpool.Options{Workers: 1, Queue: 1})
		var late atomic.Int32
		f := newFixture(t, tr, line, session.Handler{
			Message: func(*session.Session, []byte) { late.Add(1) },
		}, &session.Options{Executor: ex})
		others := []net.Conn{f.dial(), f.dial(), f.dial()}
		await(t, func() bool { return f.srv.Stats().Opened == 4 && session.PendingTasks(f.srv) == 0 })
		stuck, release := make(chan struct{}), make(chan struct{})
		if err := ex.Submit(0, func() { close(stuck); testwait.Hold(t, release) }); err != nil {
			t.Fatal(err)
		}
		testwait.Receive(t, stuck)
		for _, c := range append(others, f.client) {
			write(t, c, "hello\n")
		}
		await(t, func() bool { return session.PendingTasks(f.srv) == 4 })
		f.s.Close()
		if info := receive(t, f.closed); info.By != session.ByLocal {
			t.Errorf("ended by %v, %v", info.By, info.Err)
		}
		_ = f.srv.Close()
		for range others {
			if info := receive(t, f.closed); !errors.Is(info.Err, session.ErrServerClosed) {
				t.Errorf("ended by %v, %v", info.By, info.Err)
			}
		}
		close(release)
		shutDown(t, ex)
		if late.Load() != 0 {
			t.Errorf("%d messages were handled afterwards", late.Load())
		}
	})
}

// droppingExecutor accepts all tasks and runs none.
type droppingExecutor struct{}

func (droppingExecutor) TrySubmit(uint64, func()) error { return nil }

// If an executor drops tasks that it has accepted, or is closed too early, sessions still end.
func TestExecutorsThatDoNotWork(t *testing.T) {
	over(t, func(t *testing.T, tr transport) {
		srv := session.NewServer(line, &session.Handler{Open: func(*session.Session) error { return nil }},
			&session.Options{Engine: tr.engine, Executor: droppingExecutor{}})
		dial := tr.start(t, srv)
		go func() {
			if c, err := dial(); err == nil {
				t.Cleanup(func() { _ = c.Close() })
			}
		}()
		await(t, func() bool { return session.PendingTasks(srv) == 1 })
		_ = srv.Close()
	})
	over(t, func(t *testing.T, tr transport) {
		ex := workerpool.NewShared(nil)
		f := newFixture(t, tr, line, session.Handler{}, &session.Options{Executor: ex})
		_ = ex.Close()
		write(t, f.client, "hello\n")
		if info := receive(t, f.closed); info.By != session.ByError || !errors.Is(info.Err, workerpool.ErrClosed) {
			t.Errorf("ended by %v, %v", info.By, info.Err)
		}
	})
}

// A handler that panics or ends its goroutine on an executor ends only its session.
func TestPanicsOnAnExecutor(t *testing.T) {
	over(t, func(t *testing.T, tr transport) {
		ex := workerpool.NewKeyedFixed(&workerpool.Options{Workers: 1})
		f := newFixture(t, tr, line, session.Handler{Message: func(s *session.Session, msg []byte) {
			switch string(msg) {
			case "panic":
				panic("as asked")
			case "goexit":
				runtime.Goexit()
			}
			_ = s.Send(msg)
		}}, &session.Options{Executor: ex})
		for _, how := range []string{"panic\n", "goexit\n"} {
			c := f.dial()
			write(t, c, "hello\n")
			expect(t, c, "hello\n")
			write(t, c, how)
			if info := receive(t, f.closed); info.By != session.ByPanic {
				t.Errorf("%q: ended by %v, %v", how, info.By, info.Err)
			}
		}
		write(t, f.client, "hello\n")
		expect(t, f.client, "hello\n")
		_ = f.srv.Close()
		shutDown(t, ex)
	})
}

// Time in which an executor has no room does not count as silence of the peer.
func TestWaitingForAnExecutorIsNotIdle(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ex := workerpool.NewShared(&workerpool.Options{Workers: 1, Queue: -1})
		h := session.Handler{Message: func(s *session.Session, msg []byte) { _ = s.Send(msg) }}
		srv := session.NewServer(line, &h, &session.Options{Executor: ex, IdleTimeout: time.Second})
		client, server := network.Pipe(0)
		if _, err := srv.ServeConn(server, nil); err != nil {
			t.Fatal(err)
		}
		synctest.Wait()
		release := make(chan struct{})
		if err := ex.Submit(0, func() { <-release }); err != nil {
			t.Fatal(err)
		}
		write(t, client, "hello\n")
		<-time.After(10 * time.Second) // bubble time
		close(release)
		expect(t, client, "hello\n")
		if _, err := client.Read(make([]byte, 1)); !errors.Is(err, io.EOF) { // now the peer is silent
			t.Errorf("error %v", err)
		}
		_ = srv.Close()
		_ = ex.Close()
	})
}
