package splice_test

import (
	"errors"
	"io"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/sluice-push/sluice/internal/testwait"
	"github.com/sluice-push/sluice/splice"
)

// pipes returns how many ends of pipes this process has.
func pipes(t *testing.T) int {
	t.Helper()
	entries, err := os.ReadDir("/proc/self/fd")
	if err != nil {
		t.Fatal(err)
	}
	return len(slices.DeleteFunc(entries, func(e os.DirEntry) bool {
		target, err := os.Readlink("/proc/self/fd/" + e.Name())
		return err != nil || !strings.HasPrefix(target, "pipe:")
	}))
}

// move moves bytes that a feeder writes, to a reader that takes them.
func move(t *testing.T, pool *splice.Pool, networks [2]string, n int64) {
	t.Helper()
	x := newTransfer(t, networks)
	fed, done := feed(x.feeder, make([]byte, n)), start(pool, x, nil, n)
	if _, err := io.CopyN(io.Discard, x.reader, n); err != nil {
		t.Fatal(err)
	}
	if res := testwait.Receive(t, done); res.n != n || res.err != nil {
		t.Fatalf("%d bytes, %v", res.n, res.err)
	}
	if err := testwait.Receive(t, fed); err != nil {
		t.Fatal(err)
	}
}

// Which transfers are spliced by default.
func TestDefault(t *testing.T) {
	for _, networks := range combinations {
		for _, n := range []int64{128<<10 - 1, 128 << 10} {
			pool := newPool(t, nil)
			move(t, pool, networks, n)
			want := splice.Stats{Copied: uint64(n)}
			if n == 128<<10 && networks != [2]string{"unix", "tcp"} {
				want = splice.Stats{Spliced: uint64(n), IdlePipes: 1}
			}
			if s := pool.Stats(); s != want {
				t.Errorf("%v, %d bytes: %+v, want %+v", networks, n, s, want)
			}
		}
	}
}

// Pipes are used again, and none is left when the pool is closed, whatever became of the transfers.
func TestDescriptors(t *testing.T) {
	before := pipes(t)
	pool := newPool(t, &splice.Options{Threshold: -1})
	for range 50 {
		move(t, pool, [2]string{"tcp", "unix"}, 100<<10)
	}
	if n := pipes(t) - before; n != 2 {
		t.Errorf("%d ends of pipes after one transfer at a time, want 2", n)
	}

	for range 20 {
		x := newTransfer(t, [2]string{"unix", "tcp"})
		fed, done := feed(x.feeder, make([]byte, 32<<20)), start(pool, x, nil, 32<<20)
		if _, err := io.CopyN(io.Discard, x.reader, 1<<20); err != nil {
			t.Fatal(err)
		}
		_ = x.reader.Close() // with bytes in the pipe
		if res := testwait.Receive(t, done); !isSide(res.err, splice.Destination) {
			t.Fatal(res.err)
		}
		_ = x.src.Close()
		_ = testwait.Receive(t, fed) // it may have been cut off
	}
	if n := pipes(t) - before; n != 0 {
		t.Errorf("%d ends of pipes after transfers that failed, want none", n)
	}

	x := newTransfer(t, [2]string{"tcp", "tcp"})
	done := start(pool, x, nil, 2)
	if err := testwait.Receive(t, feed(x.feeder, []byte{1})); err != nil {
		t.Fatal(err)
	}
	if _, err := io.ReadFull(x.reader, make([]byte, 1)); err != nil {
		t.Fatal(err)
	}
	_ = pool.Close() // while a transfer has a pipe
	if err := testwait.Receive(t, feed(x.feeder, []byte{2})); err != nil {
		t.Fatal(err)
	}
	if res := testwait.Receive(t, done); res.n != 2 || res.err != nil {
		t.Errorf("%d bytes, %v", res.n, res.err)
	}
	move(t, pool, [2]string{"tcp", "tcp"}, 100<<10)
	if n := pipes(t) - before; n != 0 {
		t.Errorf("%d ends of pipes after Close, want none", n)
	}
}

// Without a descriptor for a pipe, bytes are copied.
func TestNoDescriptor(t *testing.T) {
	pool := newPool(t, &splice.Options{Threshold: -1})
	x := newTransfer(t, [2]string{"tcp", "tcp"})
	var limit syscall.Rlimit
	if err := syscall.Getrlimit(syscall.RLIMIT_NOFILE, &limit); err != nil {
		t.Fatal(err)
	}
	none := limit
	none.Cur = 3
	if err := syscall.Setrlimit(syscall.RLIMIT_NOFILE, &none); err != nil {
		t.Fatal(err)
	}
	fed, done := feed(x.feeder, make([]byte, 1<<20)), start(pool, x, nil, 1<<20)
	n, err := io.CopyN(io.Discard, x.reader, 1<<20)
	if err := syscall.Setrlimit(syscall.RLIMIT_NOFILE, &limit); err != nil {
		t.Fatal(err)
	}
	if n != 1<<20 || err != nil {
		t.Fatalf("%d bytes, %v", n, err)
	}
	if res := testwait.Receive(t, done); res.n != n || res.err != nil {
		t.Errorf("%d bytes, %v", res.n, res.err)
	}
	if err := testwait.Receive(t, fed); err != nil {
		t.Error(err)
	}
	if s := pool.Stats(); s.Copied != 1<<20 || s.Spliced != 0 {
		t.Errorf("%+v", s)
	}
}

// Unix sockets that keep the borders of messages are not spliced.
func TestPackets(t *testing.T) {
	address := filepath.Join(t.TempDir(), "s")
	ln, err := net.Listen("unixpacket", address)
	if err != nil {
		t.Fatal(err)
	}
	defer ln.Close()
	conn, err := net.Dial("unixpacket", address)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	stream, _ := pair(t, "tcp")
	pool := newPool(t, &splice.Options{Threshold: -1})
	if pool.Direct(conn, stream, 1) || pool.Direct(stream, conn, 1) || !pool.Direct(stream, stream, 1) {
		t.Error("other sockets are spliced than stream sockets")
	}
}

// Urgent data stops a transfer that is spliced. The deadline ends it.
func TestUrgentData(t *testing.T) {
	pool := newPool(t, &splice.Options{Threshold: -1})
	x := newTransfer(t, [2]string{"tcp", "tcp"})
	raw, err := x.feeder.(*net.TCPConn).SyscallConn()
	if err != nil {
		t.Fatal(err)
	}
	var sent error
	if err := raw.Write(func(fd uintptr) bool {
		sent = syscall.Sendto(int(fd), []byte("!"), syscall.MSG_OOB, nil)
		return true
	}); err != nil || sent != nil {
		t.Fatal(err, sent)
	}
	if err := testwait.Receive(t, feed(x.feeder, []byte("text"))); err != nil {
		t.Fatal(err)
	}
	x.src.SetReadDeadline(time.Now().Add(20 * time.Millisecond))
	if n, err := pool.Move(x.dst, x.src, nil, 4); n != 0 || !errors.Is(err, os.ErrDeadlineExceeded) {
		t.Errorf("%d bytes, %v", n, err)
	}
}
