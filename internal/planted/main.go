// Command planted shows that a test finds bugs: it plants them one by one in a copy of the repository, and wants the test to fail each
// time.
//
//	go run ./internal/planted -flags '-laws.duration 30s' push/laws
//
// The argument is the folder of a package. A bug is a file NAME.patch in its testdata/planted: some lines that say what is planted, an
// empty line, and a unified diff. The copy holds what git knows or would take, with the changes of the working tree. A bug is found when
// the test fails and prints a line that contains "again: " and how to run it again. It is an error when the test fails without any bug,
// when it does not fail with one, when a patch does not apply or what it makes does not compile. What is printed is a table in Markdown.
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
	var g garden
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
