package websocket_test

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

	"github.com/sluice-push/sluice/internal/testwait"
	"github.com/sluice-push/sluice/websocket"
)

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// upgradeRequest returns a request that is served in place, with more header fields, followed by rest.
func upgradeRequest(path, fields, rest string) string {
	return "GET " + path + " HTTP/1.1\r\nHost: a\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n" + fields + "\r\n" + rest
}

// serveUpgrades runs a net/http server behind an upgrade listener and returns the address. Requests for /taken, /refused, /empty and /panic
// are served in place. All others reach net/http, whose answer is "net/http " and the path.
func serveUpgrades(t *testing.T, log io.Writer) string {
	t.Helper()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	must(t, err)
	handler := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/panic" {
			panic("on purpose")
		}
		if r.URL.Path != "/taken" {
			w.Header().Set("Why", "in place")
			if r.URL.Path == "/refused" {
				w.WriteHeader(http.StatusForbidden)
				w.WriteHeader(http.StatusOK) // ignored: the status is set
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
		_, _ = fmt.Fprint(conn, "in place ", r.Host, " ", r.Header.Get("More")) // the peer may have reset it
		_ = conn.Close()
	})
	s := &http.Server{
		Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			body, _ := io.ReadAll(r.Body)
			_, _ = fmt.Fprint(w, "net/http ", r.URL.Path, string(body))
		}),
		ReadHeaderTimeout: time.Minute,
	}
	ln = websocket.NewUpgradeListener(ln, func(r *http.Request) http.Handler {
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

// ask sends text in parts, closes its side, and returns the whole answer. Because it closes its side, a server that waits for more gives up.
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

// Plain requests that the caller chooses are served in place, and nothing else.
func TestUpgradeListener(t *testing.T) {
	addr := serveUpgrades(t, io.Discard)
	for _, tt := range []struct{ name, text, want string }{
		{"taken over", upgradeRequest("/taken", "More: of it\r\n", ""), "in place a of it"},
		{"any case", strings.ReplaceAll(upgradeRequest("/taken", "", ""), "Upgrade: websocket", "uPGRADE: WebSocket"), "in place a "},
		{"another path", upgradeRequest("/other", "", ""), "net/http /other"},
		{"no upgrade", "GET /taken HTTP/1.1\r\nHost: a\r\n\r\n", "net/http /taken"},
		{"another method", strings.Replace(upgradeRequest("/taken", "", ""), "GET", "PUT", 1), "net/http /taken"},
		{"something behind it", upgradeRequest("/taken", "", "x"), "net/http /taken"},
		{"a body", upgradeRequest("/taken", "Content-Length: 1\r\n", "x"), "net/http /takenx"},
		{"a body that is to come", upgradeRequest("/taken", "Content-Length: 1\r\n", ""), "net/http /taken"},
		{"HTTP/1.0", strings.Replace(upgradeRequest("/taken", "", ""), "1.1", "1.0", 1), "net/http /taken"},
		{"two hosts", upgradeRequest("/taken", "Host: b\r\n", ""), "400 Bad Request"},
		{"no host", strings.Replace(upgradeRequest("/taken", "", ""), "Host: a\r\n", "", 1), "400 Bad Request: missing required Host header"},
		{"large", upgradeRequest("/taken", "Large: "+strings.Repeat("x", 4<<10)+"\r\n", ""), "net/http /taken"},
		{"no request", "\x16\x03\x01\r\n\r\n", "400 Bad Request"},
		{"no header", upgradeRequest("/taken", "no colon\r\n", ""), "400 Bad Request"},
	} {
		if got := ask(t, addr, tt.text); !strings.HasSuffix(got, tt.want) {
			t.Errorf("%s: %q", tt.name, got)
		}
	}
}

// A handler that refuses answers as it would under net/http, and the connection ends.
func TestUpgradeRefused(t *testing.T) {
	addr := serveUpgrades(t, io.Discard)
	for path, want := range map[string]string{"/refused": "403 Forbidden: not 127.0.0.1:", "/empty": "200 OK: "} {
		text := ask(t, addr, upgradeRequest(path, "", ""))
		r, err := http.ReadResponse(bufio.NewReader(strings.NewReader(text)), nil)
		must(t, err)
		body, err := io.ReadAll(r.Body)
		must(t, err)
		if got := r.Status + ": " + string(body); !strings.HasPrefix(got, want) || !r.Close || r.Header.Get("Why") != "in place" {
			t.Errorf("%s: %q", path, text)
		}
	}
}

// A request that arrives in parts is left to net/http.
func TestUpgradeInParts(t *testing.T) {
	addr := serveUpgrades(t, io.Discard)
	text := upgradeRequest("/taken", "", "")
	conn, err := net.Dial("tcp", addr)
	must(t, err)
	defer func() { _ = conn.Close() }()
	must(t, conn.SetDeadline(time.Now().Add(time.Minute)))
	_, err = io.WriteString(conn, text[:len(text)-1])
	must(t, err)
	// Connections are accepted in order: once the next one has an answer, this one belongs to net/http.
	if got := ask(t, addr, "GET /next HTTP/1.1\r\nHost: a\r\n\r\n"); !strings.HasSuffix(got, "net/http /next") {
		t.Fatalf("%q", got)
	}
	_, err = io.WriteString(conn, text[len(text)-1:])
	must(t, err)
	must(t, conn.(*net.TCPConn).CloseWrite())
	got, err := io.ReadAll(conn)
	must(t, err)
	if !strings.HasSuffix(string(got), "net/http /taken") {
		t.Errorf("%q", got)
	}
}

// A handler that panics loses its own connection only.
func TestUpgradePanic(t *testing.T) {
	var log bytes.Buffer // written by the accepting goroutine, and read after it has served another connection
	addr := serveUpgrades(t, &log)
	if got := ask(t, addr, upgradeRequest("/panic", "", "")); got != "" {
		t.Errorf("%q", got)
	}
	if got := ask(t, addr, upgradeRequest("/taken", "", "")); got != "in place a " {
		t.Errorf("%q", got)
	}
	if !strings.Contains(log.String(), "on purpose") {
		t.Errorf("the log says %q", log.String())
	}
}

// A connection that is reset before it is accepted does not disturb the next ones.
func TestUpgradeReset(t *testing.T) {
	addr := serveUpgrades(t, io.Discard)
	for range 20 {
		conn, err := net.Dial("tcp", addr)
		must(t, err)
		_, err = io.WriteString(conn, upgradeRequest("/taken", "", ""))
		must(t, err)
		must(t, conn.(*net.TCPConn).SetLinger(0))
		must(t, conn.Close())
	}
	if got := ask(t, addr, "GET /next HTTP/1.1\r\nHost: a\r\n\r\n"); !strings.HasSuffix(got, "net/http /next") {
		t.Errorf("%q", got)
	}
}
