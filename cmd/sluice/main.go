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

	"github.com/sluice-push/sluice/cmd/sluice/internal/clientconn"
	"github.com/sluice-push/sluice/cmd/sluice/internal/clusterinfo"
	"github.com/sluice-push/sluice/cmd/sluice/internal/drain"
	"github.com/sluice-push/sluice/cmd/sluice/internal/explain"
)

// cli holds the commands. Each is a struct with its flags and a Run method, in a file of its own.
type cli struct {
	Serve   serveCmd   `cmd:"" help:"Run a node."`
	Pub     pubCmd     `cmd:"" help:"Publish to a channel."`
	Sub     subCmd     `cmd:"" help:"Subscribe to channels and print their publications."`
	Replay  replayCmd  `cmd:"" help:"Publish recorded traffic at its recorded speed, or faster."`
	Bench   benchCmd   `cmd:"" help:"Run a load test against a server, and compare results."`
	Drain   drainCmd   `cmd:"" help:"Drain a node: its clients connect to other nodes, and the node ends."`
	Info    infoCmd    `cmd:"" help:"Print the nodes of a cluster, and which of them has which channels."`
	Config  configCmd  `cmd:"" help:"Check and explain the configuration, print the default one, and hash API keys."`
	Token   tokenCmd   `cmd:"" help:"Make and check the tokens of clients."`
	Version versionCmd `cmd:"" help:"Print the version."`

	BenchWorker benchWorkerCmd `cmd:"" hidden:"" help:"Run a share of the clients of a load test. sluice bench run starts this command itself."`
}

// drainCmd drains a node.
type drainCmd = drain.Command

// infoCmd prints what a node knows of its cluster.
type infoCmd = clusterinfo.Command

// environment holds the streams and variables of the process. The Run methods get it as an argument, so that tests can replace it.
type environment struct {
	stdin          io.Reader
	stdout, stderr io.Writer
	variables      []string // as os.Environ returns them
}

// variable returns the value of an environment variable, the last one if there are several, and "" if it is not set.
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
		kong.Description("Sluice pushes live data to very many clients."),
		kong.Writers(env.stdout, env.stderr),
		kong.Help(printHelp),
		kong.Exit(func(c int) { code, done = c, true }), // --help has printed the help
		kong.Bind(env),
		kong.BindTo(env.stdout, (*io.Writer)(nil)), // for commands of other packages
		kong.Bind(&explain.Process{Variables: env.variables, Inspect: inspectAny, Permissions: permissions}),
		kong.Vars{
			"transports": strings.Join(clientconn.Transports(), ", "),
			"protocols":  strings.Join(clientconn.Protocols(), ", "),
		},
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

// printHelp prints the help of a command. If the command has a default subcommand, printHelp prints the help of that, because the subcommand has
// the flags.
func printHelp(o kong.HelpOptions, ctx *kong.Context) error {
	if node := ctx.Selected(); node != nil && node.DefaultCmd != nil {
		ctx.Path = append(ctx.Path, &kong.Path{Command: node.DefaultCmd})
	}
	return kong.DefaultHelpPrinter(o, ctx)
}
