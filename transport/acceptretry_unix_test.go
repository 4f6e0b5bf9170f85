//go:build unix

package transport_test

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/sluice-push/sluice/transport"
)

// starvingChild is the environment variable of the process that runs out of descriptors. Its value is the mode, such as "conn tcp" or
// "descriptor unix".
const starvingChild = "SLUICE_TEST_STARVE"

// starve is the main function of the process that runs out of descriptors. It echoes a line on each connection. Commands on its standard input
// make it take all descriptors, give them back, or print its counts.
func starve() {
	check := func(err error) {
		if err != nil {
			fmt.Println("failed:", err)
			os.Exit(1)
		}
	}
	how, network, _ := strings.Cut(os.Getenv(starvingChild), " ")
	address := "127.0.0.1:0"
	if network == "unix" {
		address = os.Getenv("SLUICE_TEST_SOCKET")
	}
	var log lockedBuffer
	l, err := transport.Listen(context.Background(), network, address, &transport.Options{Logger: slog.New(slog.NewTextHandler(&log, nil))})
	check(err)
	accept := func() (net.Conn, error) { return acceptEither(l, how == "descriptor") }
	if how == "loop" {
		accept, err = acceptAsLoop(l)
		check(err)
	}
	go func() {
		for {
			conn, err := accept()
			check(err)
			line, _ := bufio.NewReader(conn).ReadString('\n')
			_, _ = conn.Write([]byte(line))
			_ = conn.Close()
		}
	}()
	check(syscall.Setrlimit(syscall.RLIMIT_NOFILE, &syscall.Rlimit{Cur: 64, Max: 64}))
	fmt.Println(l.Addr())

	var taken []int
	for in := bufio.NewScanner(os.Stdin); in.Scan(); {
		switch in.Text() {
		case "take":
			for {
				fd, err := syscall.Open("/dev/null", syscall.O_RDONLY|syscall.O_CLOEXEC, 0)
				if err != nil {
					fmt.Println("taken:", err)
					break
				}
				taken = append(taken, fd)
			}
		case "give":
			for _, fd := range taken {
				_ = syscall.Close(fd)
			}
			taken = nil
			fmt.Println("given")
		case "tell":
			s := l.Stats()
			fmt.Println(s.Accepted, s.Shed, s.Pauses, s.Exhausted <= 2*s.Shed+2, log.count("WARN"))
		}
	}
}

// acceptAsLoop returns a function that accepts with an acceptor, if the system supports acceptors.
var acceptAsLoop func(l *transport.Listener) (func() (net.Conn, error), error)

// acceptEither accepts a connection, as a net.Conn or as a descriptor.
func acceptEither(l *transport.Listener, descriptor bool) (net.Conn, error) {
	if !descriptor {
		return l.Accept()
	}
	d, err := l.AcceptDescriptor()
	if err != nil {
		return nil, err
	}
	defer d.Close()
	return transport.Attach(d)
}

// starving is such a process, as its parent sees it.
type starving struct {
	t                *testing.T
	in               io.WriteCloser
	lines            *bufio.Scanner
	network, address string
}

// startStarving starts the process. The end of the test kills it and waits for it.
func startStarving(t *testing.T, kind string) *starving {
	t.Helper()
	exe, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
	child := exec.CommandContext(ctx, exe)
	child.Env = append(os.Environ(), starvingChild+"="+kind, "SLUICE_TEST_SOCKET="+socketPath(t), "GORACE=atexit_sleep_ms=0")
	child.Stderr = os.Stderr
	in, err := child.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, err := child.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := child.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = in.Close()
		if err := child.Wait(); err != nil {
			t.Error(err)
		}
		cancel()
	})
	_, network, _ := strings.Cut(kind, " ")
	s := &starving{t: t, in: in, lines: bufio.NewScanner(out), network: network}
	s.address = s.hear()
	return s
}

// hear returns the next line that the process prints.
func (s *starving) hear() string {
	s.t.Helper()
	if !s.lines.Scan() {
		s.t.Fatal("the child is silent", s.lines.Err())
	}
	return s.lines.Text()
}

// tell sends the process a command and returns its answer.
func (s *starving) tell(line string) string {
	s.t.Helper()
	if _, err := io.WriteString(s.in, line+"\n"); err != nil {
		s.t.Fatal(err)
	}
	return s.hear()
}

// echo connects and returns the echo, or the empty string if the connection was closed.
func (s *starving) echo() string {
	s.t.Helper()
	conn, err := net.Dial(s.network, s.address)
	if err != nil {
		s.t.Fatal(err)
	}
	defer conn.Close()
	_ = conn.SetDeadline(time.Now().Add(10 * time.Second))
	_, _ = conn.Write([]byte("hello\n"))
	answer, err := io.ReadAll(conn)
	if errors.Is(err, os.ErrDeadlineExceeded) {
		s.t.Fatal("left hanging")
	}
	return string(answer)
}

// A process without descriptors closes new connections: it leaves no client hanging, and does not spin. It serves again as soon as it has
// descriptors.
func TestExhausted(t *testing.T) {
	kinds := []string{"conn tcp", "conn unix"}
	if wrap(t, "tcp", "127.0.0.1:0", nil).Plain() {
		kinds = append(kinds, "descriptor tcp", "descriptor unix")
	}
	if acceptAsLoop != nil {
		kinds = append(kinds, "loop tcp")
	}
	for _, kind := range kinds {
		t.Run(kind, func(t *testing.T) {
			s := startStarving(t, kind)
			const rounds, each = 3, 4
			shed := 0
			// served expects an echo. The listener may have found no descriptor just before some became free, and then closes one connection
			// more.
			served := func() {
				t.Helper()
				got := s.echo()
				if got == "" && shed > 0 {
					shed++
					got = s.echo()
				}
				if got != "hello\n" {
					t.Fatalf("with descriptors: %q", got)
				}
			}
			for range rounds {
				served()
				if got := s.tell("take"); !strings.Contains(got, "too many open files") {
					t.Fatal(got)
				}
				for range each {
					if got := s.echo(); got != "" {
						t.Errorf("without descriptors: %q", got)
					}
					shed++
				}
				s.tell("give")
			}
			served()
			if got, want := s.tell("tell"), fmt.Sprint(rounds+1, shed, 0, true, 1); got != want {
				t.Errorf("accepted, shed, pauses, exhausted few, warnings: %s, not %s", got, want)
			}
		})
	}
}
