package transport_test

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"pgregory.net/rapid"

	"github.com/sluice-push/sluice/transport"
)

// Deadlines are exact in a bubble, and bytes written before a deadline are counted.
func TestPipeTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a, b := transport.Pipe(10)
		defer b.Close()
		defer a.Close()
		start := time.Now()
		check := func(n, want int, err error, after time.Duration) {
			t.Helper()
			if n != want || !isTimeout(err) || time.Since(start) != after {
				t.Errorf("%d, %v after %v, not %d after %v", n, err, time.Since(start), want, after)
			}
		}
		if n, err := a.Write(make([]byte, 10)); n != 10 || err != nil { // without a reader
			t.Fatal(n, err)
		}
		_ = a.SetWriteDeadline(start.Add(time.Second))
		n, err := a.Write(make([]byte, 1))
		check(n, 0, err, time.Second)

		_ = a.SetWriteDeadline(start.Add(3 * time.Second))
		time.AfterFunc(time.Second, func() { _, _ = io.ReadFull(b, make([]byte, 4)) })
		n, err = a.Write(make([]byte, 9))
		check(n, 4, err, 3*time.Second)

		// A deadline that is moved during a wait.
		_ = a.SetReadDeadline(start.Add(4 * time.Second))
		time.AfterFunc(500*time.Millisecond, func() { _ = a.SetReadDeadline(start.Add(5 * time.Second)) })
		n, err = a.Read(make([]byte, 1))
		check(n, 0, err, 5*time.Second)

		// A deadline that is removed.
		_ = a.SetDeadline(start.Add(6 * time.Second))
		_ = a.SetDeadline(time.Time{})
		time.AfterFunc(time.Hour, func() { _, _ = b.Write([]byte("x")) })
		if n, err := a.Read(make([]byte, 1)); n != 1 || err != nil || time.Since(start) != time.Hour+5*time.Second {
			t.Error(n, err, time.Since(start))
		}
	})
}

// The second of two writes waits for the first one, but no longer than its deadline.
func TestPipeSecondWriter(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a, b := transport.Pipe(10)
		defer b.Close()
		defer a.Close()
		errs := make(chan error, 2)
		for range 2 {
			go func() {
				_, err := a.Write(make([]byte, 11))
				errs <- err
			}()
		}
		synctest.Wait()
		_ = a.SetWriteDeadline(time.Now().Add(time.Second))
		for range 2 {
			if err := <-errs; !isTimeout(err) {
				t.Error(err)
			}
		}
		if n, _ := io.ReadFull(b, make([]byte, 10)); n != 10 {
			t.Error(n)
		}
	})
}

// A stream is a bounded queue of bytes, for any sizes and wherever the ring wraps around.
func TestPipeIsQueue(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		size := rapid.IntRange(1, 20).Draw(t, "size")
		a, b := transport.Pipe(size)
		defer a.Close()
		defer b.Close()
		var held []byte
		var next byte
		closed := false
		t.Repeat(map[string]func(*rapid.T){
			"write": func(t *rapid.T) {
				if closed {
					return
				}
				p := make([]byte, rapid.IntRange(0, size-len(held)).Draw(t, "n"))
				for i := range p {
					p[i], next = next, next+1
				}
				held = append(held, p...)
				n, err := a.Write(p)
				clear(p) // the writer may change p again
				if n != len(p) || err != nil {
					t.Fatal(n, err)
				}
			},
			"read": func(t *rapid.T) {
				p := make([]byte, rapid.IntRange(0, size+1).Draw(t, "n"))
				if len(held) == 0 && !closed {
					return
				}
				want := held[:min(len(held), len(p))]
				n, err := b.Read(p)
				if len(held) == 0 && len(p) > 0 {
					if !errors.Is(err, io.EOF) {
						t.Fatal(n, err)
					}
					return
				}
				if err != nil || !bytes.Equal(p[:n], want) {
					t.Fatalf("read %v, %v, not %v", p[:n], err, want)
				}
				held = held[n:]
			},
			"close": func(t *rapid.T) {
				closed = rapid.IntRange(0, 9).Draw(t, "closed") == 0 || closed
				if closed {
					_ = a.Close()
				}
			},
		})
	})
}

func TestMemoryListener(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := transport.NewMemory(0)
		var early []*transport.MemoryConn
		for range 128 {
			conn, err := l.Dial(context.Background())
			if err != nil {
				t.Fatal(err)
			}
			early = append(early, conn)
		}
		ctx, cancel := context.WithTimeout(context.Background(), time.Second)
		defer cancel()
		if _, err := l.Dial(ctx); !errors.Is(err, context.DeadlineExceeded) {
			t.Error("one too many:", err)
		}

		// One write waits for room, and the order is kept.
		last := make(chan *transport.MemoryConn)
		go func() {
			conn, _ := l.Dial(context.Background())
			last <- conn
		}()
		synctest.Wait()
		server, err := l.Accept()
		if err != nil {
			t.Fatal(err)
		}
		defer server.Close()
		say(t, early[0], server, "first")
		early = append(early, <-last)

		_ = l.Close()
		_ = l.Close()
		if _, err := l.Dial(context.Background()); !errors.Is(err, syscall.ECONNREFUSED) {
			t.Error(err)
		}
		if _, err := l.Accept(); !errors.Is(err, net.ErrClosed) {
			t.Error(err)
		}
		for i, conn := range early {
			if i > 0 {
				if _, err := conn.Read(make([]byte, 1)); !errors.Is(err, io.EOF) {
					t.Error(i, err)
				}
			}
			_ = conn.Close()
		}
	})
}

func TestMemoryListenerClose(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := transport.NewMemory(0)
		failed := make(chan error)
		go func() {
			_, err := l.Accept()
			failed <- err
		}()
		synctest.Wait()
		_ = l.Close()
		if err := <-failed; !errors.Is(err, net.ErrClosed) || l.Addr().Network() != "memory" {
			t.Error(err)
		}
	})
}
