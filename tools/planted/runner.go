package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"time"
)

// runner plants the bugs of one package and runs its test.
type runner struct {
	folder  string   // of the package under test, relative to the root of the repository, which is the current folder
	args    []string // additional arguments of go test
	only    string   // name of the only bug to plant; empty: all
	timeout time.Duration
	out     io.Writer

	copied string // path of the copy of the repository
}

// bug is a bug to plant.
type bug struct {
	name, says string
	patch      string // path of the file
}

// errMissed is the error of run if the test missed a bug; the table says which.
var errMissed = errors.New("not every planted bug was found")

// run plants the bugs one by one and prints the table.
func (g *runner) run(ctx context.Context) error {
	bugs, err := g.bugs()
	if err != nil {
		return err
	}
	if g.copied, err = os.MkdirTemp("", "planted-"); err != nil {
		return err
	}
	defer func() { _ = os.RemoveAll(g.copied) }()
	if err := copyTree(ctx, g.copied); err != nil {
		return fmt.Errorf("copy the repository: %w", err)
	}
	if out, failed := g.test(ctx); failed != nil {
		return fmt.Errorf("the test fails without any bug: %w\n%s", failed, tail(out))
	}
	_, _ = fmt.Fprintf(g.out, "| bug | what is planted | found by | after |\n|---|---|---|---|\n")
	missed := 0
	for _, b := range bugs {
		began := time.Now()
		found, err := g.plant(ctx, b)
		switch {
		case errors.Is(err, errMissed):
			found = "**not found**"
			missed++
		case err != nil:
			return fmt.Errorf("%s: %w", b.name, err)
		}
		_, _ = fmt.Fprintf(g.out, "| %s | %s | %s | %.0f s |\n", b.name, b.says, found, time.Since(began).Seconds())
	}
	if missed > 0 {
		return errMissed
	}
	return nil
}

// bugs reads the patches.
func (g *runner) bugs() ([]bug, error) {
	name := g.only
	if name == "" {
		name = "*"
	}
	files, err := filepath.Glob(filepath.Join(g.folder, "testdata", "planted", name+".patch"))
	if err != nil {
		return nil, err
	}
	var out []bug
	for _, f := range files {
		text, err := os.ReadFile(f)
		if err != nil {
			return nil, err
		}
		says, _, found := strings.Cut(string(text), "\n\n")
		if !found || strings.HasPrefix(says, "---") {
			return nil, fmt.Errorf("%s does not say what it plants: begin it with that, and an empty line", f)
		}
		path, err := filepath.Abs(f)
		if err != nil {
			return nil, err
		}
		name := strings.TrimSuffix(filepath.Base(f), ".patch")
		out = append(out, bug{name: name, says: strings.ReplaceAll(says, "\n", " "), patch: path})
	}
	if len(out) == 0 {
		return nil, fmt.Errorf("there is no bug to plant in %s/testdata/planted", g.folder)
	}
	return out, nil
}

// again matches the line of the test's output that says how to run it again.
var again = regexp.MustCompile(`again: (.*)`)

// plant plants one bug, runs the test, and removes the bug. It returns how to repeat the failing run, or errMissed if the test passed.
func (g *runner) plant(ctx context.Context, b bug) (string, error) {
	if err := g.apply(ctx, b.patch); err != nil {
		return "", fmt.Errorf("the patch does not apply any more: %w", err)
	}
	out, failed := g.test(ctx)
	if err := g.apply(ctx, b.patch, "--reverse"); err != nil {
		return "", fmt.Errorf("the patch cannot be taken out: %w", err)
	}
	said := again.FindSubmatch(out)
	switch {
	case failed == nil:
		return "", errMissed
	case ctx.Err() != nil:
		return "", ctx.Err()
	case said == nil:
		return "", fmt.Errorf("the test does not say how to run it again: it did not compile, or crashed: %w\n%s", failed, tail(out))
	}
	return "`" + string(said[1]) + "`", nil
}

func (g *runner) apply(ctx context.Context, patch string, options ...string) error {
	cmd := exec.CommandContext(ctx, "git", slices.Concat([]string{"apply", "-C1"}, options, []string{patch})...) //nolint:gosec // as asked for
	cmd.Dir = g.copied
	// The copy is not a repository. The variable keeps git from using a repository around it.
	cmd.Env = append(os.Environ(), "GIT_CEILING_DIRECTORIES="+filepath.Dir(g.copied))
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("%w: %s", err, bytes.TrimSpace(out))
	}
	return nil
}

// test runs the test in the copy.
func (g *runner) test(ctx context.Context) ([]byte, error) {
	args := []string{"test", "-count=1", "-timeout", g.timeout.String(), "./" + filepath.ToSlash(g.folder)}
	cmd := exec.CommandContext(ctx, "go", append(args, g.args...)...) //nolint:gosec // as asked for
	cmd.Dir = g.copied
	cmd.WaitDelay = time.Second
	return cmd.CombinedOutput()
}

// tail returns the end of the output.
func tail(out []byte) []byte { return out[max(0, len(out)-4000):] }

// copyTree copies all files that git tracks or does not ignore.
func copyTree(ctx context.Context, to string) error {
	list, err := exec.CommandContext(ctx, "git", "ls-files", "--cached", "--others", "--exclude-standard", "-z").Output()
	if err != nil {
		return fmt.Errorf("ask git for the files: %w", err)
	}
	for name := range strings.SplitSeq(strings.TrimRight(string(list), "\x00"), "\x00") {
		if err := copyFile(name, filepath.Join(to, name)); err != nil {
			return err
		}
	}
	return nil
}

func copyFile(from, to string) error {
	info, err := os.Lstat(from)
	if errors.Is(err, os.ErrNotExist) { // deleted in the working tree, but not in git's index
		return nil
	}
	if err != nil || !info.Mode().IsRegular() {
		return err
	}
	data, err := os.ReadFile(from) //nolint:gosec // git named it
	if err != nil {
		return err
	}
	if err := os.MkdirAll(filepath.Dir(to), 0o750); err != nil {
		return err
	}
	return os.WriteFile(to, data, info.Mode().Perm())
}
