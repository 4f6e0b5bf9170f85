package splice_test

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"math"
	"math/rand/v2"
	"net"
	"os"
	"sync"
	"testing"
	"time"

	"github.com/sluice-push/sluice/internal/testwait"
	"github.com/sluice-push/sluice/splice"
)

// combinations are the networks of a source and a destination.
var combinations = [][2]string{{"tcp", "tcp"}, {"tcp", "unix"}, {"unix", "tcp"}, {"unix", "unix"}}

// thresholds are those of a pool that splices all, one that copies all, and one by default.
var thresholds = map[string]int64{"spliced": -1, "copied": math.MaxInt64, "default": 0}

// newPool makes a pool, which is closed at the end of the test.
func newPool(t testing.TB, o *splice.Options) *splice.Pool {
	t.Helper()
	pool := splice.New(o)
	t.Cleanup(func() { _ = pool.Close() })
	return pool
}

// all runs a test for all combinations, with transfers that are spliced and that are copied.
func all(t *testing.T, test func(t *testing.T, networks [2]string, pool *splice.Pool)) {
	for _, networks := range combinations {
		for name, threshold := range thresholds {
			t.Run(fmt.Sprintf("%s-%s/%s", networks[0], networks[1], name), func(t *testing.T) {
				test(t, networks, newPool(t, &splice.Options{Threshold: threshold}))
			})
		}
	}
}

// transfer is the four ends of two connections, and between their inner ends bytes are moved.
type transfer struct{ feeder, src, dst, reader net.Conn }

func newTransfer(t testing.TB, networks [2]string) *transfer {
	t.Helper()
	x := new(transfer)
	x.feeder, x.src = pair(t, networks[0])
	x.dst, x.reader = pair(t, networks[1])
	return x
}

// result is what Move returns.
type result struct {
	n   int64
	err error
}

// start calls Move in a goroutine.
func start(pool *splice.Pool, x *transfer, head []byte, n int64) <-chan result {
	done := make(chan result, 1)
	go func() {
		n, err := pool.Move(x.dst, x.src, head, n)
		done <- result{n, err}
	}()
	return done
}

// feed writes bytes in a goroutine. The channel has the error.
func feed(conn net.Conn, b []byte) <-chan error {
	done := make(chan error, 1)
	go func() {
		_, err := conn.Write(b)
		done <- err
	}()
	return done
}

// random returns random bytes.
func random(r *rand.Rand, n int) []byte {
	b := make([]byte, n)
	for i := 0; i+8 <= n; i += 8 {
		v := r.Uint64()
		for j := range 8 {
			b[i+j] = byte(v >> (8 * j))
		}
	}
	return b
}

// Transfers of random sizes, one after the other over the same two connections, with heads that were read before: all bytes arrive in order.
func TestMove(t *testing.T) {
	all(t, func(t *testing.T, networks [2]string, pool *splice.Pool) {
		seed := rand.Uint64()
		t.Logf("seed %d", seed)
		r := rand.New(rand.NewPCG(seed, 0))
		x := newTransfer(t, networks)
		for _, most := range []int{0, 1, 100, 4 << 10, 64 << 10, 1 << 20, 8 << 20, 64 << 10} {
			sent := random(r, r.IntN(most+1))
			fed := feed(x.feeder, sent)
			head := make([]byte, r.IntN(min(len(sent), 64<<10)+1))
			if _, err := io.ReadFull(x.src, head); err != nil {
				t.Fatal(err)
			}
			done := start(pool, x, head, int64(len(sent)-len(head)))
			got := make([]byte, len(sent))
			if _, err := io.ReadFull(x.reader, got); err != nil {
				t.Fatal(err)
			}
			if res := testwait.Receive(t, done); res.err != nil || res.n != int64(len(sent)) {
				t.Fatalf("%d bytes, %v; want %d", res.n, res.err, len(sent))
			}
			if err := testwait.Receive(t, fed); err != nil {
				t.Fatal(err)
			}
			if !bytes.Equal(got, sent) {
				t.Fatalf("%d bytes arrived changed", len(sent))
			}
		}
		_ = x.dst.Close()
		if rest, err := io.ReadAll(x.reader); len(rest) > 0 || err != nil {
			t.Errorf("then came %d bytes more, %v", len(rest), err)
		}
	})
}

// A reader that takes little at a time gets all bytes.
func TestSlowReader(t *testing.T) {
	all(t, func(t *testing.T, networks [2]string, pool *splice.Pool) {
		x := newTransfer(t, networks)
		r := rand.New(rand.NewPCG(1, 2))
		sent := random(r, 2<<20)
		fed := feed(x.feeder, sent)
		done := start(pool, x, nil, int64(len(sent)))
		got := make([]byte, 0, len(sent))
		for len(got) < len(sent) {
			n, err := x.reader.Read(got[len(got):min(len(got)+1+r.IntN(8<<10), cap(got))])
			if err != nil {
				t.Fatal(err)
			}
			got = got[:len(got)+n]
		}
		if res := testwait.Receive(t, done); res.err != nil || res.n != int64(len(sent)) || !bytes.Equal(got, sent) {
			t.Errorf("%d bytes, %v; equal %v", res.n, res.err, bytes.Equal(got, sent))
		}
		if err := testwait.Receive(t, fed); err != nil {
			t.Error(err)
		}
	})
}

// A reader that takes nothing slows the source down, and the write deadline ends the transfer.
func TestBackPressure(t *testing.T) {
	all(t, func(t *testing.T, networks [2]string, pool *splice.Pool) {
		x := newTransfer(t, networks)
		const size = 64 << 20
		fed := feed(x.feeder, make([]byte, size))
		x.dst.SetWriteDeadline(time.Now().Add(50 * time.Millisecond))
		res := testwait.Receive(t, start(pool, x, nil, size))
		if !isSide(res.err, splice.Destination) || !errors.Is(res.err, os.ErrDeadlineExceeded) || res.n >= size {
			t.Errorf("%d bytes, %v", res.n, res.err)
		}
		_ = x.dst.Close()
		if got, err := io.Copy(io.Discard, x.reader); err != nil || got != res.n {
			t.Errorf("the reader got %d bytes, %v; Move said %d", got, err, res.n)
		}
		_ = x.src.Close()
		if err := testwait.Receive(t, fed); err == nil {
			t.Error("all bytes were read, although the reader took none")
		}
	})
}

// isSide reports whether an error is that of a connection.
func isSide(err error, side splice.Side) bool {
	e := new(splice.Error)
	return errors.As(err, &e) && e.Side == side
}

// After the deadline of the source the transfer goes on where it stopped.
func TestReadDeadline(t *testing.T) {
	all(t, func(t *testing.T, networks [2]string, pool *splice.Pool) {
		x := newTransfer(t, networks)
		sent := random(rand.New(rand.NewPCG(3, 4)), 300<<10)
		half := len(sent) / 2
		done := start(pool, x, nil, int64(len(sent)))
		if err := testwait.Receive(t, feed(x.feeder, sent[:half])); err != nil {
			t.Fatal(err)
		}
		got := make([]byte, len(sent))
		if _, err := io.ReadFull(x.reader, got[:half]); err != nil {
			t.Fatal(err)
		}
		x.src.SetReadDeadline(time.Unix(1, 0)) // while Move waits
		res := testwait.Receive(t, done)
		if !isSide(res.err, splice.Source) || !errors.Is(res.err, os.ErrDeadlineExceeded) || res.n != int64(half) {
			t.Fatalf("%d bytes, %v; want %d", res.n, res.err, half)
		}
		x.src.SetReadDeadline(time.Time{})
		done = start(pool, x, nil, int64(len(sent)-half))
		fed := feed(x.feeder, sent[half:])
		if _, err := io.ReadFull(x.reader, got[half:]); err != nil {
			t.Fatal(err)
		}
		if res := testwait.Receive(t, done); res.err != nil || !bytes.Equal(got, sent) {
			t.Errorf("%d bytes, %v; equal %v", res.n, res.err, bytes.Equal(got, sent))
		}
		if err := testwait.Receive(t, fed); err != nil {
			t.Error(err)
		}
	})
}

// Whichever connection ends in the middle, the error names it.
func TestEnds(t *testing.T) {
	const size = 64 << 20
	for name, end := range map[string]struct {
		end  func(x *transfer)
		side splice.Side
		err  error // nil is any
	}{
		"the source's peer leaves":      {func(x *transfer) { _ = x.feeder.Close() }, splice.Source, io.ErrUnexpectedEOF},
		"the source is closed":          {func(x *transfer) { _ = x.src.Close() }, splice.Source, net.ErrClosed},
		"the destination is closed":     {func(x *transfer) { _ = x.dst.Close() }, splice.Destination, net.ErrClosed},
		"the destination's peer leaves": {func(x *transfer) { _ = x.reader.Close() }, splice.Destination, nil},
	} {
		t.Run(name, func(t *testing.T) {
			all(t, func(t *testing.T, networks [2]string, pool *splice.Pool) {
				x := newTransfer(t, networks)
				first := size
				if end.side == splice.Source {
					first = 100 << 10 // less than all: Move then waits for the source
				}
				fed := feed(x.feeder, make([]byte, first))
				done := start(pool, x, nil, size)
				if _, err := io.ReadFull(x.reader, make([]byte, 100<<10)); err != nil {
					t.Fatal(err)
				}
				end.end(x)
				res := testwait.Receive(t, done)
				if !isSide(res.err, end.side) || end.err != nil && !errors.Is(res.err, end.err) {
					t.Errorf("%d bytes, %v; want one of the %v, %v", res.n, res.err, end.side, end.err)
				}
				if end.side == splice.Source && res.n != 100<<10 {
					t.Errorf("%d bytes, want %d", res.n, 100<<10)
				}
				_ = x.src.Close()
				_ = x.feeder.Close()
				_ = testwait.Receive(t, fed) // it may have been cut off
			})
		})
	}
}

// Many transfers at the same time, in both directions of each pair of connections, share a pool.
func TestConcurrent(t *testing.T) {
	pool := newPool(t, &splice.Options{Threshold: -1, IdlePipes: 2})
	var transfers sync.WaitGroup
	for i := range 20 {
		x := newTransfer(t, combinations[i%len(combinations)])
		back := &transfer{feeder: x.reader, src: x.dst, dst: x.src, reader: x.feeder}
		for seed, x := range []*transfer{x, back} {
			transfers.Go(func() {
				sent := random(rand.New(rand.NewPCG(uint64(i), uint64(seed))), 1<<20+i)
				fed, done := feed(x.feeder, sent), start(pool, x, nil, int64(len(sent)))
				got := make([]byte, len(sent))
				if _, err := io.ReadFull(x.reader, got); err != nil || !bytes.Equal(got, sent) {
					t.Errorf("transfer %d: %v, equal %v", i, err, bytes.Equal(got, sent))
				}
				if res := testwait.Hold(t, done); res.err != nil {
					t.Error(res.err)
				}
				if err := testwait.Hold(t, fed); err != nil {
					t.Error(err)
				}
			})
		}
	}
	testwait.Return(t, transfers.Wait)
	if idle := pool.Stats().IdlePipes; idle > 2 {
		t.Errorf("%d pipes are kept, want at most 2", idle)
	}
}

// wrapped is a connection that embeds another and holds back bytes of it.
type wrapped struct {
	net.Conn
	first []byte
}

func (w *wrapped) Read(b []byte) (int, error) {
	if len(w.first) > 0 {
		n := copy(b, w.first)
		w.first = w.first[n:]
		return n, nil
	}
	return w.Conn.Read(b)
}

// Connections of other types are read and written by their methods.
func TestOtherConnections(t *testing.T) {
	pool := newPool(t, &splice.Options{Threshold: -1})
	x := newTransfer(t, [2]string{"tcp", "tcp"})
	x.src = &wrapped{x.src, []byte("held ")}
	near, far := net.Pipe()
	defer near.Close()
	defer far.Close()
	x.dst, x.reader = near, far
	if pool.Direct(x.dst, x.src, 1<<20) {
		t.Error("such connections are spliced")
	}
	if err := testwait.Receive(t, feed(x.feeder, []byte("back"))); err != nil {
		t.Fatal(err)
	}
	done := start(pool, x, []byte("not "), 9)
	got := make([]byte, 13)
	if _, err := io.ReadFull(x.reader, got); err != nil || string(got) != "not held back" {
		t.Errorf("%q, %v", got, err)
	}
	if res := testwait.Receive(t, done); res.n != 13 || res.err != nil {
		t.Errorf("%d bytes, %v", res.n, res.err)
	}
	if s := pool.Stats(); s.Copied != 9 || s.Spliced != 0 {
		t.Errorf("%+v", s)
	}
}

// A head fails like the rest, and numbers that cannot be are refused.
func TestMistakes(t *testing.T) {
	pool := newPool(t, nil)
	x := newTransfer(t, [2]string{"tcp", "tcp"})
	if n, err := pool.Move(x.dst, x.src, []byte("head"), -1); n != 0 || !errors.Is(err, splice.ErrNegative) {
		t.Errorf("%d, %v", n, err)
	}
	_ = x.dst.Close()
	if n, err := pool.Move(x.dst, x.src, []byte("head"), 5); n != 0 || !isSide(err, splice.Destination) || !errors.Is(err, net.ErrClosed) {
		t.Errorf("%d, %v", n, err)
	} else if text := err.Error(); !bytes.HasPrefix([]byte(text), []byte("splice: destination: ")) {
		t.Errorf("the error says %q", text)
	}
	if splice.Source.String() != "source" || splice.Side(9).String() != "side 9" {
		t.Error("sides have other names")
	}
}
