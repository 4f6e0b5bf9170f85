// Command readme runs the code blocks of a Markdown file in a clean clone of the repository. So the file stays correct:
//
//	go run ./tools/readme README.md
//
// The language of a block decides what happens with it:
//
//   - sh runs with bash -euo pipefail in the root of the clone. With the attribute background it is started, left running, and ended by
//     SIGTERM after the last block; until="TEXT" waits for a line of its output that contains TEXT.
//   - go must be Go. A complete program (package main) is built and vetted inside the clone's module, a fragment is only parsed.
//   - js, and the inline scripts of html, must be JavaScript modules without syntax errors (node --check).
//   - yaml with the attribute check must be a configuration that "sluice config check" accepts.
//   - text is printed output, and not run. A block of any other language must have the attribute notrun, which any block may have, or
//     file=NAME, which writes the block to that file of the clone.
//
// The clone holds the committed files, without the changes of the working tree, because that is what a reader gets.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"strings"
	"syscall"
	"time"
)

func main() {
	timeout := flag.Duration("timeout", 10*time.Minute, "how long the whole file may take")
	flag.Usage = func() {
		_, _ = fmt.Fprintln(flag.CommandLine.Output(), "usage: readme [-timeout 10m] FILE.md")
		flag.PrintDefaults()
	}
	flag.Parse()
	if flag.NArg() != 1 {
		flag.Usage()
		os.Exit(2)
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	ctx, cancel := context.WithTimeout(ctx, *timeout)
	err := run(ctx, flag.Arg(0), os.Stdout)
	cancel()
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, "readme:", err)
		os.Exit(1)
	}
}

// errFailed is the error of run if a block failed; the log says which.
var errFailed = errors.New("not every block passed")

// run runs the blocks of the file. It writes one line for each block to log, with the output of failed blocks.
func run(ctx context.Context, file string, log io.Writer) error {
	text, err := os.ReadFile(file)
	if err != nil {
		return err
	}
	blocks, err := parse(string(text))
	if err != nil {
		return fmt.Errorf("%s:%w", file, err)
	}
	parent, err := os.MkdirTemp("", "readme-")
	if err != nil {
		return err
	}
	defer func() { _ = os.RemoveAll(parent) }()
	dir := filepath.Join(parent, "clone")
	if err := clone(ctx, filepath.Dir(file), dir); err != nil {
		return err
	}
	r := &runner{dir: dir, scratch: parent, node: "node"}
	return runAll(ctx, r, filepath.Base(file), blocks, log)
}

// clone clones the repository that contains folder.
func clone(ctx context.Context, folder, dir string) error {
	top, err := exec.CommandContext(ctx, "git", "-C", folder, "rev-parse", "--show-toplevel").Output()
	if err != nil {
		return fmt.Errorf("find the repository: %w", err)
	}
	out, err := exec.CommandContext(ctx, "git", "clone", "--quiet", strings.TrimSpace(string(top)), dir).CombinedOutput()
	if err != nil {
		return fmt.Errorf("clone the repository: %w: %s", err, out)
	}
	return nil
}

// runAll runs the blocks in order. After a failure it continues with the next block.
func runAll(ctx context.Context, r *runner, name string, blocks []block, log io.Writer) error {
	var passed, failed, ignored int
	note := func(b block, verdict string, took time.Duration, err error) {
		_, _ = fmt.Fprintf(log, "%-7s %s:%d %s (%.1f s)\n", verdict, name, b.line, b.lang, took.Seconds())
		if err != nil {
			_, _ = fmt.Fprintf(log, "        %s\n", strings.ReplaceAll(strings.TrimSpace(err.Error()), "\n", "\n        "))
		}
	}
	for _, b := range blocks {
		begin := time.Now()
		ran, err := r.run(ctx, b)
		switch {
		case err != nil:
			failed++
			note(b, "FAIL", time.Since(begin), err)
		case ran:
			passed++
			note(b, "PASS", time.Since(begin), nil)
		default:
			ignored++
			note(b, "not run", time.Since(begin), nil)
		}
	}
	for _, p := range r.background {
		if err := p.end(); err != nil {
			passed--
			failed++
			note(p.block, "FAIL", 0, err)
		}
	}
	_, _ = fmt.Fprintf(log, "%s: %d passed, %d failed, %d not run\n", name, passed, failed, ignored)
	if failed > 0 {
		return errFailed
	}
	return nil
}
