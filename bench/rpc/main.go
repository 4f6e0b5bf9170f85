// Command rpc compares calls over package rpc with net/rpc, grpc-go, Apache Thrift's THeader, and with a loop in C that only echoes frames. Server and
// client are processes of their own. Callers make one call of 1 KiB at a time and check the answer. For each number of callers and of connections the
// servers take turns, round after round, so that all of them see the same machine.
//
//	go run ./rpc
//	go run ./rpc -parts echo -callers 100,1000 -conns 4 -servers sluice,grpc -rounds 3 -seconds 1
//
// Part echo is the calls. Clients of Thrift make one call at a time on a connection, so that its callers wait for a connection that is free; sluice-pool does
// the same with package rpc. Part beside is a method that takes 20 ms and is called by 100 callers, beside a fast one on the same connection: only the
// fast one is measured.
//
// Linux and a C compiler called cc are needed. The machine should have nothing else to do.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/sluice-push/sluice/bench/internal/program"
	"github.com/sluice-push/sluice/bench/internal/report"
)

func main() {
	program.Main("rpc", func(ctx context.Context, args []string, stdout io.Writer) error {
		return run(ctx, args, os.Stdin, stdout)
	})
}

// comparison says what is measured.
type comparison struct {
	rounds         int
	length         time.Duration // of each measurement
	size           int           // of an argument and a result, in bytes
	servers        []string
	callers, conns []int
	limit          *limit // nil until it is needed
	progress       io.Writer
}

// run is main, or the process of a server or of a client when the first argument is serve.
func run(ctx context.Context, args []string, stdin io.Reader, stdout io.Writer) error {
	if len(args) > 0 && args[0] == "serve" {
		return process(args[1:], stdin, stdout)
	}
	flags := flag.NewFlagSet("rpc", flag.ContinueOnError)
	c := &comparison{progress: os.Stderr}
	parts := flags.String("parts", "echo,beside", "what is measured")
	flags.IntVar(&c.rounds, "rounds", 5, "how often everything is measured")
	seconds := flags.Float64("seconds", 2, "for how long each time")
	flags.IntVar(&c.size, "size", 1024, "bytes of an argument and of a result, at most 60000")
	servers := flags.String("servers", strings.Join(serverNames(), ","), "which servers, in the order of the tables")
	callers := flags.String("callers", "1,100,1000,2000,5000", "how many calls are under way at a time")
	conns := flags.String("conns", "1,4,100", "over how many connections, where that is not more than callers")
	if err := flags.Parse(args); err != nil {
		return err
	}
	c.length, c.servers = time.Duration(*seconds*float64(time.Second)), strings.Split(*servers, ",")
	var err error
	if c.callers, err = numbers(*callers); err == nil {
		c.conns, err = numbers(*conns)
	}
	if err != nil {
		return err
	}
	if c.rounds < 1 || c.length <= 0 || c.size < 1 || c.size > 60_000 {
		return errors.New("-rounds and -seconds have to be above 0, and -size from 1 to 60000")
	}
	for _, name := range c.servers {
		if !slices.Contains(serverNames(), name) {
			return fmt.Errorf("there is no server %q, only %s", name, strings.Join(serverNames(), ", "))
		}
	}
	defer func() { c.limit.remove() }()
	_, _ = fmt.Fprintf(stdout, "%v\n", report.ThisMachine("go run ./rpc "+strings.Join(args, " "), []string{"google.golang.org/grpc", "github.com/apache/thrift"}))
	for part := range strings.SplitSeq(*parts, ",") {
		switch part {
		case "echo":
			err = c.echo(ctx, stdout)
		case "beside":
			err = c.beside(ctx, stdout)
		default:
			err = fmt.Errorf("there is no part %q, only echo and beside", part)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// numbers reads numbers above 0 with commas between them.
func numbers(text string) ([]int, error) {
	var all []int
	for word := range strings.SplitSeq(text, ",") {
		n, err := strconv.Atoi(word)
		if err != nil || n < 1 {
			return nil, fmt.Errorf("%q is no number above 0", word)
		}
		all = append(all, n)
	}
	return all, nil
}
