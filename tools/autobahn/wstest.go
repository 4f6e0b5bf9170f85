package main

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"time"
)

// spec is the specification file for wstest.
type spec struct {
	Outdir       string   `json:"outdir"`
	URL          string   `json:"url,omitempty"`     // address of wstest as a server
	Servers      []target `json:"servers,omitempty"` // the servers that wstest tests as a client
	Cases        []string `json:"cases"`
	ExcludeCases []string `json:"exclude-cases"`
	ExcludeAgent struct{} `json:"exclude-agent-cases"`
}

type target struct {
	Agent string `json:"agent"`
	URL   string `json:"url"`
}

// Texts that programs print when they are ready. A server prints its address after it.
const (
	serverReady = "listening on "
	clientReady = "Ok, will run "
)

// launcher makes wstest, as a server, listen on the loopback interface only, on a port that the kernel chooses, and print that port. By itself
// wstest listens on all interfaces, on the port of its URL. That port may be taken by then, and wstest expects it in the field Host.
const launcher = `import sys
from autobahntestsuite import wstest
from twisted.internet import reactor
listen = reactor.listenTCP
def listen_locally(port, factory, backlog=50, interface=""):
    listener = listen(0, factory, backlog, "127.0.0.1")
    factory.port = factory.externalPort = listener.getHost().port
    print("listening on 127.0.0.1:%d" % factory.port)
    return listener
reactor.listenTCP = listen_locally
sys.argv[0] = "wstest"
wstest.run()
`

// python returns the path of the environment's interpreter.
func (s *suite) python() string { return filepath.Join(s.env, "bin", "python") }

// wstest returns the command that runs the testsuite with a specification.
func (s *suite) wstest(ctx context.Context, mode string, j job, what spec) (*exec.Cmd, error) {
	what.Outdir, what.Cases, what.ExcludeCases = s.folder(j), j.cases, []string{}
	text, err := json.MarshalIndent(what, "", "\t")
	if err != nil {
		return nil, err
	}
	file := filepath.Join(s.folder(j), "spec.json")
	if err := os.WriteFile(file, text, 0o644); err != nil {
		return nil, err
	}
	cmd := exec.CommandContext(ctx, s.python(), "-c", launcher, "-m", mode, "-s", file, "-u", "0")
	cmd.Env = append(os.Environ(), "PYTHONUNBUFFERED=1")
	return cmd, nil
}

// runServer starts our server and runs wstest against it.
func (s *suite) runServer(ctx context.Context, j job) error {
	args := append([]string{"-listen", "127.0.0.1:0"}, j.agent.args...)
	server, err := start(exec.CommandContext(ctx, s.echo, args...), filepath.Join(s.folder(j), "server.log"), serverReady)
	if err != nil {
		return err
	}
	address, err := server.ready(ctx)
	if err == nil {
		err = s.fuzz(ctx, j, "ws://"+address)
	}
	_ = server.cmd.Process.Signal(syscall.SIGTERM)
	if ended := server.wait(); err == nil {
		err = ended
	}
	return err
}

// fuzz runs wstest as a client.
func (s *suite) fuzz(ctx context.Context, j job, url string) error {
	cmd, err := s.wstest(ctx, "fuzzingclient", j, spec{Servers: []target{{Agent: j.agent.name, URL: url}}})
	if err != nil {
		return err
	}
	p, err := start(cmd, filepath.Join(s.folder(j), "wstest.log"), clientReady)
	if err != nil {
		return err
	}
	<-p.done
	return p.wait()
}

// runClient starts wstest as a server and runs our client against it.
func (s *suite) runClient(ctx context.Context, j job) error {
	cmd, err := s.wstest(ctx, "fuzzingserver", j, spec{URL: "ws://127.0.0.1:1"})
	if err != nil {
		return err
	}
	p, err := start(cmd, filepath.Join(s.folder(j), "wstest.log"), serverReady)
	if err != nil {
		return err
	}
	address, err := p.ready(ctx)
	if err == nil {
		err = client{address: address, agent: j.agent.name}.run(ctx, j.cases)
	}
	_ = cmd.Process.Signal(syscall.SIGTERM)
	_ = p.wait() // the error does not matter: if the report is missing, reading it fails
	return err
}

// process is a child process that writes its output to a file.
type process struct {
	cmd  *exec.Cmd
	out  *output
	done chan struct{} // closed when the process has ended and err is set
	err  error
}

const (
	// startTime is the time limit for a program to become ready.
	startTime = time.Minute
	// endTime is the time limit for a program to end after it was told to.
	endTime = 30 * time.Second
)

// start starts a program. The program is ready when it prints a line that contains marker.
func start(cmd *exec.Cmd, logfile, marker string) (*process, error) {
	file, err := os.Create(logfile)
	if err != nil {
		return nil, err
	}
	p := &process{cmd: cmd, out: &output{file: file, marker: marker, found: make(chan string, 1)}, done: make(chan struct{})}
	cmd.Stdout, cmd.Stderr = p.out, p.out
	if err := cmd.Start(); err != nil {
		_ = file.Close()
		return nil, err
	}
	go func() {
		p.err = cmd.Wait()
		_ = file.Close()
		close(p.done)
	}()
	return p, nil
}

// ready waits until the program is ready, and returns the rest of the line after the marker.
func (p *process) ready(ctx context.Context) (string, error) {
	timer := time.NewTimer(startTime)
	defer timer.Stop()
	select {
	case rest := <-p.out.found:
		return rest, nil
	case <-p.done:
		return "", fmt.Errorf("%s ended before it was ready: see %s", filepath.Base(p.cmd.Path), p.out.file.Name())
	case <-timer.C:
		return "", fmt.Errorf("%s is not ready after %v: see %s", filepath.Base(p.cmd.Path), startTime, p.out.file.Name())
	case <-ctx.Done():
		return "", ctx.Err()
	}
}

// wait waits until the program has ended. After endTime it kills the program and returns an error.
func (p *process) wait() error {
	timer := time.NewTimer(endTime)
	defer timer.Stop()
	select {
	case <-p.done:
	case <-timer.C:
		_ = p.cmd.Process.Kill()
		<-p.done
		return fmt.Errorf("%s did not end: see %s", filepath.Base(p.cmd.Path), p.out.file.Name())
	}
	if p.err != nil {
		return fmt.Errorf("%s: %w: see %s", filepath.Base(p.cmd.Path), p.err, p.out.file.Name())
	}
	return nil
}

// output receives the output of a program. Only the goroutine that copies the output uses it.
type output struct {
	file   *os.File
	marker string // the text to look for; empty once it is found
	line   []byte // the incomplete last line
	found  chan string
}

// Write implements io.Writer.
func (o *output) Write(b []byte) (int, error) {
	for _, c := range b {
		if o.marker == "" {
			break
		}
		if c != '\n' {
			o.line = append(o.line, c)
			continue
		}
		if _, rest, ok := strings.Cut(string(o.line), o.marker); ok {
			o.found <- rest
			o.marker = ""
		}
		o.line = o.line[:0]
	}
	return o.file.Write(b)
}
