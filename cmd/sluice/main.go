// Command sluice pushes live data to very many clients: it runs nodes of the platform and talks to them.
//
//	sluice --help
package main

import (
	"fmt"
	"io"
	"os"

	"github.com/alecthomas/kong"
)

// cli holds the commands. Each is a struct with its flags and a Run method, in a file of its own.
type cli struct {
	Serve   serveCmd   `cmd:"" help:"Run a node."`
	Pub     pubCmd     `cmd:"" help:"Publish to a channel."`
	Sub     subCmd     `cmd:"" help:"Print what is published to channels."`
	Replay  replayCmd  `cmd:"" help:"Publish recorded traffic, at its pace or faster."`
	Config  configCmd  `cmd:"" help:"Check, print and prepare the configuration."`
	Version versionCmd `cmd:"" help:"Print the version."`
}

// environment is what a command sees of the world; it is passed to the Run methods, so that tests can bring their own.
type environment struct {
	stdin          io.Reader
	stdout, stderr io.Writer
	variables      []string // as os.Environ returns them
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
