package transport_test

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"io"
	"math/rand/v2"
	"net"
	"os"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/sluice-push/sluice/internal/testwait"
	"github.com/sluice-push/sluice/transport"
)

// pairs returns functions that make connected ends of each kind. Connections in memory must behave like those of the kernel.
var pairs = map[string]func(t *testing.T) (a, b net.Conn){
	"tcp": func(t *testing.T) (a, b net.Conn) { return connect(t, listen(t, "tcp", "127.0.0.1:0", nil), nil) },
	"unix": func(t *testing.T) (a, b net.Conn) {
		return connect(t, listen(t, "unix", socketPath(t), nil), nil)
	},
	"memory": func(t *testing.T) (a, b net.Conn) {
		l := transport.NewMemory(0)
		defer l.Close()
		a, err := l.Dial(context.Background())
		if err != nil {
			t.Fatal(err)
		}
		if b, err = l.Accept(); err != nil {
			t.Fatal(err)
		}
		return closing(t, a, b)
	},
	"small pipe": func(t *testing.T) (a, b net.Conn) {
		x, y := transport.Pipe(61)
		return closing(t, x, y)
	},
}

// closing closes both ends when the test ends or takes too long.
func closing(t *testing.T, a, b net.Conn) (net.Conn, net.Conn) {
	for _, c := range []net.Conn{a, b} {
		_ = c.SetDeadline(time.Now().Add(10 * time.Second))
		t.Cleanup(func() { _ = c.Close() })
	}
	return a, b
}

// overPairs runs f over each kind of connection.
func overPairs(t *testing.T, f func(t *testing.T, a, b net.Conn)) {
	for name, pair := range pairs {
		t.Run(name, func(t *testing.T) {
			a, b := pair(t)
			f(t, a, b)
		})
	}
}

// past is a deadline that has passed.
func past() time.Time { return time.Unix(1, 0) }

// isTimeout reports whether err is the error of a passed deadline.
func isTimeout(err error) bool {
	var timeout net.Error
	return errors.Is(err, os.ErrDeadlineExceeded) && errors.As(err, &timeout) && timeout.Timeout()
}

func TestConnCarries(t *testing.T) {
	overPairs(t, func(t *testing.T, a, b net.Conn) {
		var wg sync.WaitGroup
		for _, way := range [][2]net.Conn{{a, b}, {b, a}} {
			data := make([]byte, 1<<18)
			rand.NewChaCha8([32]byte{1}).Read(data) //nolint:errcheck // never fails
			wg.Go(func() {
				for rest := data; len(rest) > 0; {
					n := min(1+rand.IntN(30_000), len(rest))
					if m, err := way[0].Write(rest[:n]); m != n || err != nil {
						t.Error(m, err)
						return
					}
					rest = rest[n:]
				}
				if err := way[0].(interface{ CloseWrite() error }).CloseWrite(); err != nil {
					t.Error(err)
				}
			})
			wg.Go(func() {
				got, err := io.ReadAll(way[1])
				if err != nil || !bytes.Equal(got, data) {
					t.Errorf("%d bytes arrived, of %d: %v", len(got), len(data), err)
				}
			})
		}
		testwait.Return(t, wg.Wait)
	})
}

func TestConnPingPong(t *testing.T) {
	overPairs(t, func(t *testing.T, a, b net.Conn) {
		const rounds = 200
		var wg sync.WaitGroup
		wg.Go(func() { _, _ = io.CopyN(b, b, 8*rounds) })
		for i := range uint64(rounds) {
			p := binary.BigEndian.AppendUint64(nil, i)
			if _, err := a.Write(p); err != nil {
				t.Fatal(err)
			}
			if _, err := io.ReadFull(a, p); err != nil || binary.BigEndian.Uint64(p) != i {
				t.Fatal(i, p, err)
			}
		}
		testwait.Return(t, wg.Wait)
	})
}

// Concurrent writes do not interleave.
func TestConnWritesWhole(t *testing.T) {
	overPairs(t, func(t *testing.T, a, b net.Conn) {
		const writers, size = 8, 100_000
		var wg sync.WaitGroup
		for i := range writers {
			wg.Go(func() {
				if n, err := a.Write(bytes.Repeat([]byte{byte(i)}, size)); n != size || err != nil {
					t.Error(n, err)
				}
			})
		}
		p, seen := make([]byte, size), make(map[[32]byte]bool)
		for range writers {
			if _, err := io.ReadFull(b, p); err != nil {
				t.Fatal(err)
			}
			if !bytes.Equal(p, bytes.Repeat(p[:1], size)) {
				t.Error("two writes are mixed")
			}
			seen[sha256.Sum256(p)] = true
		}
		if len(seen) != writers {
			t.Errorf("%d different writes of %d", len(seen), writers)
		}
		testwait.Return(t, wg.Wait)
	})
}

// A call fails at once if its deadline has passed, even if it need not wait, until the deadline is moved.
func TestConnPastDeadline(t *testing.T) {
	overPairs(t, func(t *testing.T, a, b net.Conn) {
		if _, err := b.Write([]byte("x")); err != nil {
			t.Fatal(err)
		}
		p := make([]byte, 1)
		if err := a.SetDeadline(past()); err != nil {
			t.Fatal(err)
		}
		for range 2 {
			if n, err := a.Read(p); n != 0 || !isTimeout(err) {
				t.Error(n, err)
			}
			if n, err := a.Write(p); n != 0 || !isTimeout(err) {
				t.Error(n, err)
			}
		}
		if err := a.SetReadDeadline(time.Time{}); err != nil {
			t.Fatal(err)
		}
		if n, err := a.Read(p); n != 1 || err != nil || p[0] != 'x' {
			t.Error(n, err)
		}
		if _, err := a.Write(p); !isTimeout(err) {
			t.Error("the other deadline was moved as well:", err)
		}
		if err := a.SetWriteDeadline(time.Now().Add(time.Minute)); err != nil {
			t.Fatal(err)
		}
		say(t, a, b, "y")
	})
}

// fill writes until nothing more fits, and returns the result of the last Write.
func fill(c net.Conn) error {
	for p := make([]byte, 1<<16); ; {
		if _, err := c.Write(p); err != nil {
			return err
		}
	}
}

// A deadline that is set or passes during a wait ends the wait. So does Close.
func TestConnInterrupted(t *testing.T) {
	for _, c := range []struct {
		name string
		end  func(c net.Conn) error
		is   func(err error) bool
	}{
		{"set", func(c net.Conn) error { return c.SetDeadline(past()) }, isTimeout},
		{"come", func(c net.Conn) error { return c.SetDeadline(time.Now().Add(time.Millisecond)) }, isTimeout},
		{"close", net.Conn.Close, func(err error) bool { return errors.Is(err, net.ErrClosed) }},
	} {
		t.Run(c.name, func(t *testing.T) {
			overPairs(t, func(t *testing.T, a, _ net.Conn) {
				results := make(chan error, 4)
				for range 2 {
					go func() {
						_, err := a.Read(make([]byte, 1))
						results <- err
					}()
					go func() { results <- fill(a) }()
				}
				if err := c.end(a); err != nil {
					t.Error(err)
				}
				for range 4 {
					if err := testwait.Receive(t, results); !c.is(err) {
						t.Error(err)
					}
				}
			})
		})
	}
}

func TestConnHalfClosed(t *testing.T) {
	overPairs(t, func(t *testing.T, a, b net.Conn) {
		if _, err := a.Write([]byte("bye")); err != nil {
			t.Fatal(err)
		}
		half := a.(interface{ CloseWrite() error })
		if err := half.CloseWrite(); err != nil {
			t.Fatal(err)
		}
		if _, err := a.Write([]byte("x")); !errors.Is(err, syscall.EPIPE) {
			t.Error("written after CloseWrite:", err)
		}
		if got, err := io.ReadAll(b); string(got) != "bye" || err != nil {
			t.Errorf("%q, %v", got, err)
		}
		say(t, b, a, "yes")
		if err := a.Close(); err != nil {
			t.Error(err)
		}
		if err := half.CloseWrite(); !errors.Is(err, net.ErrClosed) {
			t.Error(err)
		}
	})
}

func TestConnPeerCloses(t *testing.T) {
	overPairs(t, func(t *testing.T, a, b net.Conn) {
		if _, err := a.Write([]byte("bye")); err != nil {
			t.Fatal(err)
		}
		if err := a.Close(); err != nil {
			t.Fatal(err)
		}
		if got, err := io.ReadAll(b); string(got) != "bye" || err != nil {
			t.Errorf("%q, %v", got, err)
		}
		if err := fill(b); !errors.Is(err, syscall.EPIPE) && !errors.Is(err, syscall.ECONNRESET) {
			t.Error(err)
		}
	})
}

func TestConnClosed(t *testing.T) {
	overPairs(t, func(t *testing.T, a, _ net.Conn) {
		if err := a.Close(); err != nil {
			t.Error(err)
		}
		_, read := a.Read(make([]byte, 1))
		_, none := a.Read(nil)
		_, write := a.Write(make([]byte, 1))
		for name, err := range map[string]error{
			"Read": read, "Read nothing": none, "Write": write, "Close": a.Close(), "SetDeadline": a.SetDeadline(time.Now()),
			"SetReadDeadline": a.SetReadDeadline(time.Time{}), "SetWriteDeadline": a.SetWriteDeadline(time.Time{}),
		} {
			var op *net.OpError
			if !errors.Is(err, net.ErrClosed) || !errors.As(err, &op) {
				t.Error(name, err)
			}
		}
		if a.LocalAddr() == nil || a.RemoteAddr() == nil {
			t.Error("no address")
		}
	})
}

func TestConnNothing(t *testing.T) {
	overPairs(t, func(t *testing.T, a, b net.Conn) {
		if n, err := a.Write(nil); n != 0 || err != nil {
			t.Error(n, err)
		}
		if n, err := b.Read(nil); n != 0 || err != nil {
			t.Error(n, err)
		}
		say(t, a, b, "x")
	})
}

// All methods run at once, for the race detector. Whatever they return, none hangs.
func TestConnMethodsAtOnce(t *testing.T) {
	overPairs(t, func(t *testing.T, a, b net.Conn) {
		var wg sync.WaitGroup
		for _, c := range []net.Conn{a, b} {
			for range 3 {
				wg.Go(func() {
					for range 50 {
						_, _ = c.Read(make([]byte, 10))
						_ = c.SetReadDeadline(time.Now().Add(time.Microsecond))
					}
				})
				wg.Go(func() {
					for range 50 {
						_, _ = c.Write(make([]byte, 10))
						_ = c.SetWriteDeadline(time.Now().Add(time.Microsecond))
					}
				})
				wg.Go(func() {
					for range 50 {
						_ = c.SetDeadline(time.Now().Add(time.Microsecond))
						_, _ = c.LocalAddr(), c.RemoteAddr()
					}
				})
			}
		}
		testwait.Return(t, wg.Wait)
		_ = a.Close()
	})
}
