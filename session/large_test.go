package session_test

import (
	"bytes"
	"errors"
	"io"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/sluice-push/sluice/internal/testwait"
	"github.com/sluice-push/sluice/session"
)

// temporary returns a file of n bytes that differ from one another, and its content.
func temporary(t testing.TB, n int) (*os.File, []byte) {
	t.Helper()
	content := make([]byte, n)
	rnd := rand.NewChaCha8([32]byte{byte(n)})
	_, _ = rnd.Read(content)
	f, err := os.Create(filepath.Join(t.TempDir(), "file"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = f.Close() })
	if _, err := f.Write(content); err != nil {
		t.Fatal(err)
	}
	return f, content
}

// Files and large memory arrive whole and in order with other frames, also if the handler itself sends them.
func TestLargeFrames(t *testing.T) {
	const size = 3 << 20
	over(t, func(t *testing.T, tr transport) {
		file, content := temporary(t, size)
		fail := make(chan error, 10)
		h := session.Handler{Message: func(s *session.Session, msg []byte) {
			_ = s.Write([]byte("before"))
			mine := bytes.Clone(content[:size/2])
			switch string(msg) {
			case "memory":
				fail <- s.WriteLarge(mine)
			case "file":
				fail <- s.WriteFile([]byte("head"), file, 10, size/2)
			case "nothing":
				fail <- errors.Join(s.WriteLarge(nil), s.WriteFile(nil, file, 5, 0), s.WriteFile([]byte("head"), file, 5, 0))
			}
			clear(mine)
			_ = s.Write([]byte("after"))
		}}
		f := newFixture(t, tr, line, h, &session.Options{ZeroCopy: 1 << 20, SendBuffer: 64 << 10})
		for what, want := range map[string]string{
			"memory": string(content[:size/2]), "file": "head" + string(content[10:10+size/2]), "nothing": "head",
		} {
			write(t, f.client, what+"\n")
			expect(t, f.client, "before"+want+"after")
			if err := receive(t, fail); err != nil {
				t.Error(err)
			}
		}
		await(t, func() bool { return f.srv.Stats().BytesOut == uint64(size+4+4+3*11) })
	})
}

// Several goroutines send large and small frames at the same time. Each frame arrives whole.
func TestLargeFramesOfMany(t *testing.T) {
	overWaiting(t, every, func(t *testing.T, tr transport) {
		const senders, rounds, size = 4, 5, 200_000
		f := newFixture(t, tr, line, session.Handler{}, &session.Options{ZeroCopy: 1000, SendBuffer: 16 << 10})
		file, _ := temporary(t, 0)
		if _, err := file.WriteString(strings.Repeat("f", size) + "\n"); err != nil {
			t.Fatal(err)
		}
		var all sync.WaitGroup
		for range senders {
			all.Go(func() {
				for range rounds {
					mine := []byte(strings.Repeat("m", size) + "\n")
					err := f.s.WriteLarge(mine)
					clear(mine)
					if err := errors.Join(err, f.s.WriteFile([]byte("h"), file, 0, size+1), f.s.Send([]byte("small"))); err != nil {
						t.Error(err)
					}
				}
			})
		}
		counts := map[string]int{}
		in := make([]byte, senders*rounds*(2*(size+1)+1+6))
		if _, err := io.ReadFull(f.client, in); err != nil {
			t.Fatal(err)
		}
		for l := range strings.Lines(string(in)) {
			counts[l]++
		}
		testwait.Return(t, all.Wait)
		for _, want := range []string{strings.Repeat("m", size) + "\n", "h" + strings.Repeat("f", size) + "\n", "small\n"} {
			if counts[want] != senders*rounds {
				t.Errorf("%d frames of %d bytes came whole", counts[want], len(want))
			}
		}
	})
}

// A caller that waits for a large frame gets an error when the session ends, whatever ends it.
func TestLargeFramesOfASessionThatEnds(t *testing.T) {
	ends := map[string]func(f *fixture){
		"abort": func(f *fixture) { f.s.Abort(errOurs) },
		"peer":  func(f *fixture) { _ = f.client.Close() },
		"slow":  func(*fixture) {},
		"close": func(f *fixture) { _ = f.srv.Close() },
	}
	for name, end := range ends {
		t.Run(name, func(t *testing.T) {
			over(t, func(t *testing.T, tr transport) {
				file, _ := temporary(t, 8<<20)
				o := session.Options{SendBuffer: 16 << 10, ZeroCopy: 1}
				if name == "slow" {
					o.WriteTimeout = 30 * time.Millisecond
				}
				f := newFixture(t, tr, line, session.Handler{}, &o)
				fail := make(chan error, 3)
				go func() { fail <- f.s.WriteLarge(make([]byte, 8<<20)) }()
				go func() { fail <- f.s.WriteFile([]byte("head"), file, 0, 8<<20) }()
				go func() { fail <- f.s.WriteLarge(make([]byte, 8<<20)) }()
				if name != "slow" {
					await(t, func() bool { return session.Larges(f.s) == 3 })
				}
				end(f)
				for range 3 {
					if err := receive(t, fail); !errors.Is(err, session.ErrClosed) {
						t.Errorf("error %v", err)
					}
				}
				receive(t, f.closed)
				if err := f.s.WriteLarge([]byte("x")); !errors.Is(err, session.ErrClosed) {
					t.Errorf("error %v", err)
				}
			})
		})
	}
}

// A gentle end waits for large frames that are being sent.
func TestLargeFramesAreSentBeforeTheEnd(t *testing.T) {
	const size = 2 << 20
	over(t, func(t *testing.T, tr transport) {
		file, content := temporary(t, size)
		f := newFixture(t, tr, line, session.Handler{}, &session.Options{SendBuffer: 16 << 10, ZeroCopy: 1})
		fail := make(chan error, 1)
		go func() {
			err := f.s.WriteLarge(bytes.Clone(content))
			fail <- errors.Join(err, f.s.WriteFile(nil, file, 0, size))
		}()
		expect(t, f.client, string(content)+string(content[:1000]))
		f.s.End([]byte("bye"), nil)
		expect(t, f.client, string(content[1000:])+"bye")
		if err := receive(t, fail); err != nil {
			t.Error(err)
		}
		expectEnd(t, f.client)
	})
}

// An error of a file is returned before anything is written, if it is known by then. Otherwise the session ends, because the peer waits for
// bytes that do not come.
func TestFilesThatAreTooShort(t *testing.T) {
	over(t, func(t *testing.T, tr transport) {
		file, content := temporary(t, 4<<20)
		f := newFixture(t, tr, line, session.Handler{}, &session.Options{SendBuffer: 16 << 10})
		for _, at := range [][2]int64{{0, 4<<20 + 1}, {1, 4 << 20}, {5 << 20, 1}} {
			if err := f.s.WriteFile([]byte("head"), file, at[0], at[1]); !errors.Is(err, io.ErrUnexpectedEOF) || errors.Is(err, session.ErrClosed) {
				t.Errorf("error %v", err)
			}
		}
		for _, at := range [][2]int64{{-1, 1}, {0, -1}} {
			if err := f.s.WriteFile(nil, file, at[0], at[1]); err == nil {
				t.Errorf("offset and size %v were taken", at)
			}
		}
		if r, w, err := os.Pipe(); err != nil {
			t.Error(err)
		} else if err := errors.Join(r.Close(), f.s.WriteFile(nil, w, 0, 1), w.Close()); err == nil {
			t.Error("a pipe was taken")
		}
		const long = 64 << 20 // more than kernels buffer; the file is sparse
		if err := file.Truncate(long); err != nil {
			t.Fatal(err)
		}
		fail := make(chan error, 1)
		go func() { fail <- f.s.WriteFile(nil, file, 0, long) }()
		expect(t, f.client, string(content[:10]))
		if err := file.Truncate(1 << 20); err != nil {
			t.Fatal(err)
		}
		_, _ = io.Copy(io.Discard, f.client)
		if err := receive(t, fail); !errors.Is(err, io.ErrUnexpectedEOF) || !errors.Is(err, session.ErrClosed) {
			t.Errorf("error %v", err)
		}
		if info := receive(t, f.closed); info.By != session.ByError || !errors.Is(info.Err, io.ErrUnexpectedEOF) {
			t.Errorf("ended by %v, %v", info.By, info.Err)
		}
		_ = file.Close()
		if err := f.s.WriteFile(nil, file, 0, 1); !errors.Is(err, os.ErrClosed) {
			t.Errorf("error %v", err)
		}
	})
}

// BenchmarkFile sends a file of 1 MiB to a peer that discards it: with sendfile, and with read and write.
func BenchmarkFile(b *testing.B) {
	const size = 1 << 20
	file, _ := temporary(b, size)
	buf := make([]byte, size)
	ways := map[string]func(s *session.Session) error{
		"WriteFile":  func(s *session.Session) error { return s.WriteFile(nil, file, 0, size) },
		"WriteLarge": func(s *session.Session) error { return s.WriteLarge(buf) },
		"Write": func(s *session.Session) error {
			if _, err := file.ReadAt(buf, 0); err != nil {
				return err
			}
			return s.Write(buf)
		},
	}
	for name, way := range ways {
		b.Run(name, func(b *testing.B) {
			f := newFixture(b, transports[0], line, session.Handler{}, &session.Options{QueueBytes: 2 * size})
			_ = f.client.SetDeadline(time.Time{})
			over := make(chan struct{})
			go func() {
				defer close(over)
				_, _ = io.Copy(io.Discard, f.client)
			}()
			b.SetBytes(size)
			b.ReportAllocs()
			for b.Loop() {
				if err := way(f.s); err != nil {
					b.Fatal(err)
				}
			}
			f.s.Close()
			<-over
		})
	}
}
