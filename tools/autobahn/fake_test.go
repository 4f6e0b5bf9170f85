//go:build unix

package main

import (
	"context"
	"encoding/json"
	"fmt"
	"net"
	"net/http"
	"os"
	"os/signal"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/sluice-push/sluice/websocket"
)

// patience is the time limit of every wait in these tests.
const patience = time.Minute

// TestMain also plays the programs that a suite starts: the name it is called by selects one.
func TestMain(m *testing.M) {
	programs := map[string]func() error{
		"python": fakePython, "websocket-echo": fakeEcho, "websocket-silent": fakeSilent,
		"websocket-absent": func() error { return nil },
	}
	program := programs[filepath.Base(os.Args[0])]
	if program == nil {
		goleak.VerifyTestMain(m)
		return
	}
	time.AfterFunc(patience, func() { os.Exit(3) })
	if err := program(); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	os.Exit(0)
}

// cases returns the cases of the fake testsuite: 200 of chapter 1, one of 9, 28 in each section of 12.1 to 13.7, and 8 of 12.5.
func cases() []string {
	var ids []string
	for i := range 200 {
		ids = append(ids, fmt.Sprintf("1.%d", i+1))
	}
	ids = append(ids, "9.1.1")
	for _, section := range []string{"12.1", "12.2", "12.3", "12.4", "13.1", "13.2", "13.3", "13.4", "13.5", "13.6", "13.7"} {
		for i := range 28 {
			ids = append(ids, fmt.Sprintf("%s.%d", section, i+1))
		}
	}
	return append(ids, "12.5.1", "12.5.2", "12.5.3", "12.5.4", "12.5.5", "12.5.6", "12.5.7", "12.5.8")
}

// Cases with another outcome than a plain pass.
const (
	fails    = "1.13"
	lateOnce = "1.14" // the testsuite gave up waiting, but not when the case runs alone
	lateOft  = "1.15"
	unclean  = "1.16" // correct except for the closing handshake
	lost     = "1.17" // has no result
	lenient  = "1.18"
)

// fakePython is called with a program that lists the cases, or with one that runs wstest and its arguments: -m MODE -s SPEC -u 0.
func fakePython() error {
	if len(os.Args) > 3 {
		return fakeWstest(os.Args[4], os.Args[6])
	}
	fmt.Println(strings.Join(cases(), "\n"))
	return nil
}

// fakeEcho is the server under test. It shuts down when it is told to.
func fakeEcho() error {
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return err
	}
	stop, cancel := signal.NotifyContext(context.Background(), syscall.SIGTERM)
	defer cancel()
	srv := websocket.NewServer(&websocket.Handler{Message: func(c *websocket.Conn, m websocket.Message) { _ = c.Send(m.Op, m.Data) }}, nil)
	context.AfterFunc(stop, func() { _ = srv.Close() })
	fmt.Printf("websocket-echo: %s%v\n", serverReady, ln.Addr())
	_ = srv.Serve(ln)
	return nil
}

// fakeSilent never reports that it listens, and has to be told to end.
func fakeSilent() error {
	stop, cancel := signal.NotifyContext(context.Background(), syscall.SIGTERM)
	defer cancel()
	<-stop.Done()
	return fmt.Errorf("ended without an orderly end")
}

// fakeWstest runs the cases of a specification.
func fakeWstest(mode, file string) error {
	text, err := os.ReadFile(file)
	if err != nil {
		return err
	}
	var what spec
	if err := json.Unmarshal(text, &what); err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	f := &fake{spec: what, results: make(map[string]bool)}
	if mode == "fuzzingclient" {
		return f.testServer(ctx)
	}
	return f.testClient(ctx)
}

// fake is a testsuite whose cases are all the same: a message must come back.
type fake struct {
	spec
	mu      sync.Mutex
	results map[string]bool // whether the message came back
}

// testServer runs the cases as a client.
func (f *fake) testServer(ctx context.Context) error {
	fmt.Println(clientReady + "…")
	for _, id := range f.Cases {
		c, err := websocket.Dial(ctx, f.Servers[0].URL, nil)
		if err != nil {
			return err
		}
		f.test(ctx, id, c)
	}
	return f.report(f.Servers[0].Agent)
}

// testClient runs the cases as a server until it is killed.
func (f *fake) testClient(ctx context.Context) error {
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return err
	}
	srv := websocket.NewServer(&websocket.Handler{Pull: true}, nil)
	handle := func(path string, h func(r *http.Request, c *websocket.Conn)) {
		http.HandleFunc(path, func(w http.ResponseWriter, r *http.Request) {
			if c, err := srv.Upgrade(w, r); err == nil {
				h(r, c)
			}
		})
	}
	id := func(r *http.Request) string {
		var n int
		_, _ = fmt.Sscan(r.FormValue("case"), &n)
		return f.Cases[n-1]
	}
	answer := func(c *websocket.Conn, v any) {
		text, _ := json.Marshal(v)
		_ = c.Send(websocket.OpText, text)
		_ = c.Close(websocket.CloseNormal, "")
	}
	handle("/getCaseCount", func(_ *http.Request, c *websocket.Conn) { answer(c, len(f.Cases)) })
	handle("/runCase", func(r *http.Request, c *websocket.Conn) { f.test(ctx, id(r), c) })
	handle("/getCaseStatus", func(r *http.Request, c *websocket.Conn) {
		f.mu.Lock()
		came := f.results[id(r)]
		f.mu.Unlock()
		answer(c, map[string]string{"behavior": fmt.Sprint(came)})
	})
	handle("/updateReports", func(r *http.Request, c *websocket.Conn) {
		if err := f.report(r.FormValue("agent")); err != nil {
			fmt.Println(err)
		}
		_ = c.Close(websocket.CloseNormal, "")
	})
	fmt.Printf("%s%v\n", serverReady, ln.Addr())
	return http.Serve(ln, nil)
}

// test runs one case.
func (f *fake) test(ctx context.Context, id string, c *websocket.Conn) {
	_ = c.SendText(id)
	m, err := c.Receive(ctx)
	f.mu.Lock()
	f.results[id] = err == nil && string(m.Data) == id
	f.mu.Unlock()
	_ = c.Close(websocket.CloseNormal, "")
	_, _ = c.Receive(ctx) // until the peer has ended the connection
}

// report writes the files that wstest writes.
func (f *fake) report(agent string) error {
	index := make(map[string]entry)
	for _, id := range f.Cases {
		e := entry{Behavior: ok, BehaviorClose: ok, ReportFile: agent + "_case_" + id + ".json"}
		p := page{Result: "what came of it", ResultClose: "how it was closed", Wirelog: [][]any{{"TF", 1}}, Duration: 1250}
		switch {
		case id == lost:
			continue
		case !f.results[id], id == fails:
			code := 1002
			e.Behavior, p.RemoteCloseCode, p.RemoteCloseReason = "FAILED", &code, "no"
		case id == lateOnce && filepath.Base(f.Outdir) != "again":
			e.Behavior, e.BehaviorClose = "FAILED", "FAILED"
			p.Wirelog = append(p.Wirelog, []any{"KL", 1}, []any{"KLE"})
		case id == lateOft:
			e.BehaviorClose, p.DropTimeout, p.WasNotClean = "UNCLEAN", true, "nobody closed it"
		case id == unclean:
			e.BehaviorClose = "WRONG CODE"
		case id == lenient:
			e.Behavior, e.BehaviorClose = nonStrict, informational
		}
		index[id] = e
		if err := f.write(e.ReportFile, p); err != nil {
			return err
		}
	}
	return f.write("index.json", map[string]map[string]entry{agent: index})
}

func (f *fake) write(name string, v any) error {
	text, err := json.Marshal(v)
	if err != nil {
		return err
	}
	return os.WriteFile(filepath.Join(f.Outdir, name), text, 0o644)
}

// programs makes an environment of links to this program. It returns a suite with that environment and one of the echo servers above.
func programs(t *testing.T, echo string) *suite {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	if err := os.Mkdir(filepath.Join(dir, "bin"), 0o755); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"bin/python", echo} {
		if err := os.Symlink(self, filepath.Join(dir, name)); err != nil {
			t.Fatal(err)
		}
	}
	return &suite{env: dir, reports: filepath.Join(dir, "reports"), echo: filepath.Join(dir, echo), jobs: 2}
}
