package tlsmem_test

import (
	"bytes"
	"crypto/tls"
	"errors"
	"io"
	"net"
	"testing"

	"pgregory.net/rapid"

	"github.com/sluice-push/sluice/internal/tlsmem"
)

// A Conn works with the Go version at hand.
func TestTest(t *testing.T) {
	if err := tlsmem.Test(); err != nil {
		t.Error(err)
	}
}

func pair(t interface{ Fatal(args ...any) }, version uint16) (server, client *tlsmem.Conn) {
	server, client, err := tlsmem.Pair(version)
	if err != nil {
		t.Fatal(err)
	}
	return server, client
}

// end is one direction of a connection in a property test: the bytes that were written, that are under way, and that have arrived.
type end struct {
	from, to          *tlsmem.Conn
	written, got, sky []byte
	ended             bool
}

// flush lets at most n bytes leave.
func (e *end) flush(t *rapid.T, room int) {
	before := e.from.Pending()
	n, err := e.from.Flush(func(p []byte) (int, error) {
		p = p[:min(len(p), room)]
		e.sky = append(e.sky, p...)
		return len(p), nil
	})
	if err != nil || n != min(before, room) || e.from.Pending() != before-n {
		t.Fatalf("flushed %d of %d, %v; %d are left", n, before, err, e.from.Pending())
	}
	if left := e.from.Pending(); left == 0 && e.from.Holds() > 0 || left > 0 && left <= 4<<10 && n > 0 && e.from.Holds() > 8<<10 {
		t.Fatalf("%d bytes hold %d", left, e.from.Holds())
	}
}

// arrive lets at most n bytes arrive, and reads them with a buffer of a given size.
func (e *end) arrive(t *rapid.T, n, size int) {
	n = min(n, len(e.sky))
	e.to.Feed(e.sky[:n])
	e.sky = e.sky[n:]
	buf := make([]byte, size)
	for {
		n, err := e.to.Read(buf)
		e.got = append(e.got, buf[:n]...)
		switch {
		case err == nil:
			continue
		case errors.Is(err, io.EOF) && e.ended && len(e.sky) == 0:
		case !errors.Is(err, tlsmem.ErrNeedMore) || e.to.Unread() > 0:
			t.Fatalf("read: %v, %d bytes fed", err, e.to.Unread())
		}
		return
	}
}

// All bytes arrive, in both directions at once, whatever pieces they are written in, cut into, and read in.
func TestBytesArrive(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		server, client := pair(t, rapid.SampledFrom(tlsmem.Versions()).Draw(t, "version"))
		ends := []*end{{from: server, to: client}, {from: client, to: server}}
		sizes := rapid.OneOf(rapid.IntRange(1, 50), rapid.IntRange(1, tlsmem.MaxPlaintext))
		for range rapid.IntRange(1, 40).Draw(t, "steps") {
			e := ends[rapid.IntRange(0, 1).Draw(t, "direction")]
			switch rapid.IntRange(0, 2).Draw(t, "what") {
			case 0:
				if e.from.Pending() > 0 { // as the engine does: one record at a time
					continue
				}
				p := bytes.Repeat([]byte{byte(len(e.written))}, sizes.Draw(t, "size"))
				if err := e.from.Write(p); err != nil {
					t.Fatal(err)
				}
				e.written = append(e.written, p...)
			case 1:
				e.flush(t, sizes.Draw(t, "room"))
			default:
				e.arrive(t, sizes.Draw(t, "cut"), sizes.Draw(t, "buffer"))
			}
		}
		for _, e := range ends {
			if rapid.Bool().Draw(t, "end") {
				e.ended = true
				if err := e.from.CloseWrite(); err != nil {
					t.Fatal(err)
				}
			}
			e.flush(t, 1<<20)
			e.arrive(t, 1<<20, 1<<10)
			if !bytes.Equal(e.got, e.written) {
				t.Fatalf("%d bytes have arrived of %d", len(e.got), len(e.written))
			}
		}
	})
}

func TestEnds(t *testing.T) {
	for _, version := range tlsmem.Versions() {
		t.Run(tls.VersionName(version), func(t *testing.T) {
			record := func(c *tlsmem.Conn) (sent []byte) {
				if err := c.Write([]byte("hello")); err != nil {
					t.Fatal(err)
				}
				_, _ = c.Flush(func(p []byte) (int, error) { sent = bytes.Clone(p); return len(p), nil })
				return sent
			}
			buf := make([]byte, 100)
			t.Run("between records", func(t *testing.T) {
				server, _ := pair(t, version)
				server.FeedEOF()
				if n, err := server.Read(buf); n != 0 || !errors.Is(err, io.EOF) {
					t.Errorf("read %d, %v", n, err)
				}
			})
			t.Run("in a record", func(t *testing.T) {
				server, client := pair(t, version)
				sent := record(client)
				server.Feed(sent[:len(sent)-1])
				server.FeedEOF()
				if n, err := server.Read(buf); n != 0 || !errors.Is(err, io.ErrUnexpectedEOF) {
					t.Errorf("read %d, %v", n, err)
				}
			})
			t.Run("broken", func(t *testing.T) {
				server, client := pair(t, version)
				sent := record(client)
				sent[len(sent)-1] ^= 1
				server.Feed(sent)
				if n, err := server.Read(buf); n != 0 || err == nil || errors.Is(err, tlsmem.ErrNeedMore) {
					t.Errorf("read %d, %v", n, err)
				}
				if server.Pending() == 0 {
					t.Error("the peer is not told")
				}
				if err := server.Write(buf); err == nil {
					t.Error("it can still be written")
				}
			})
		})
	}
}

// A peer that makes TLS answer, and does not read, is detected before the answers take much memory.
func TestFlood(t *testing.T) {
	server, _ := pair(t, tls.VersionTLS13)
	answer := make([]byte, 100)
	for most := 0; ; most += len(answer) {
		if err := server.Say(answer); err != nil {
			t.Fatal(err)
		}
		_, err := server.Flush(func([]byte) (int, error) { return 0, nil })
		if errors.Is(err, tlsmem.ErrFlood) {
			break
		}
		if err != nil || most > 1<<20 {
			t.Fatalf("%d bytes of answers, %v", most, err)
		}
	}
	if err := server.Write(answer); !errors.Is(err, tlsmem.ErrFlood) {
		t.Errorf("write: %v", err)
	}
	if err := server.Err(); !errors.Is(err, tlsmem.ErrFlood) {
		t.Errorf("error: %v", err)
	}
	if n := server.Pending(); n > 5*tlsmem.MaxPlaintext {
		t.Errorf("%d bytes are kept", n)
	}
}

// Flush returns the errors of the socket, and a released Conn returns net.ErrClosed.
func TestFlushFails(t *testing.T) {
	server, _ := pair(t, tls.VersionTLS13)
	if err := server.Write([]byte("hello")); err != nil {
		t.Fatal(err)
	}
	broken := errors.New("broken")
	if n, err := server.Flush(func([]byte) (int, error) { return 0, broken }); n != 0 || !errors.Is(err, broken) {
		t.Errorf("flushed %d, %v", n, err)
	}
	if server.Pending() == 0 {
		t.Error("nothing waits")
	}
	server.Release()
	if n := server.Pending(); n != 0 {
		t.Errorf("%d bytes wait", n)
	}
	if err := server.Write([]byte("hello")); !errors.Is(err, net.ErrClosed) {
		t.Errorf("write: %v", err)
	}
}

// One buffer has room for the plaintext of one record, in however many records crypto/tls sends it.
func TestRoomForARecord(t *testing.T) {
	for _, version := range tlsmem.Versions() {
		server, _ := pair(t, version)
		for range 200 { // crypto/tls makes larger records after more bytes
			if err := server.Write(make([]byte, tlsmem.MaxPlaintext)); err != nil {
				t.Fatal(err)
			}
			if n := server.Pending(); n > tlsmem.BufferSize {
				t.Errorf("%d bytes", n)
			}
			_, _ = server.Flush(func(p []byte) (int, error) { return len(p), nil })
		}
	}
}

// The methods that are accessible through the connection of crypto/tls do no harm.
func TestWhatUsersReach(t *testing.T) {
	server, _ := pair(t, tls.VersionTLS13)
	if v := server.TLS().ConnectionState().Version; v != tls.VersionTLS13 {
		t.Error(v)
	}
	under := server.TLS().NetConn()
	if under.LocalAddr() == nil || under.RemoteAddr() == nil {
		t.Error("there are no addresses")
	}
	if err := under.Close(); err != nil {
		t.Error(err)
	}
	if err := server.Write([]byte("hello")); err != nil {
		t.Error(err)
	}
}

func BenchmarkTest(b *testing.B) {
	for b.Loop() {
		if err := tlsmem.Test(); err != nil {
			b.Fatal(err)
		}
	}
}
