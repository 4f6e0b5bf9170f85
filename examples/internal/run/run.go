// Package run is what the examples have around what they show: the flag -listen, the line that says where they listen, and
// signals. SIGTERM and ^C end a program gently, a second one at once. SIGUSR1, where there is such a signal, collects garbage and
// gives memory back to the system.
package run

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"net"
	"os"
	"os/signal"
	"path/filepath"
	"syscall"
	"time"

	"github.com/sluice-push/sluice/transport"
)

// grace is how long a program that ends waits for its peers.
const grace = 10 * time.Second

// App is a server that runs until a signal ends it. Its methods are for the goroutine that called Start.
type App struct {
	Listener net.Listener // belongs to whoever serves it

	stop <-chan struct{}
	over chan struct{} // closed when what AtEnd was given has returned; nil if it was given nothing
}

// Start parses the flags, to which it adds -listen with a default, listens, and says where. Flags of a program's own are defined
// before. When that fails it ends the program with status 1, or 2 for flags that are wrong.
func Start(address string) *App {
	at := flag.String("listen", address, "`address` to listen on; port 0 is one that is free")
	Parse()
	app := New()
	ln, err := transport.Listen(context.Background(), "tcp", *at, nil)
	if err != nil {
		Fail(err)
	}
	Say("listening on %v", ln.Addr())
	app.Listener = ln
	return app
}

// New is Start for programs that parse their flags, and listen, themselves. It has no Listener.
func New() *App { return &App{stop: Signals().Done()} }

// Parse parses the flags, and refuses what is not one.
func Parse() {
	flag.Parse()
	if flag.NArg() > 0 {
		fmt.Fprintf(flag.CommandLine.Output(), "%s: what is %q?\n", name(), flag.Arg(0))
		flag.Usage()
		os.Exit(2)
	}
}

// Signals returns a context that is done when the program is asked to end. By then signals do again what they do without it, so
// that the next one ends the program. It is for programs that do not Start, and called once.
func Signals() context.Context {
	asked, restore := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	ctx, cancel := context.WithCancel(context.Background())
	context.AfterFunc(asked, func() {
		restore()
		cancel()
	})
	collectOnSignal(ctx.Done())
	return ctx
}

// AtEnd has shutdown called when the program is asked to end: Shutdown of a server, with whatever else has to end. Its context
// gives it ten seconds. It is called once, before Exit.
func (a *App) AtEnd(shutdown func(context.Context) error) {
	a.over = make(chan struct{})
	go func() {
		defer close(a.over)
		<-a.stop
		ctx, cancel := context.WithTimeout(context.Background(), grace)
		defer cancel()
		if err := shutdown(ctx); err != nil {
			Say("some peers were disconnected: %v", err)
		}
	}()
}

// Exit ends the program, given what Serve has returned: with status 0 when the server was closed, after what AtEnd was given has
// returned; otherwise with status 1.
func (a *App) Exit(err error) {
	if !errors.Is(err, net.ErrClosed) {
		Fail(err)
	}
	if a.over != nil {
		<-a.over
	}
	Say("ended")
	os.Exit(0)
}

// Say prints a line, with the name of the program before it.
func Say(format string, args ...any) { fmt.Printf(name()+": "+format+"\n", args...) }

// Fail says what is wrong, on standard error, and ends the program with status 1.
func Fail(err error) {
	fmt.Fprintf(os.Stderr, "%s: %v\n", name(), err)
	os.Exit(1)
}

// name is the program's.
func name() string { return filepath.Base(os.Args[0]) }
