package writer_test

import (
	"bytes"
	"errors"
	"runtime"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/sluice-push/sluice/internal/buffer"
	"github.com/sluice-push/sluice/internal/writer"
)

// The table of transitions: each event, the state before it, and the state after it.
func TestStates(t *testing.T) {
	long := make([]byte, 1000)
	waiting := func(direct bool) *fake {
		f := newFake(direct, writer.Refuse, 1<<20)
		_ = f.w.Write(long, false)
		return f
	}
	for _, tt := range []struct {
		name   string
		begin  func() *fake
		from   writer.State
		event  func(f *fake)
		to     writer.State
		during writer.State // in a write of this event; meaningless if there is none
	}{
		{
			"everything is written", func() *fake { f := newFake(true, writer.Refuse, 1<<20); f.room = 1000; return f }, writer.Idle,
			func(f *fake) { _ = f.w.Write(long, false) }, writer.Idle, writer.Writing,
		},
		{
			"there is no room", func() *fake { return newFake(true, writer.Refuse, 1<<20) }, writer.Idle,
			func(f *fake) { _ = f.w.Write(long, false) }, writer.WaitWritable, writer.Writing,
		},
		{
			"the connection blocks", func() *fake { return newFake(false, writer.Refuse, 1<<20) }, writer.Idle,
			func(f *fake) { _ = f.w.Write(long, false) }, writer.WaitWritable, writer.Writing,
		},
		{"another frame", func() *fake { return waiting(true) }, writer.WaitWritable, func(f *fake) { _ = f.w.Write(long, false) }, writer.WaitWritable, 0},
		{
			"the engine writes a part", func() *fake { return waiting(true) }, writer.WaitWritable, func(f *fake) { f.writeAll(10) },
			writer.WaitWritable, writer.Writing,
		},
		{
			"the engine writes everything", func() *fake { return waiting(true) }, writer.WaitWritable, func(f *fake) { f.writeAll(2000) },
			writer.Idle, writer.Writing,
		},
		{
			"the engine finds the Writer aborted", func() *fake { return waiting(true) }, writer.WaitWritable,
			func(f *fake) { f.locked(func() { f.Fail(writer.Broken, errClosed) }); f.writeAll(2000) }, writer.Idle, 0,
		},
		{
			"an engine that blocks", func() *fake { return waiting(false) }, writer.WaitWritable, func(f *fake) {
				b := buffer.NewBatch()
				_, ok := f.w.Next(b, false)
				want(t, "something waits", ok, true)
				f.locked(func() { f.w.Done(nil, b.Size) })
				_, ok = f.w.Next(b, false)
				want(t, "something waits", ok, false)
			}, writer.Idle, 0,
		},
	} {
		f := tt.begin()
		want(t, tt.name+": before", f.state(), tt.from)
		f.during = func() { want(t, tt.name+": during", f.state(), tt.during) }
		tt.event(f)
		want(t, tt.name+": after", f.state(), tt.to)
	}
}

// A frame that another goroutine sends during a write is written by the goroutine that writes.
func TestQueuedDuringAWrite(t *testing.T) {
	f := newFake(true, writer.Refuse, 1<<20)
	f.room = 100
	f.during = func() { _ = f.w.Send(nil, []byte("second")) }
	if err := f.w.Send(nil, []byte("first")); err != nil {
		t.Fatal(err)
	}
	want(t, "written", string(f.got), string(frame([]byte("first")))+string(frame([]byte("second"))))
	want(t, "state", f.state(), writer.Idle)
}

// A sender hands the queue to the engine when others send without end.
func TestASenderIsNotKept(t *testing.T) {
	f := newFake(true, writer.Refuse, 1<<20)
	f.room = 1 << 20
	var again func()
	again = func() { _ = f.w.Send(nil, []byte("more")); f.during = again }
	f.during = again
	_ = f.w.Send(nil, []byte("first"))
	want(t, "state", f.state(), writer.WaitWritable)
	want(t, "armed", f.armed, 1)
	want(t, "frames written", bytes.Count(f.got, []byte("more")), 16)
}

// Corked frames leave in one write, before frames that are written by other means. At the second tick the cork is pulled.
func TestCork(t *testing.T) {
	f := newFake(true, writer.Refuse, 1<<20)
	f.room = 1 << 20
	cork := func() { f.locked(func() { f.w.Cork(nil) }) }
	cork()
	_ = f.w.Send(nil, []byte("a"))
	f.w.Reply(frame([]byte("b")))
	want(t, "written while corked", len(f.got), 0)
	if n, err := f.w.TryWrite([][]byte{frame([]byte("c"))}); n != 1 || err != nil {
		t.Errorf("TryWrite: %d, %v", n, err)
	}
	want(t, "TryWrite comes after the cork", string(f.got), string(frame([]byte("a")))+string(frame([]byte("b")))+string(frame([]byte("c"))))
	_ = f.w.Send(nil, []byte("d"))
	f.locked(func() { f.w.Uncork(-1) })
	want(t, "uncorked", strings.HasSuffix(string(f.got), "d"), true)
	want(t, "corks held", f.corks, 0)

	cork()
	_ = f.w.Send(nil, []byte("e"))
	f.w.CorkTick()
	want(t, "written at the first tick", strings.HasSuffix(string(f.got), "e"), false)
	f.w.CorkTick()
	want(t, "written at the second tick", strings.HasSuffix(string(f.got), "e"), true)
	_ = f.w.Send(nil, []byte("f"))
	want(t, "written at once after that", strings.HasSuffix(string(f.got), "f"), true)
}

// A lent batch is in use until Uncork, which returns it.
func TestLentCork(t *testing.T) {
	f := newFake(true, writer.Refuse, 1<<20)
	f.room = 100
	lent := buffer.NewBatch()
	f.locked(func() {
		want(t, "in use", f.w.Cork(lent), true)
		want(t, "returned", f.w.Uncork(-1), lent)
	})
}

// The policies for a full queue.
func TestPolicies(t *testing.T) {
	fill := func(p writer.Policy) (*fake, error) {
		f := newFake(true, p, 100)
		for _, c := range []string{"1", "2", "3"} {
			if err := f.w.Write([]byte(strings.Repeat(c, 40)), false); err != nil {
				return f, err
			}
		}
		return f, nil
	}
	f, err := fill(writer.Refuse)
	if !errors.Is(err, writer.ErrQueueFull) || f.dropped != 1 {
		t.Errorf("refuse: %v, %d dropped", err, f.dropped)
	}
	f, err = fill(writer.DropOldest)
	f.writeAll(1000)
	if err != nil || f.dropped != 1 || string(f.got) != strings.Repeat("1", 40)+strings.Repeat("3", 40) { // a write of the first has begun
		t.Errorf("drop the oldest: %v, %d dropped, %q", err, f.dropped, f.got)
	}
	f, err = fill(writer.CloseSlow)
	if !errors.Is(err, errClosed) || !errors.Is(err, writer.ErrQueueFull) {
		t.Errorf("close slow: %v", err)
	}
	want(t, "released", func() (n int) { f.locked(func() { n = f.w.Release() }); return n }(), 80)
}

// Under the Wait policy callers get into the queue in the order in which they came, or time out together with the session.
func TestWait(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFake(true, writer.Wait, 100)
		_ = f.w.Write(make([]byte, 90), false)
		done := make(chan error, 3)
		for _, c := range []string{"a", "b", "c"} {
			go func() { done <- f.w.Write(bytes.Repeat([]byte(c), 50), true) }()
			synctest.Wait()
		}
		f.locked(func() { want(t, "waiters", f.w.Waiters(), 3) })
		f.writeAll(90)
		synctest.Wait()
		want(t, "admitted", len(done), 2)
		f.writeAll(1000)
		synctest.Wait()
		want(t, "admitted", len(done), 3)
		for range 3 {
			if err := <-done; err != nil {
				t.Error(err)
			}
		}
		want(t, "order", string(f.got[90:]), strings.Repeat("a", 50)+strings.Repeat("b", 50)+strings.Repeat("c", 50))
	})
	synctest.Test(t, func(t *testing.T) {
		f := newFake(true, writer.Wait, 100)
		f.locked(func() {
			f.w.SetConfig(&writer.Config{
				Pools: buffer.NewPools(0), Policy: writer.Wait, WriteTimeout: time.Second,
				Bounds: buffer.Bounds{Bytes: 100, Frames: 10, Memory: 1 << 20, Chunk: buffer.ChunkSize},
			})
		})
		_ = f.w.Write(make([]byte, 90), false)
		done := make(chan error, 1)
		go func() { done <- f.w.Write(make([]byte, 50), false) }()
		synctest.Wait()
		<-time.After(time.Second)
		synctest.Wait()
		if err := <-done; !errors.Is(err, errClosed) || !strings.Contains(err.Error(), "full for 1s") {
			t.Error(err)
		}
	})
}

// While much of what was answered waits, the Writer is overloaded, until as much has been written as waited then.
func TestOverload(t *testing.T) {
	f := newFake(true, writer.Wait, 1000)
	f.locked(func() { f.w.Cork(nil) })
	_ = f.w.Send(nil, make([]byte, 300))
	f.locked(func() { f.w.Uncork(-1) })
	want(t, "overloaded", f.w.Overloaded(), true)
	f.writeAll(303)
	want(t, "overloaded while a byte waits", f.w.Overloaded(), true)
	f.writeAll(1)
	want(t, "overloaded", f.w.Overloaded(), false)
	want(t, "resumed", f.resumed, 1)
}

// Big frames are written from where they lie, in their place, and their callers wait for them.
func TestBig(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFake(true, writer.Refuse, 1<<20)
		_ = f.w.Write([]byte("first"), false)
		done := make(chan error, 2)
		big := strings.Repeat("x", 100_000)
		go func() { done <- f.w.WriteBig(buffer.NewMemory([]byte(big))) }()
		synctest.Wait()
		_ = f.w.Write([]byte("last"), false)
		f.writeAll(50_000)
		synctest.Wait()
		want(t, "finished", len(done), 0)
		f.locked(func() { want(t, "big frames", f.w.BigFrames(), 1) })
		f.writeAll(100_000)
		if err := <-done; err != nil {
			t.Error(err)
		}
		want(t, "order", string(f.got), "first"+big+"last")

		go func() { done <- f.w.WriteBig(buffer.NewMemory([]byte(big))) }()
		synctest.Wait()
		f.locked(func() { f.Fail(writer.Broken, errClosed) })
		if err := <-done; !errors.Is(err, errClosed) {
			t.Error(err)
		}
	})
}

// Finish writes what waits and its last frame, and says when everything has been written.
func TestFinish(t *testing.T) {
	f := newFake(true, writer.Refuse, 1<<20)
	_ = f.w.Write([]byte("waits "), false)
	f.locked(func() { f.err = errClosed; f.w.Finish([]byte("last")) })
	if err := f.w.Write([]byte("more"), false); !errors.Is(err, errClosed) {
		t.Error(err)
	}
	want(t, "drained", f.drained, 0)
	f.writeAll(100)
	want(t, "written", string(f.got), "waits last")
	want(t, "drained", f.drained, 1)
	f.locked(func() { want(t, "can end", f.w.CloseWrite(), true) })
}

// After a write that failed nothing is written, and what was accepted is counted as lost.
func TestBroken(t *testing.T) {
	f := newFake(true, writer.Refuse, 1<<20)
	f.broken = errors.New("reset")
	if err := f.w.Write([]byte("hello"), false); !errors.Is(err, f.broken) {
		t.Error(err)
	}
	f = newFake(true, writer.Refuse, 1<<20)
	f.locked(func() { f.w.Cork(nil) })
	_ = f.w.Send(nil, []byte("corked"))
	f.broken = errors.New("reset")
	f.locked(func() { f.w.Uncork(-1) })
	want(t, "lost", f.lost, len(frame([]byte("corked"))))
}

// An encoder that panics or ends its goroutine leaves the Writer unlocked, and one that fails leaves it as it was.
func TestEncoderFails(t *testing.T) {
	for _, corked := range []bool{false, true} {
		f := newFake(true, writer.Refuse, 1<<20)
		f.room = 1 << 20
		if corked {
			f.locked(func() { f.w.Cork(nil) })
		}
		if err := f.w.Send(bad{err: errClosed}, []byte("x")); !errors.Is(err, errClosed) {
			t.Error(err)
		}
		ended := make(chan bool)
		go func() {
			defer close(ended)
			_ = f.w.Send(bad{exit: true}, []byte("x"))
		}()
		<-ended
		if err := f.w.Send(nil, []byte("x")); err != nil {
			t.Error(err)
		}
		f.locked(func() { f.w.PullCork() })
		want(t, "written", string(f.got), string(frame([]byte("x"))))
	}
}

type bad struct {
	err  error
	exit bool
}

func (b bad) AppendEncode(dst, _ []byte) ([]byte, error) {
	if b.exit {
		runtime.Goexit()
	}
	return dst, b.err
}
