// Command planted runs mutation tests: it plants bugs one by one in a copy of the repository, and each time the test must fail.
//
//	go run ./tools/planted -flags '-laws.duration 30s' push/laws
//
// The argument is the folder of a package. A bug is a file NAME.patch in its testdata/planted: some lines that describe the bug, an empty line,
// and a unified diff. The copy holds the files that git tracks or does not ignore, with the changes of the working tree. A bug is found if the
// test fails and prints a line that contains "again: " and a command that repeats the run. It is an error if the test fails without any bug, if
// it passes with a bug, or if a patch does not apply or does not compile. The output is a table in Markdown.
package main

import (
	"context"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"strings"
	"syscall"
	"time"
)

func main() {
	var g runner
	flag.DurationVar(&g.timeout, "timeout", 5*time.Minute, "how long the test may take each time")
	flag.StringVar(&g.only, "only", "", "the name of the one bug to plant; empty: all")
	args := flag.String("flags", "", "more arguments for go test, behind the package")
	flag.Usage = func() {
		_, _ = fmt.Fprintln(flag.CommandLine.Output(), "usage: planted [-timeout 5m] [-only NAME] [-flags ARGS] FOLDER")
		flag.PrintDefaults()
	}
	flag.Parse()
	if flag.NArg() != 1 {
		flag.Usage()
		os.Exit(2)
	}
	g.folder, g.args, g.out = flag.Arg(0), strings.Fields(*args), os.Stdout
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	err := g.run(ctx)
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, "planted:", err)
		os.Exit(1)
	}
}
