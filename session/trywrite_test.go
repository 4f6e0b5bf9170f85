package session_test

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/sluice-push/sluice/codec"
	"github.com/sluice-push/sluice/internal/testwait"
	"github.com/sluice-push/sluice/session"
)

// valve makes a fixture whose session writes to a ValveStream.
func valve(t *testing.T, h session.Handler, o *session.Options) (*fixture, *session.ValveStream) {
	t.Helper()
	var v *session.ValveStream
	h.Open = func(s *session.Session) error { v = session.Valve(s); return nil }
	if o == nil {
		o = &session.Options{Linger: -1}
	}
	f := newFixture(t, transportOf(t, "tcp goroutine"), line, h, o)
	return f, v
}

func frames(of ...string) (all [][]byte) {
	for _, f := range of {
		all = append(all, []byte(f))
	}
	return all
}

func TestTryWriteTakesWhatTheSocketTakes(t *testing.T) {
	tests := []struct {
		name  string
		room  int
		taken int
		first string // written at once
		all   string // written when there is room
	}{
		{"nothing", 0, 0, "", ""},
		{"a byte of the first", 1, 1, "a", "aaa"},
		{"exactly the first", 3, 1, "aaa", "aaa"},
		{"a part of the second", 5, 2, "aaabb", "aaabbb"},
		{"all", 9, 3, "aaabbbccc", "aaabbbccc"},
		{"more than all", 10, 3, "aaabbbccc", "aaabbbccc"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			writable := make(chan struct{}, 10)
			f, v := valve(t, session.Handler{Writable: func(*session.Session) { writable <- struct{}{} }}, nil)
			v.Give(tt.room)
			taken, err := f.s.TryWrite(frames("aaa", "bbb", "ccc"))
			if taken != tt.taken || err != nil || v.Got() != tt.first {
				t.Fatalf("took %d, %v, wrote %q; want %d, %q", taken, err, v.Got(), tt.taken, tt.first)
			}
			if tt.taken == 3 {
				return
			}
			for range 3 { // one call of Writable for any number of refusals
				if taken, err := f.s.TryWrite(frames("zzz")); taken != 0 || err != nil {
					t.Fatalf("took %d, %v while something waits", taken, err)
				}
			}
			v.Give(100)
			receive(t, writable)
			if v.Got() != tt.all {
				t.Errorf("wrote %q, want %q", v.Got(), tt.all)
			}
			if taken, err := f.s.TryWrite(frames("ddd")); taken != 1 || err != nil {
				t.Errorf("took %d, %v when there was room", taken, err)
			}
			f.s.Close()
			if len(writable) > 0 {
				t.Errorf("Writable was called %d times more", len(writable))
			}
		})
	}
}

func TestTryWriteOfNothing(t *testing.T) {
	f, v := valve(t, session.Handler{Writable: func(*session.Session) {}}, nil)
	for _, offer := range [][][]byte{nil, frames(""), frames("", "")} {
		if taken, err := f.s.TryWrite(offer); taken != len(offer) || err != nil {
			t.Errorf("%d of %d empty frames were taken, %v", taken, len(offer), err)
		}
	}
	v.Give(2)
	if taken, err := f.s.TryWrite(frames("", "a", "", "b", "")); taken != 5 || err != nil || v.Got() != "ab" {
		t.Errorf("took %d, %v, wrote %q", taken, err, v.Got())
	}
}

// More frames than one system call takes, and a frame larger than that.
func TestTryWriteOfMuch(t *testing.T) {
	f, v := valve(t, session.Handler{}, nil)
	var offer [][]byte
	for i := range 300 {
		offer = append(offer, bytes.Repeat([]byte{byte(i)}, i))
	}
	offer = append(offer, make([]byte, 300<<10))
	want := string(bytes.Join(offer, nil))
	v.Give(len(want))
	if taken, err := f.s.TryWrite(offer); taken != len(offer) || err != nil || v.Got() != want {
		t.Errorf("took %d of %d, %v, wrote %d bytes of %d", taken, len(offer), err, len(v.Got()), len(want))
	}
}

// A slow handler does not delay the call of Writable.
func TestWritableDuringAHandler(t *testing.T) {
	writable, running, resume := make(chan struct{}, 1), make(chan struct{}), make(chan struct{})
	f, v := valve(t, session.Handler{
		Message:  func(*session.Session, []byte) { close(running); testwait.Hold(t, resume) },
		Writable: func(*session.Session) { writable <- struct{}{} },
	}, nil)
	defer close(resume)
	write(t, f.client, "hello\n")
	receive(t, running)
	if taken, err := f.s.TryWrite(frames("aaa")); taken != 0 || err != nil {
		t.Errorf("took %d, %v", taken, err)
	}
	v.Give(10)
	receive(t, writable)
}

// A refusal during Writable is followed by a call like any other.
func TestWritableAgain(t *testing.T) {
	const rounds = 100
	var cursor atomic.Int64
	var v *session.ValveStream
	done := make(chan struct{})
	f, v := valve(t, session.Handler{Writable: func(s *session.Session) {
		taken, err := s.TryWrite(frames("abc", "def", "ghi"))
		if err != nil {
			t.Error(err)
		}
		if cursor.Add(int64(taken)) >= rounds {
			close(done)
			return
		}
		v.Give(4) // more than one frame, and less than two: the third frame is refused each time
	}}, nil)
	_, _ = f.s.TryWrite(frames("abc"))
	v.Give(4)
	receive(t, done)
}

// A frame that another goroutine sends during a TryWrite follows the frame that is being written, also if that could be written only in part.
func TestTryWriteAndSendAtOnce(t *testing.T) {
	f, v := valve(t, session.Handler{}, nil)
	v.Give(5)
	v.During(func() {
		if err := f.s.Send([]byte("sent")); err != nil {
			t.Error(err)
		}
		if taken, err := f.s.TryWrite(frames("refused")); taken != 0 || err != nil {
			t.Errorf("took %d, %v while somebody writes", taken, err)
		}
	})
	if taken, err := f.s.TryWrite(frames("aaa", "bbb", "ccc")); taken != 2 || err != nil {
		t.Fatalf("took %d, %v", taken, err)
	}
	v.Give(100)
	f.s.End(nil, nil)
	receive(t, f.closed)
	if got, want := v.Got(), "aaabbbsent\n"; got != want {
		t.Errorf("wrote %q, want %q", got, want)
	}
}

func TestTryWriteAfterTheEnd(t *testing.T) {
	cause := errors.New("enough")
	over(t, func(t *testing.T, tr transport) {
		f := newFixture(t, tr, line, echo(), nil)
		f.s.Abort(cause)
		receive(t, f.closed)
		for _, err := range []error{
			second(f.s.TryWrite(frames("a"))), f.s.Send(nil), f.s.Write([]byte("a")), f.s.WriteShared([]byte("a")),
		} {
			if !errors.Is(err, session.ErrClosed) || !errors.Is(err, net.ErrClosed) || !errors.Is(err, cause) {
				t.Errorf("error %v", err)
			}
		}
	})
}

func second[A, B any](_ A, b B) B { return b }

// A writer offers numbered frames in random portions to a peer that reads random amounts, while another goroutine sends. The peer must get
// exactly the frames that were taken, in order. No call of Writable may be lost, because the writer waits for nothing else.
func TestTryWriteToADribblingPeer(t *testing.T) {
	over(t, func(t *testing.T, tr transport) {
		const writers, rounds = 3, 400
		var gate struct {
			sync.Mutex
			sync.Cond
			calls int
		}
		gate.L = &gate.Mutex
		h := session.Handler{
			Writable: func(*session.Session) { gate.Lock(); gate.calls++; gate.Broadcast(); gate.Unlock() },
			Close: func(*session.Session, *session.CloseInfo) {
				gate.Lock()
				gate.calls = -1
				gate.Broadcast()
				gate.Unlock()
			},
		}
		f := newFixture(t, tr, codec.Length{Max: 1 << 20}, h, smallBuffers())
		var wg sync.WaitGroup
		for sender := range writers {
			rnd := rand.New(rand.NewPCG(uint64(sender), 1)) //nolint:gosec // repeatable
			wg.Go(func() {
				for next := 0; next < rounds; {
					var offer [][]byte
					for i := next; i < min(next+1+rnd.IntN(40), rounds); i++ {
						offer = append(offer, numbered(sender, i, rnd.IntN(2000)))
					}
					gate.Lock()
					calls := gate.calls
					gate.Unlock()
					taken, err := f.s.TryWrite(offer)
					if err != nil {
						t.Errorf("writer %d: %v", sender, err)
						return
					}
					next += taken
					gate.Lock()
					for taken < len(offer) && gate.calls == calls {
						gate.Wait()
					}
					gate.Unlock()
				}
			})
		}
		wg.Go(func() { // the other sender
			for i := range rounds {
				p := numbered(writers, i, i)
				if err := f.s.Send(p[4:]); err != nil {
					t.Error(err)
					return
				}
			}
		})
		next := make([]int, writers+1)
		dribble := &dribbleReader{r: f.client, rnd: rand.New(rand.NewPCG(7, 7))} //nolint:gosec // repeatable
		for range (writers + 1) * rounds {
			sender, i := readNumbered(t, dribble)
			if next[sender] != i {
				t.Fatalf("frame %d of writer %d came, expected %d", i, sender, next[sender])
			}
			next[sender]++
		}
		testwait.Return(t, wg.Wait)
		f.s.End(nil, nil)
		if rest := expectEnd(t, f.client); rest != "" {
			t.Errorf("%d bytes too many", len(rest))
		}
	})
}

// numbered makes a length-prefixed frame with the number of its writer, its own number, and size more bytes that depend on both.
func numbered(sender, i, size int) []byte {
	p := binary.BigEndian.AppendUint32(nil, uint32(8+size))
	p = binary.BigEndian.AppendUint32(p, uint32(sender))
	p = binary.BigEndian.AppendUint32(p, uint32(i))
	return append(p, bytes.Repeat([]byte{byte(sender + i)}, size)...)
}

func readNumbered(t *testing.T, r io.Reader) (sender, i int) {
	t.Helper()
	var head [12]byte
	if _, err := io.ReadFull(r, head[:]); err != nil {
		t.Fatal(err)
	}
	size := int(binary.BigEndian.Uint32(head[:])) - 8
	sender, i = int(binary.BigEndian.Uint32(head[4:])), int(binary.BigEndian.Uint32(head[8:]))
	if size < 0 || size > 1<<20 || sender > 100 {
		t.Fatalf("a frame of %d bytes by %d", size, sender)
	}
	rest := make([]byte, size)
	if _, err := io.ReadFull(r, rest); err != nil {
		t.Fatal(err)
	}
	if want := bytes.Repeat([]byte{byte(sender + i)}, size); !bytes.Equal(rest, want) {
		t.Fatalf("frame %d of writer %d is broken", i, sender)
	}
	return sender, i
}

// dribbleReader reads a few bytes at a time, at random.
type dribbleReader struct {
	r   io.Reader
	rnd *rand.Rand
}

func (d *dribbleReader) Read(p []byte) (int, error) {
	return d.r.Read(p[:min(len(p), 1+d.rnd.IntN(700))])
}

// A peer that never reads costs the tail of one frame, however much is offered. Its session times out, and other sessions are not affected.
func TestAPeerThatNeverReads(t *testing.T) {
	over(t, func(t *testing.T, tr transport) {
		o := smallBuffers()
		o.WriteTimeout = 100 * time.Millisecond
		if tr.name == "pipe" { // a pipe has no buffer, so the other peer below would have to be in time, too
			o.WriteTimeout = time.Second
		}
		writable := make(chan struct{}, 1)
		h := echo()
		h.Writable = func(*session.Session) { writable <- struct{}{} }
		f := newFixture(t, tr, line, h, o)
		other := f.dial()
		frame := []byte(strings.Repeat("x", 1000) + "\n")
		most := len(frame)
		if !tr.direct {
			most += 64 << 10
		}
		writable <- struct{}{}
		for err := error(nil); err == nil; {
			select {
			case <-writable:
			case info := <-f.closed:
				f.closed <- info
			case <-time.After(limit):
				t.Fatal("the session is neither writable nor at its end")
			}
			for taken := 3; taken == 3; {
				taken, err = f.s.TryWrite([][]byte{frame, frame, frame})
				if n := f.s.Queued(); n > most {
					t.Fatalf("%d bytes are waiting", n)
				}
			}
			write(t, other, "hello\n")
			expect(t, other, "hello\n")
		}
		info := receive(t, f.closed)
		if info.By != session.ByTimeout || !errors.Is(info.Err, session.ErrTimeout) {
			t.Errorf("ended by %v: %v", info.By, info.Err)
		}
		if strings.HasPrefix(tr.name, "tls ") { // the session may hold a record
			most = max(most, 16<<10)
		}
		if info.Undelivered > most {
			t.Errorf("%d bytes were undelivered", info.Undelivered)
		}
		write(t, other, "again\n")
		expect(t, other, "again\n")
	})
}

// If there are no bytes to write, a wait for room asks the kernel, which must agree with the result of a write.
func TestWritableIsToldWhenTheSocketWasFullAtAFrame(t *testing.T) {
	overSome(t, direct, func(t *testing.T, tr transport) {
		writable := make(chan struct{}, 10)
		f := newFixture(t, tr, line, session.Handler{Writable: func(*session.Session) { writable <- struct{}{} }},
			&session.Options{SendBuffer: 4 << 10, HandshakeTimeout: -1})
		if c, ok := f.client.(*net.TCPConn); ok { // with very many small segments TCP would drop some, and send them again much later
			_ = c.SetReadBuffer(4 << 10)
		}
		for range 3 {
			sent := 0
			for { // frames of one byte are never taken in part
				taken, err := f.s.TryWrite(frames("x"))
				if err != nil {
					t.Fatal(err)
				}
				if taken == 0 {
					break
				}
				sent++
			}
			expect(t, f.client, strings.Repeat("x", sent))
			receive(t, writable)
		}
		if n := len(writable); n != 0 {
			t.Errorf("Writable was called %d times too often", n)
		}
	})
}

func ExampleSession_TryWrite() {
	// A subscriber that is served from a log. The cursor is the next entry to send. If the client is slow, Writable serves it again later.
	// Entries that find no room stay in the log, and nothing else keeps them.
	log := [][]byte{[]byte("first\n"), []byte("second\n"), []byte("third\n")}
	var mu sync.Mutex
	cursor := 0
	serve := func(s *session.Session) {
		mu.Lock()
		defer mu.Unlock()
		taken, _ := s.TryWrite(log[cursor:])
		cursor += taken
	}
	srv := session.NewServer(codec.Line{}, &session.Handler{
		Open:     func(s *session.Session) error { serve(s); return nil },
		Writable: serve,
	}, nil)
	client, server := net.Pipe()
	if _, err := srv.ServeConn(server, nil); err != nil {
		panic(err)
	}
	got := make([]byte, 19)
	_, _ = io.ReadFull(client, got)
	fmt.Printf("%s", got)
	_ = srv.Close()
	// Output:
	// first
	// second
	// third
}
