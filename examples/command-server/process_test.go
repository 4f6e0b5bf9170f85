//go:build unix

package main_test

import (
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/sluice-push/sluice/examples/internal/command"
	"github.com/sluice-push/sluice/examples/internal/proctest"
)

// peer is a connection to the server.
type peer struct {
	t    *testing.T
	conn *net.TCPConn
}

func dial(t *testing.T, address string) peer {
	t.Helper()
	conn, err := net.Dial("tcp", address)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close() })
	conn.SetDeadline(time.Now().Add(30 * time.Second))
	return peer{t, conn.(*net.TCPConn)}
}

// sends writes bytes.
func (p peer) sends(frames ...string) {
	p.t.Helper()
	if _, err := p.conn.Write([]byte(strings.Join(frames, ""))); err != nil {
		p.t.Fatal(err)
	}
}

// gets expects answers.
func (p peer) gets(answers ...command.Answer) {
	p.t.Helper()
	var want []byte
	for _, a := range answers {
		want = command.AppendAnswer(want, a)
	}
	got := make([]byte, len(want))
	if n, err := io.ReadFull(p.conn, got); err != nil || string(got) != string(want) {
		p.t.Fatalf("got %q, %v; want %q", got[:n], err, want)
	}
}

// end expects the end, ends as well, and closes.
func (p peer) end() {
	p.t.Helper()
	if n, err := p.conn.Read(make([]byte, 1)); n != 0 || !errors.Is(err, io.EOF) {
		p.t.Fatalf("%d bytes, %v; want the end", n, err)
	}
	_ = p.conn.Close()
}

func connect(id uint64, name string) string {
	return string(command.AppendRequest(nil, command.Request{Command: command.Connect, ID: id, Body: []byte(name)}))
}

func submit(id uint64, payload string) string {
	return string(command.AppendRequest(nil, command.Request{Command: command.Submit, ID: id, Body: []byte(payload)}))
}

func TestCommands(t *testing.T) {
	for _, workers := range []string{"0", "4"} {
		t.Run("workers="+workers, func(t *testing.T) {
			t.Parallel()
			server := program.Start(t, "-listen", "127.0.0.1:0", "-workers", workers)
			address := server.After("listening on ")

			p := dial(t, address)
			p.sends(submit(1, "too early"), connect(2, strings.Repeat("x", 65)), connect(3, "\xff"), submit(4, ""))
			p.gets(
				command.Answer{Command: command.Submitted, ID: 1, Result: command.NotConnected},
				command.Answer{Command: command.Connected, ID: 2, Result: command.BadName},
				command.Answer{Command: command.Connected, ID: 3, Result: command.BadName},
				command.Answer{Command: command.Submitted, ID: 4, Result: command.NotConnected},
			)
			p.sends(connect(5, "ann"), submit(6, ""), connect(7, "bob"), submit(1<<63, strings.Repeat("x", command.MaxFrame-command.Header)))
			p.gets(
				command.Answer{Command: command.Connected, ID: 5},
				command.Answer{Command: command.Submitted, ID: 6},
				command.Answer{Command: command.Connected, ID: 7, Result: command.Again},
				command.Answer{Command: command.Submitted, ID: 1 << 63},
			)

			// A thousand in one write, a few bytes at a time in others.
			var many strings.Builder
			var answers []command.Answer
			for id := range uint64(1000) {
				many.WriteString(submit(id, "payload"))
				answers = append(answers, command.Answer{Command: command.Submitted, ID: id})
			}
			p.sends(many.String())
			p.gets(answers...)
			for _, b := range submit(42, "slowly") {
				p.sends(string([]byte{byte(b)}))
			}
			p.gets(command.Answer{Command: command.Submitted, ID: 42})

			server.Signal(syscall.SIGUSR1)
			server.Line("memory returned: ")
			server.Signal(syscall.SIGTERM)
			p.end()
			status, stdout, stderr := server.Exit()
			if status != 0 || !strings.Contains(stdout, "clients: 1, requests: 1009, answers: 1009") {
				t.Errorf("status %d\n%s\n%s", status, stdout, stderr)
			}
		})
	}
}

// What cannot be answered ends the session, after the answers to what came before, and is logged.
func TestBroken(t *testing.T) {
	server := program.Start(t, "-listen", "127.0.0.1:0")
	address := server.After("listening on ")
	for _, broken := range []string{
		"\x00\x00\x00\x04", // no command
		"\x00\x00\x00\x0c\x02\x00\x00\x00\x00\x00\x00\x00",         // seven bytes of id
		"\x00\x00\x00\x0d\x03\x00\x00\x00\x00\x00\x00\x00\x00",     // no such command
		"\x00\x00\x00\x0e\x81\x00\x00\x00\x00\x00\x00\x00\x00\x00", // an answer
		"\x00\x00\x00\x03", // less than the length itself
		"\x00\x00\x00\x00",
		"\x00\x01\x00\x01", // more than 64 KiB
		"GET / HTTP/1.1\r\n\r\n",
	} {
		p := dial(t, address)
		p.sends(connect(1, "ann"), submit(2, ""), broken)
		p.gets(command.Answer{Command: command.Connected, ID: 1}, command.Answer{Command: command.Submitted, ID: 2})
		p.end()
	}
	server.Signal(syscall.SIGTERM)
	status, _, stderr := server.Exit()
	for text, times := range map[string]int{"frame is too short": 2, "unknown command": 2, "length is invalid": 2, "too large": 2} {
		if got := strings.Count(stderr, text); got != times {
			t.Errorf("%d times %q in the log, want %d", got, text, times)
		}
	}
	if status != 0 || t.Failed() {
		t.Errorf("status %d\n%s", status, stderr)
	}
}

// scrape returns the values of metrics without labels, and the names of all.
func scrape(t *testing.T, url string) (values map[string]float64, names []string) {
	t.Helper()
	values = make(map[string]float64)
	for line := range strings.Lines(fetch(t, url)) {
		if strings.HasPrefix(line, "#") {
			continue
		}
		name := metricName.FindString(line)
		names = append(names, name)
		if v, err := strconv.ParseFloat(strings.TrimSpace(strings.TrimPrefix(line, name)), 64); err == nil {
			values[name] = v
		}
	}
	return values, names
}

var metricName = regexp.MustCompile(`^[a-z_]+`)

// fetch gets a page on a connection of its own.
func fetch(t *testing.T, url string) string {
	t.Helper()
	client := http.Client{Timeout: 30 * time.Second, Transport: &http.Transport{DisableKeepAlives: true}}
	r, err := client.Get(url)
	if err != nil {
		t.Fatal(err)
	}
	defer r.Body.Close()
	body, err := io.ReadAll(r.Body)
	if err != nil || r.StatusCode != http.StatusOK {
		t.Fatalf("%s: %s, %v\n%s", url, r.Status, err, body)
	}
	return string(body)
}

// The metrics are what was sent and answered, and the dashboard asks for nothing else.
func TestMetrics(t *testing.T) {
	const clients, submits = 3, 5
	server := program.Start(t, "-listen", "127.0.0.1:0", "-metrics", "127.0.0.1:0")
	address := server.After("listening on ")
	url := server.After("metrics at ")

	peers := make([]peer, clients)
	for i := range peers {
		peers[i] = dial(t, address)
		peers[i].sends(connect(0, fmt.Sprint(i)))
		peers[i].gets(command.Answer{Command: command.Connected})
		for id := range uint64(submits) {
			peers[i].sends(submit(id, "payload"))
			peers[i].gets(command.Answer{Command: command.Submitted, ID: id})
		}
	}
	values, names := scrape(t, url)
	if values["client_connected"] != clients || values["req_recv_total"] != clients*(submits+1) {
		t.Errorf("metrics are %v, want %d clients and %d requests", values, clients, clients*(submits+1))
	}
	checkDashboard(t, names)
	if page := fetch(t, strings.Replace(url, "/metrics", "/debug/pprof/goroutine?debug=1", 1)); !strings.HasPrefix(page, "goroutine profile:") {
		t.Errorf("the profile is %q", page)
	}

	// An answer may be here before it is counted; when the session has ended all are.
	for _, p := range peers {
		if err := p.conn.CloseWrite(); err != nil {
			t.Fatal(err)
		}
		p.end()
	}
	values, _ = scrape(t, url)
	if values["req_recv_total"] != clients*(submits+1) || values["rsp_send_total"] != clients*(submits+1) {
		t.Errorf("metrics are %v, want %d requests and answers", values, clients*(submits+1))
	}
	end(t, server, "clients: 3, requests: 18, answers: 18")
}

// end ends the server and looks for its last words.
func end(t *testing.T, server *proctest.Process, words string) {
	t.Helper()
	if stdout := server.End(syscall.SIGTERM); !strings.Contains(stdout, words) {
		t.Errorf("the server said\n%s\nwant %q", stdout, words)
	}
}

var (
	selector = regexp.MustCompile(`([a-z_]+)\{`)
	rate     = regexp.MustCompile(`rate\([a-z_]+\{[^}]*\}\[15s\]\)`)
)

// checkDashboard looks up the metrics of all queries among those that there are.
func checkDashboard(t *testing.T, names []string) {
	t.Helper()
	asked := make(map[string]bool)
	for _, panel := range readDashboard(t).Panels {
		if len(panel.Targets) == 0 {
			t.Errorf("panel %q asks nothing", panel.Title)
		}
		for _, target := range panel.Targets {
			found := selector.FindAllStringSubmatch(target.Expr, -1)
			if found == nil {
				t.Errorf("panel %q: no metric in %q", panel.Title, target.Expr)
			}
			for _, match := range found {
				asked[match[1]] = true
				if !slices.Contains(names, match[1]) {
					t.Errorf("panel %q asks for %s, which there is not", panel.Title, match[1])
				}
			}
			if strings.Contains(target.Expr, "rate(") && !rate.MatchString(target.Expr) {
				t.Errorf("panel %q: a rate over something else than 15 s: %q", panel.Title, target.Expr)
			}
		}
	}
	for _, name := range []string{"client_connected", "req_recv_total", "rsp_send_total"} {
		if !asked[name] {
			t.Errorf("no panel shows %s", name)
		}
	}
}
