package early_test

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/sluice-push/sluice/internal/early"
	"github.com/sluice-push/sluice/internal/testwait"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// request is one that is handled early, with more header fields and what follows.
func request(path, fields, rest string) string {
	return "GET " + path + " HTTP/1.1\r\nHost: a\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n" + fields + "\r\n" + rest
}

// serve runs a net/http server behind a listener that handles /taken, /refused, /empty and /panic early. What net/http serves is answered "late" and the path.
func serve(t *testing.T) string { return serveLogging(t, io.Discard) }

func serveLogging(t *testing.T, log io.Writer) string {
	t.Helper()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	must(t, err)
	handler := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/panic" {
			panic("on purpose")
		}
		if r.URL.Path != "/taken" {
			w.Header().Set("Why", "early")
			if r.URL.Path == "/refused" {
				w.WriteHeader(http.StatusForbidden)
				w.WriteHeader(http.StatusOK) // too late
				_, _ = fmt.Fprint(w, "not ", r.RemoteAddr)
			}
			return
		}
		conn, rw, err := http.NewResponseController(w).Hijack()
		if err != nil || rw.Reader.Buffered() > 0 {
			t.Errorf("%v, %d bytes", err, rw.Reader.Buffered())
			return
		}
		if _, _, err := http.NewResponseController(w).Hijack(); !errors.Is(err, http.ErrHijacked) {
			t.Errorf("a second time: %v", err)
		}
		_, _ = fmt.Fprint(conn, "early ", r.Host, " ", r.Header.Get("More")) // it may have been reset
		_ = conn.Close()
	})
	s := &http.Server{
		Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			body, _ := io.ReadAll(r.Body)
			_, _ = fmt.Fprint(w, "late ", r.URL.Path, string(body))
		}),
		ReadHeaderTimeout: time.Minute,
	}
	ln = early.Listen(ln, func(r *http.Request) http.Handler {
		switch r.URL.Path {
		case "/taken", "/refused", "/empty", "/panic":
			return handler
		}
		return nil
	}, slog.New(slog.NewTextHandler(log, nil)))
	var running sync.WaitGroup
	running.Go(func() {
		if err := s.Serve(ln); !errors.Is(err, http.ErrServerClosed) {
			t.Error(err)
		}
	})
	t.Cleanup(func() {
		must(t, s.Close())
		testwait.Return(t, running.Wait)
	})
	return ln.Addr().String()
}

// ask sends text in parts and returns all that comes back. The end of what it sends is told, so that a server that waits for more gives up.
func ask(t *testing.T, addr string, parts ...string) string {
	t.Helper()
	conn, err := net.Dial("tcp", addr)
	must(t, err)
	defer func() { _ = conn.Close() }()
	must(t, conn.SetDeadline(time.Now().Add(time.Minute)))
	for _, p := range parts {
		_, err := io.WriteString(conn, p)
		must(t, err)
	}
	must(t, conn.(*net.TCPConn).CloseWrite())
	all, err := io.ReadAll(conn)
	must(t, err)
	return string(all)
}

// Requests that are wanted are handled early, and nothing else is.
func TestListen(t *testing.T) {
	addr := serve(t)
	for _, tt := range []struct{ name, text, want string }{
		{"taken over", request("/taken", "More: of it\r\n", ""), "early a of it"},
		{"any case", strings.ReplaceAll(request("/taken", "", ""), "Upgrade: websocket", "uPGRADE: WebSocket"), "early a "},
		{"another path", request("/other", "", ""), "late /other"},
		{"no upgrade", "GET /taken HTTP/1.1\r\nHost: a\r\n\r\n", "late /taken"},
		{"another method", strings.Replace(request("/taken", "", ""), "GET", "PUT", 1), "late /taken"},
		{"something behind it", request("/taken", "", "x"), "late /taken"},
		{"a body", request("/taken", "Content-Length: 1\r\n", "x"), "late /takenx"},
		{"a body that is to come", request("/taken", "Content-Length: 1\r\n", ""), "late /taken"},
		{"HTTP/1.0", strings.Replace(request("/taken", "", ""), "1.1", "1.0", 1), "late /taken"},
		{"two hosts", request("/taken", "Host: b\r\n", ""), "400 Bad Request"},
		{"no host", strings.Replace(request("/taken", "", ""), "Host: a\r\n", "", 1), "400 Bad Request: missing required Host header"},
		{"large", request("/taken", "Large: "+strings.Repeat("x", 4<<10)+"\r\n", ""), "late /taken"},
		{"no request", "\x16\x03\x01\r\n\r\n", "400 Bad Request"},
		{"no header", request("/taken", "no colon\r\n", ""), "400 Bad Request"},
	} {
		if got := ask(t, addr, tt.text); !strings.HasSuffix(got, tt.want) {
			t.Errorf("%s: %q", tt.name, got)
		}
	}
}

// Who is refused early is answered as net/http would, and the connection ends.
func TestRefused(t *testing.T) {
	addr := serve(t)
	for path, want := range map[string]string{"/refused": "403 Forbidden: not 127.0.0.1:", "/empty": "200 OK: "} {
		text := ask(t, addr, request(path, "", ""))
		r, err := http.ReadResponse(bufio.NewReader(strings.NewReader(text)), nil)
		must(t, err)
		body, err := io.ReadAll(r.Body)
		must(t, err)
		if got := r.Status + ": " + string(body); !strings.HasPrefix(got, want) || !r.Close || r.Header.Get("Why") != "early" {
			t.Errorf("%s: %q", path, text)
		}
	}
}

// A request that comes in parts, or not at all, is the server's.
func TestInParts(t *testing.T) {
	addr := serve(t)
	text := request("/taken", "", "")
	conn, err := net.Dial("tcp", addr)
	must(t, err)
	defer func() { _ = conn.Close() }()
	must(t, conn.SetDeadline(time.Now().Add(time.Minute)))
	_, err = io.WriteString(conn, text[:len(text)-1])
	must(t, err)
	// Connections are accepted in turn: when the next is answered this one has been handed on.
	if got := ask(t, addr, "GET /next HTTP/1.1\r\nHost: a\r\n\r\n"); !strings.HasSuffix(got, "late /next") {
		t.Fatalf("%q", got)
	}
	_, err = io.WriteString(conn, text[len(text)-1:])
	must(t, err)
	must(t, conn.(*net.TCPConn).CloseWrite())
	got, err := io.ReadAll(conn)
	must(t, err)
	if !strings.HasSuffix(string(got), "late /taken") {
		t.Errorf("%q", got)
	}
}

// A handler that panics costs its own connection.
func TestPanic(t *testing.T) {
	var log bytes.Buffer // written by the goroutine that accepts, and read when that has handled another connection
	addr := serveLogging(t, &log)
	if got := ask(t, addr, request("/panic", "", "")); got != "" {
		t.Errorf("%q", got)
	}
	if got := ask(t, addr, request("/taken", "", "")); got != "early a " {
		t.Errorf("%q", got)
	}
	if !strings.Contains(log.String(), "on purpose") {
		t.Errorf("the log says %q", log.String())
	}
}

// A connection that is reset before it is accepted disturbs nobody.
func TestReset(t *testing.T) {
	addr := serve(t)
	for range 20 {
		conn, err := net.Dial("tcp", addr)
		must(t, err)
		_, err = io.WriteString(conn, request("/taken", "", ""))
		must(t, err)
		must(t, conn.(*net.TCPConn).SetLinger(0))
		must(t, conn.Close())
	}
	if got := ask(t, addr, "GET /next HTTP/1.1\r\nHost: a\r\n\r\n"); !strings.HasSuffix(got, "late /next") {
		t.Errorf("%q", got)
	}
}
