package transport_test

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"io"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"syscall"
	"testing"
	"time"

	"github.com/sluice-push/sluice/internal/testwait"
	"github.com/sluice-push/sluice/transport"
)

// socketPath returns a path that is short enough for a Unix socket.
func socketPath(t testing.TB) string {
	t.Helper()
	dir, err := os.MkdirTemp("", "sluice") //nolint:usetesting // t.TempDir may be too long for a socket
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	return filepath.Join(dir, "s")
}

// wrap listens with package net, and wraps the listener.
func wrap(t testing.TB, network, address string, o *transport.Options) *transport.Listener {
	t.Helper()
	ln, err := net.Listen(network, address)
	if err != nil {
		t.Fatal(err)
	}
	l, err := transport.Wrap(ln, o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = l.Close() })
	return l
}

func listen(t testing.TB, network, address string, o *transport.Options) *transport.Listener {
	t.Helper()
	l, err := transport.Listen(context.Background(), network, address, o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = l.Close() })
	return l
}

// connect dials l with o and returns both ends.
func connect(t testing.TB, l *transport.Listener, o *transport.Options) (client, server net.Conn) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	type result struct {
		conn net.Conn
		err  error
	}
	dialed := make(chan result, 1)
	go func() {
		conn, err := transport.Dial(ctx, l.Addr().Network(), l.Addr().String(), o)
		dialed <- result{conn, err}
	}()
	server, err := l.Accept()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = server.Close() })
	if tls, ok := server.(*tls.Conn); ok { // the dialing end waits for the handshake
		if err := tls.HandshakeContext(ctx); err != nil {
			t.Fatal(err)
		}
	}
	r := testwait.Receive(t, dialed)
	if r.err != nil {
		t.Fatal(r.err)
	}
	t.Cleanup(func() { _ = r.conn.Close() })
	for _, c := range []net.Conn{r.conn, server} {
		if err := c.SetDeadline(time.Now().Add(10 * time.Second)); err != nil {
			t.Fatal(err)
		}
	}
	return r.conn, server
}

// say writes text on one end and reads it on the other.
func say(t testing.TB, from, to net.Conn, text string) {
	t.Helper()
	if _, err := from.Write([]byte(text)); err != nil {
		t.Fatal(err)
	}
	p := make([]byte, len(text))
	if _, err := io.ReadFull(to, p); err != nil || string(p) != text {
		t.Fatalf("read %q, %v", p, err)
	}
}

func TestListenDial(t *testing.T) {
	cert := newAuthority(t).issue(t, "127.0.0.1", "::1")
	roots := x509.NewCertPool()
	roots.AddCert(cert.authority)
	for _, c := range []struct{ network, address string }{
		{"tcp", "127.0.0.1:0"}, {"tcp4", "localhost:0"}, {"tcp6", "[::1]:0"}, {"unix", ""},
	} {
		for _, secure := range []bool{false, true} {
			name, address := c.network, c.address
			if address == "" {
				address = socketPath(t)
			}
			var lo, do transport.Options
			if secure {
				name += " TLS"
				lo.TLS = &tls.Config{Certificates: []tls.Certificate{cert.pair}}
				do.TLS = &tls.Config{RootCAs: roots}
				if c.network == "unix" {
					do.TLS.ServerName = "127.0.0.1"
				}
			}
			t.Run(name, func(t *testing.T) {
				l := listen(t, c.network, address, &lo)
				if l.Plain() && secure {
					t.Error("a TLS listener is plain")
				}
				client, server := connect(t, l, &do)
				say(t, client, server, "hello")
				say(t, server, client, "world")
				if _, ok := server.(*tls.Conn); ok != secure {
					t.Errorf("accepted a %T", server)
				}
				if s := l.Stats(); s.Accepted != 1 {
					t.Errorf("%+v", s)
				}
			})
		}
	}
}

func TestListenRefuses(t *testing.T) {
	for _, network := range []string{"udp", "unixgram", "unixpacket", "", "ip"} {
		var unknown net.UnknownNetworkError
		if _, err := transport.Listen(context.Background(), network, "127.0.0.1:0", nil); !errors.As(err, &unknown) {
			t.Error(network, err)
		}
		if _, err := transport.Dial(context.Background(), network, "127.0.0.1:1", nil); !errors.As(err, &unknown) {
			t.Error(network, err)
		}
	}
	if _, err := transport.Listen(context.Background(), "unix", socketPath(t), &transport.Options{Mode: fs.ModeDir}); err == nil {
		t.Error("a socket became a folder")
	}
	l := listen(t, "tcp", "127.0.0.1:0", nil)
	if _, err := transport.Listen(context.Background(), "tcp", l.Addr().String(), nil); !errors.Is(err, syscall.EADDRINUSE) {
		t.Error(err)
	}
}

// A dial whose peer does not speak TLS ends with the context, and the connection is closed.
func TestDialHandshakeCancelled(t *testing.T) {
	l := listen(t, "tcp", "127.0.0.1:0", nil)
	ctx, cancel := context.WithCancel(context.Background())
	failed := make(chan error)
	go func() {
		_, err := transport.Dial(ctx, "tcp", l.Addr().String(), &transport.Options{TLS: new(tls.Config)})
		failed <- err
	}()
	conn, err := l.Accept()
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	cancel()
	if err := testwait.Receive(t, failed); !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
	if _, err := io.Copy(io.Discard, conn); err != nil && !errors.Is(err, syscall.ECONNRESET) {
		t.Error(err)
	}
}

func TestUnixMode(t *testing.T) {
	for _, mode := range []fs.FileMode{0o600, 0o640, 0o666, 0o777} { // wider than a umask permits, and narrower
		path := socketPath(t)
		l := listen(t, "unix", path, &transport.Options{Mode: mode})
		info, err := os.Stat(path)
		if err != nil || info.Mode().Perm() != mode {
			t.Error(mode, info, err)
		}
		_ = l.Close()
		if _, err := os.Lstat(path); !errors.Is(err, fs.ErrNotExist) {
			t.Error("Close left the file:", err)
		}
	}
}

// Closing a listener leaves the socket file of its successor alone.
func TestUnixSuccessor(t *testing.T) {
	path := socketPath(t)
	old := listen(t, "unix", path, nil)
	if err := os.Remove(path); err != nil {
		t.Fatal(err)
	}
	next := listen(t, "unix", path, nil)
	if err := old.Close(); err != nil {
		t.Error(err)
	}
	client, server := connect(t, next, nil)
	say(t, client, server, "hello")
	_ = next.Close()
	if _, err := os.Lstat(path); !errors.Is(err, fs.ErrNotExist) {
		t.Error("Close left the file:", err)
	}
}

// A socket file that a dead process has left is replaced. No other file is.
func TestUnixStale(t *testing.T) {
	leave := func(t *testing.T, path string) {
		ln, err := net.ListenUnix("unix", &net.UnixAddr{Name: path, Net: "unix"})
		if err != nil {
			t.Fatal(err)
		}
		ln.SetUnlinkOnClose(false)
		_ = ln.Close()
	}
	t.Run("stale", func(t *testing.T) {
		path := socketPath(t)
		leave(t, path)
		client, server := connect(t, listen(t, "unix", path, nil), nil)
		say(t, client, server, "hello")
	})
	inUse := func(t *testing.T, path string) {
		t.Helper()
		before, _ := os.Lstat(path)
		if _, err := transport.Listen(context.Background(), "unix", path, nil); !errors.Is(err, syscall.EADDRINUSE) {
			t.Error(err)
		}
		if after, err := os.Lstat(path); err != nil || !os.SameFile(before, after) {
			t.Error("the file was removed", err)
		}
	}
	t.Run("alive", func(t *testing.T) {
		path := socketPath(t)
		listen(t, "unix", path, nil)
		inUse(t, path)
	})
	t.Run("file", func(t *testing.T) {
		path := socketPath(t)
		if err := os.WriteFile(path, []byte("precious"), 0o600); err != nil {
			t.Fatal(err)
		}
		inUse(t, path)
	})
	t.Run("link", func(t *testing.T) {
		path := socketPath(t)
		leave(t, path+"2")
		if err := os.Symlink(path+"2", path); err != nil {
			t.Fatal(err)
		}
		inUse(t, path)
	})
	t.Run("datagram", func(t *testing.T) {
		path := socketPath(t)
		conn, err := net.ListenPacket("unixgram", path)
		if err != nil {
			t.Fatal(err)
		}
		defer conn.Close()
		inUse(t, path)
	})
}
