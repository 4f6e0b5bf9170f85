package session_test

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/sluice-push/sluice/codec"
	"github.com/sluice-push/sluice/internal/testwait"
	"github.com/sluice-push/sluice/session"
)

// Eight goroutines send while the handler replies. All messages arrive, in the order of each sender's calls.
func TestOrderOfSenders(t *testing.T) {
	over(t, func(t *testing.T, tr transport) {
		const senders, rounds = 8, 300
		h := echo() // the handler is sender 0
		f := newFixture(t, tr, codec.Length{Max: 1 << 20}, h, smallBuffers())
		var wg sync.WaitGroup
		for sender := 1; sender <= senders; sender++ {
			wg.Go(func() {
				for i := range rounds {
					p := numbered(sender, i, 100*sender)
					var err error
					switch i % 3 {
					case 0:
						err = f.s.Send(p[4:])
					case 1:
						err = f.s.Write(p)
					default:
						err = f.s.WriteShared(p)
					}
					clear(p[:min(len(p), 12*(1-i%3/2))]) // only a shared frame must not change
					if err != nil {
						t.Error(err)
						return
					}
				}
			})
		}
		wg.Go(func() {
			var out []byte
			for i := range rounds {
				out = append(out, numbered(0, i, 10)...)
				if len(out) > 500 || i == rounds-1 {
					if _, err := f.client.Write(out); err != nil {
						t.Error(err)
						return
					}
					out = out[:0]
				}
			}
		})
		next := make([]int, senders+1)
		in := bufio.NewReader(f.client)
		for range (senders + 1) * rounds {
			sender, i := readNumbered(t, in)
			if next[sender] != i {
				t.Fatalf("frame %d of sender %d came, expected %d", i, sender, next[sender])
			}
			next[sender]++
		}
		testwait.Return(t, wg.Wait)
	})
}

// The replies to the messages of one read leave in one write. On a busy machine, the watchdog may take the handler for a slow one in the middle
// of it.
func TestRepliesOfOneReadLeaveTogether(t *testing.T) {
	over(t, func(t *testing.T, tr transport) {
		var writes *atomic.Int64
		h := echo()
		h.Open = func(s *session.Session) error { writes = session.CountWrites(s); return nil }
		f := newFixture(t, tr, line, h, nil)
		const enough, most, pipelined = 10, 1000, 100
		batch := strings.Repeat("hello\n", pipelined)
		rounds, together := 0, 0
		for ; together < enough && rounds < most; rounds++ {
			await(t, func() bool { return !f.s.HasQueueOrWriter() }) // until no goroutine is writing
			before := writes.Load()
			write(t, f.client, batch)
			expect(t, f.client, batch)
			await(t, func() bool { return !f.s.HasQueueOrWriter() })
			if writes.Load()-before <= 2 { // the kernel may split a batch into two reads, but not into more
				together++
			}
		}
		if together < enough {
			t.Errorf("of %d batches of %d replies, %d left together", rounds, pipelined, together)
		}
		await(t, func() bool { return f.srv.Stats().Messages >= uint64(rounds*pipelined) }) // until the last read has been handled
		if st := f.srv.Stats(); st.Messages != uint64(rounds*pipelined) {
			t.Errorf("%d messages were counted", st.Messages)
		}
	})
}

// If replies are more than a cork holds, they leave before the last message has been handled, in order.
func TestMuchOfOneRead(t *testing.T) {
	over(t, func(t *testing.T, tr transport) {
		big := strings.Repeat("x", 10_000)
		f := newFixture(t, tr, line, session.Handler{Message: func(s *session.Session, msg []byte) {
			for i := range 30 {
				if err := s.Send([]byte(big + strconv.Itoa(i))); err != nil {
					t.Error(err)
				}
			}
		}}, nil)
		write(t, f.client, "go\n")
		for i := range 30 {
			expect(t, f.client, big+strconv.Itoa(i)+"\n")
		}
	})
}

// TryWrite of any goroutine does not overtake frames that the handler has corked.
func TestTryWriteDuringACork(t *testing.T) {
	for _, own := range []bool{true, false} {
		over(t, func(t *testing.T, tr transport) {
			f := newFixture(t, tr, line, session.Handler{Message: func(s *session.Session, msg []byte) {
				_ = s.Send([]byte("1"))
				try := func() {
					if taken, err := s.TryWrite(frames("2\n", "3\n")); taken != 2 || err != nil {
						t.Errorf("took %d, %v", taken, err)
					}
				}
				if own {
					try()
				} else {
					done := make(chan struct{})
					go func() { defer close(done); try() }()
					testwait.Hold(t, done)
				}
				_ = s.Write([]byte("4\n"))
				_ = s.WriteShared([]byte("5\n"))
			}}, nil)
			write(t, f.client, "go\ngo\n")
			expect(t, f.client, "1\n2\n3\n4\n5\n1\n2\n3\n4\n5\n")
		})
	}
}

// A slow handler delays neither its own frames nor those of other goroutines.
func TestASlowHandlerHoldsNothingBack(t *testing.T) {
	over(t, func(t *testing.T, tr transport) {
		running, resume := make(chan struct{}), make(chan struct{})
		f := newFixture(t, tr, line, session.Handler{Message: func(s *session.Session, msg []byte) {
			_ = s.Send([]byte("own"))
			running <- struct{}{}
			testwait.Hold(t, resume)
			_ = s.Send([]byte("later"))
		}}, nil)
		for range 3 {
			write(t, f.client, "go\n")
			receive(t, running)
			expect(t, f.client, "own\n")
			if err := f.s.Send([]byte("another's")); err != nil {
				t.Error(err)
			}
			expect(t, f.client, "another's\n")
			resume <- struct{}{}
			expect(t, f.client, "later\n")
		}
	})
}

// If more handlers are slow than the watchdog has slots for, frames are not corked, and sending works.
func TestMoreSlowHandlersThanWatchdogSlots(t *testing.T) {
	running, resume := make(chan struct{}), make(chan struct{})
	f := newFixture(t, transportOf(t, "unix"), line, session.Handler{Message: func(s *session.Session, msg []byte) {
		_ = s.Send(msg)
		running <- struct{}{}
		testwait.Hold(t, resume)
	}}, nil)
	for range 300 {
		c := f.dial()
		write(t, c, "hello\n")
		receive(t, running)
		defer expect(t, c, "hello\n")
	}
	close(resume)
}

func TestPolicies(t *testing.T) {
	const age = time.Nanosecond // every frame is too old at once
	tests := []struct {
		name  string
		o     session.Options
		sends string // one letter for each frame
		errs  map[byte]error
		got   string // received when there is room again
		drops uint64
	}{
		{
			"refuse: bytes",
			session.Options{Policy: session.Refuse, QueueBytes: 5},
			"abcd",
			map[byte]error{'d': session.ErrQueueFull},
			"a\nb\nc\n", 1,
		},
		{
			"refuse: frames",
			session.Options{Policy: session.Refuse, QueueFrames: 2},
			"abcd",
			map[byte]error{'c': session.ErrQueueFull, 'd': session.ErrQueueFull},
			"a\nb\n", 2,
		},
		{
			"refuse: age",
			session.Options{Policy: session.Refuse, QueueAge: age},
			"abc",
			map[byte]error{'c': session.ErrQueueFull},
			"a\nb\n", 1,
		},
		// One byte of a has been written, so a must be finished.
		{"drop oldest: bytes", session.Options{Policy: session.DropOldest, QueueBytes: 5}, "abcdef", nil, "a\ne\nf\n", 3},
		{"drop oldest: frames", session.Options{Policy: session.DropOldest, QueueFrames: 3}, "abcdef", nil, "a\ne\nf\n", 3},
		{"drop oldest: age", session.Options{Policy: session.DropOldest, QueueAge: age}, "abcdef", nil, "a\nf\n", 4},
		{
			"drop oldest: no way",
			session.Options{Policy: session.DropOldest, QueueBytes: 1},
			"ab",
			map[byte]error{'b': session.ErrQueueFull},
			"a\n", 1,
		},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			o := tt.o
			o.Linger = -1
			f, v := valve(t, session.Handler{}, &o)
			v.Give(1)
			for i := range len(tt.sends) {
				letter := tt.sends[i]
				if err := f.s.Send([]byte{letter}); !errors.Is(err, tt.errs[letter]) {
					t.Errorf("%c: error %v, want %v", letter, err, tt.errs[letter])
				}
				await(t, v.Stuck) // with the rest of the first frame, and no others
			}
			v.Give(100)
			f.s.End(nil, nil)
			if info := receive(t, f.closed); info.Undelivered != 0 {
				t.Errorf("%d bytes were undelivered", info.Undelivered)
			}
			if v.Got() != tt.got {
				t.Errorf("wrote %q, want %q", v.Got(), tt.got)
			}
			if st := f.srv.Stats(); st.Drops != tt.drops {
				t.Errorf("%d drops were counted, want %d", st.Drops, tt.drops)
			}
		})
	}
}

func TestPolicyCloseSlow(t *testing.T) {
	f, _ := valve(t, session.Handler{}, &session.Options{Policy: session.CloseSlow, QueueFrames: 2})
	var err error
	for range 3 {
		err = f.s.Send([]byte("x"))
	}
	if !errors.Is(err, session.ErrQueueFull) || !errors.Is(err, session.ErrClosed) {
		t.Errorf("error %v", err)
	}
	info := receive(t, f.closed)
	if info.By != session.BySlow || !errors.Is(info.Err, session.ErrQueueFull) || info.Undelivered != 4 {
		t.Errorf("ended by %v, %v, %d bytes undelivered", info.By, info.Err, info.Undelivered)
	}
}

// Waiting callers are served in the order of their calls, and may change their message after the call has returned.
func TestPolicyWait(t *testing.T) {
	f, v := valve(t, session.Handler{}, &session.Options{QueueFrames: 1, Linger: -1})
	if err := f.s.Send([]byte("first")); err != nil { // the queue is full now
		t.Fatal(err)
	}
	var wg sync.WaitGroup
	for i := range 12 {
		before := f.s.Waiters()
		wg.Go(func() {
			msg := fmt.Appendf(nil, "%d\n", i)
			var err error
			switch i % 3 {
			case 0:
				err = f.s.Send(msg[:len(msg)-1])
			case 1:
				err = f.s.Write(msg)
			default:
				err = f.s.WriteShared(bytes.Clone(msg))
			}
			if err != nil {
				t.Error(err)
			}
			clear(msg)
		})
		await(t, func() bool { return f.s.Waiters() > before })
	}
	v.Give(1000)
	testwait.Return(t, wg.Wait)
	f.s.End(nil, nil)
	receive(t, f.closed)
	if got, want := v.Got(), "first\n0\n1\n2\n3\n4\n5\n6\n7\n8\n9\n10\n11\n"; got != want {
		t.Errorf("wrote %q, want %q", got, want)
	}
}

func TestPolicyWaitIsBounded(t *testing.T) {
	over(t, func(t *testing.T, tr transport) {
		o := smallBuffers()
		o.WriteTimeout = 100 * time.Millisecond
		f := newFixture(t, tr, line, session.Handler{}, o)
		var err error
		for msg := make([]byte, 10_000); err == nil; {
			err = f.s.Send(msg)
		}
		if !errors.Is(err, session.ErrTimeout) {
			t.Errorf("error %v", err)
		}
		if info := receive(t, f.closed); info.By != session.ByTimeout || info.Undelivered == 0 {
			t.Errorf("ended by %v with %d bytes undelivered", info.By, info.Undelivered)
		}
	})
}

// A caller that waits gets the reason why the wait failed, and so does one whose message cannot be encoded.
func TestPolicyWaitInVain(t *testing.T) {
	enough := errors.New("enough")
	for name, end := range map[string]func(*session.Session){
		"abort": func(s *session.Session) { s.Abort(enough) },
		"end":   func(s *session.Session) { s.End(nil, enough) },
	} {
		t.Run(name, func(t *testing.T) {
			var v *session.ValveStream
			f := newFixture(t, transportOf(t, "tcp goroutine"), codec.Line{Max: 5}, session.Handler{Open: func(s *session.Session) error {
				v = session.Valve(s)
				return nil
			}}, &session.Options{QueueFrames: 1, Linger: -1})
			if err := f.s.Send([]byte("first")); err != nil {
				t.Fatal(err)
			}
			if err := f.s.Send([]byte("too long")); !errors.Is(err, codec.ErrTooLarge) {
				t.Errorf("error %v", err)
			}
			result := make(chan error, 1)
			go func() { result <- f.s.Send([]byte("x")) }()
			await(t, func() bool { return f.s.Waiters() > 0 })
			end(f.s)
			if err := receive(t, result); !errors.Is(err, session.ErrClosed) || !errors.Is(err, enough) {
				t.Errorf("error %v", err)
			}
			v.Give(100)
			info := receive(t, f.closed)
			if got := v.Got(); len(got)+info.Undelivered != len("first\n") || name == "end" && got != "first\n" {
				t.Errorf("%q was delivered, %d bytes were not", got, info.Undelivered)
			}
		})
	}
}

// A session that ends during a write waits for that write. The frame that has been written is no error.
func TestEndedDuringAWrite(t *testing.T) {
	f, v := valve(t, session.Handler{}, nil)
	v.Give(100)
	v.During(func() {
		_ = f.s.Send([]byte("meanwhile"))
		f.s.Abort(nil)
		await(t, f.s.Finishing)
		if len(f.closed) > 0 {
			t.Error("Close was called")
		}
	})
	if err := f.s.Send([]byte("hello")); err != nil {
		t.Errorf("error %v", err)
	}
	if err := f.s.Send([]byte("too late")); !errors.Is(err, session.ErrClosed) {
		t.Errorf("error %v", err)
	}
	if info := receive(t, f.closed); info.Undelivered != len("meanwhile\n") {
		t.Errorf("%d bytes were undelivered", info.Undelivered)
	}
}

// Answers that wait stop the session from reading, and that stops a peer which only sends. Neither side keeps more than its bounds.
func TestBackPressure(t *testing.T) {
	over(t, func(t *testing.T, tr transport) {
		o := smallBuffers()
		o.WriteTimeout = -1
		f := newFixture(t, tr, line, echo(), o)
		const rounds = 500
		msg := strings.Repeat("x", 9_999) + "\n"
		wrote := make(chan error, 1)
		go func() {
			for range rounds {
				if _, err := io.WriteString(f.client, msg); err != nil {
					wrote <- err
					return
				}
			}
			wrote <- nil
		}()
		await(t, f.s.IsOverloaded)
		if n := f.s.Queued(); n > 64<<10+len(msg) {
			t.Errorf("%d bytes are waiting", n)
		}
		for range rounds {
			expect(t, f.client, msg)
		}
		if err := receive(t, wrote); err != nil {
			t.Error(err)
		}
	})
}

func TestWritingNothing(t *testing.T) {
	f, v := valve(t, session.Handler{}, nil)
	if err := f.s.Write(nil); err != nil {
		t.Error(err)
	}
	if err := f.s.WriteShared([]byte{}); err != nil || f.s.HasQueueOrWriter() || v.Got() != "" {
		t.Errorf("%v, wrote %q", err, v.Got())
	}
}

func TestEncodingErrorsLeaveTheSessionAlone(t *testing.T) {
	f := newFixture(t, transports[0], codec.Line{Max: 5}, session.Handler{Message: func(s *session.Session, msg []byte) {
		if err := s.Send([]byte("too long")); !errors.Is(err, codec.ErrTooLarge) { // corked
			t.Errorf("error %v", err)
		}
		_ = s.Send(msg)
	}}, nil)
	if err := f.s.Send([]byte("too long")); !errors.Is(err, codec.ErrTooLarge) { // written at once
		t.Errorf("error %v", err)
	}
	write(t, f.client, "fine\n")
	expect(t, f.client, "fine\n")
}

// If a write fails after a part of its bytes, the session ends.
func TestPartialWriteThenFailure(t *testing.T) {
	broken := errors.New("broken")
	f, v := valve(t, session.Handler{}, nil)
	v.Give(2)
	if err := f.s.Send([]byte("hello")); err != nil {
		t.Fatal(err)
	}
	v.Fail(broken)
	info := receive(t, f.closed)
	if info.By != session.ByError || !errors.Is(info.Err, broken) || info.Undelivered != 4 {
		t.Errorf("ended by %v, %v, %d bytes undelivered", info.By, info.Err, info.Undelivered)
	}
	if err := f.s.Send(nil); !errors.Is(err, broken) {
		t.Errorf("error %v", err)
	}
}

func TestFailureAtOnce(t *testing.T) {
	broken := errors.New("broken")
	f, v := valve(t, session.Handler{}, nil)
	v.Fail(broken)
	if err := f.s.Send([]byte("hello")); !errors.Is(err, broken) || !errors.Is(err, session.ErrClosed) {
		t.Errorf("error %v", err)
	}
	if info := receive(t, f.closed); info.By != session.ByError || info.Undelivered != 0 {
		t.Errorf("ended by %v, %d bytes undelivered", info.By, info.Undelivered)
	}
}
