// Command sluice pushes live data to very many clients: it runs nodes of the platform and talks to them.
//
//	sluice --help
package main

import (
	"fmt"
	"io"
	"os"
	"strings"

	"github.com/alecthomas/kong"
)

// cli holds the commands. Each is a struct with its flags and a Run method, in a file of its own.
type cli struct {
	Serve   serveCmd   `cmd:"" help:"Run a node."`
	Pub     pubCmd     `cmd:"" help:"Publish to a channel."`
	Sub     subCmd     `cmd:"" help:"Print what is published to channels."`
	Replay  replayCmd  `cmd:"" help:"Publish recorded traffic, at its pace or faster."`
	Bench   benchCmd   `cmd:"" help:"Put load on a server, and compare what came of it."`
	Config  configCmd  `cmd:"" help:"Check, print and prepare the configuration."`
	Version versionCmd `cmd:"" help:"Print the version."`

	BenchWorker benchWorkerCmd `cmd:"" hidden:"" help:"Hold clients of a run of load, which starts this command itself."`
}

// environment is what a command sees of the world; it is passed to the Run methods, so that tests can bring their own.
type environment struct {
	stdin          io.Reader
	stdout, stderr io.Writer
	variables      []string // as os.Environ returns them
}

// variable returns the value of a variable of the environment, the last one if there are several; empty when it is not set.
func (e *environment) variable(name string) (value string) {
	for _, v := range e.variables {
		if of, text, _ := strings.Cut(v, "="); of == name {
			value = text
		}
	}
	return value
}

func main() {
	env := &environment{stdin: os.Stdin, stdout: os.Stdout, stderr: os.Stderr, variables: os.Environ()}
	os.Exit(run(os.Args[1:], env))
}

// The exit codes.
const (
	exitOK     = 0
	exitFailed = 1
	exitUsage  = 2
)

// run runs one command and returns the exit code of the process.
func run(args []string, env *environment) int {
	code, done := exitOK, false
	parser, err := kong.New(
		&cli{},
		kong.Name("sluice"),
		kong.Description("Pushes live data to very many clients."),
		kong.Writers(env.stdout, env.stderr),
		kong.Help(printHelp),
		kong.Exit(func(c int) { code, done = c, true }), // --help has been printed
		kong.Bind(env),
	)
	if err != nil {
		panic(err) // the tags of cli are wrong
	}
	ctx, err := parser.Parse(args)
	switch {
	case done:
		return code
	case err != nil:
		_, _ = fmt.Fprintf(env.stderr, "sluice: %v; see sluice --help\n", err)
		return exitUsage
	}
	if err := ctx.Run(); err != nil {
		_, _ = fmt.Fprintf(env.stderr, "sluice: %v\n", err)
		return exitFailed
	}
	return exitOK
}

// printHelp prints the help of a command. Of one that stands for another when it is given alone, it is that of the other, which has the flags.
func printHelp(o kong.HelpOptions, ctx *kong.Context) error {
	if node := ctx.Selected(); node != nil && node.DefaultCmd != nil {
		ctx.Path = append(ctx.Path, &kong.Path{Command: node.DefaultCmd})
	}
	return kong.DefaultHelpPrinter(o, ctx)
}
