package main

import (
	"context"
	"fmt"
	"go/parser"
	"go/token"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
)

// runner runs blocks in a clone, one after the other.
type runner struct {
	dir        string // folder of the clone
	scratch    string // for files that are not part of the clone
	node       string // the command for node
	files      int    // number of files made in scratch or for programs
	background []*process
}

// run runs a block. If there was nothing to run, ran is false.
func (r *runner) run(ctx context.Context, b block) (ran bool, err error) {
	if err := ctx.Err(); err != nil {
		return true, fmt.Errorf("not started: %w", err)
	}
	if b.file != "" {
		if err := r.write(filepath.Join(r.dir, b.file), b.text); err != nil {
			return true, err
		}
	}
	switch {
	case b.notRun:
		return false, nil
	case b.check:
		return true, r.configuration(ctx, b.text)
	case b.background:
		p, err := start(ctx, r.shell(b.text), b)
		if err != nil {
			return true, err
		}
		r.background = append(r.background, p)
		return true, nil
	case b.lang == "sh":
		return true, command(ctx, r.shell(b.text))
	case b.lang == "go":
		return true, r.goBlock(ctx, b.text)
	case b.lang == "js":
		return true, r.script(ctx, b.text)
	case b.lang == "html":
		return true, r.page(ctx, b.text)
	}
	return b.file != "", nil
}

// configuration checks a configuration with the command sluice.
func (r *runner) configuration(ctx context.Context, text string) error {
	r.files++
	name := filepath.Join(r.scratch, fmt.Sprintf("configuration%d.yaml", r.files))
	if err := r.write(name, text); err != nil {
		return err
	}
	return command(ctx, r.shell(fmt.Sprintf("go run ./cmd/sluice config check %q", name)))
}

// shell returns the command that runs a text with bash.
func (r *runner) shell(text string) *exec.Cmd {
	cmd := exec.Command("bash", "-euo", "pipefail", "-c", text)
	cmd.Dir = r.dir
	return cmd
}

// write writes a file and the folders it needs.
func (r *runner) write(name, text string) error {
	if err := os.MkdirAll(filepath.Dir(name), 0o755); err != nil {
		return err
	}
	return os.WriteFile(name, []byte(text), 0o644)
}

var mainClause = regexp.MustCompile(`(?m)^package main$`)

// goBlock builds and vets a program. It only parses a fragment.
func (r *runner) goBlock(ctx context.Context, text string) error {
	if !mainClause.MatchString(text) {
		return parseFragment(text)
	}
	r.files++
	name := fmt.Sprintf("readme_block_%d", r.files)
	if err := r.write(filepath.Join(r.dir, name, "main.go"), text); err != nil {
		return err
	}
	defer func() { _ = os.RemoveAll(filepath.Join(r.dir, name)) }()
	return command(ctx, r.shell(fmt.Sprintf("go vet ./%[1]s && go build -o %[2]s ./%[1]s", name, os.DevNull)))
}

// parseFragment parses a text as a file, as declarations or as statements, and returns an error if it is none of these.
func parseFragment(text string) error {
	var err error
	for _, form := range []string{"package p\nfunc _() {\n%s\n}", "package p\n%s", "%s"} {
		if _, err = parser.ParseFile(token.NewFileSet(), "fragment.go", fmt.Sprintf(form, text), 0); err == nil {
			return nil
		}
	}
	return fmt.Errorf("neither a file nor declarations nor statements of Go: %w", err)
}

// script checks the syntax of JavaScript.
func (r *runner) script(ctx context.Context, text string) error {
	r.files++
	name := filepath.Join(r.scratch, fmt.Sprintf("script%d.mjs", r.files))
	if err := r.write(name, text); err != nil {
		return err
	}
	cmd := exec.Command(r.node, "--check", name)
	cmd.Dir = r.dir
	return command(ctx, cmd)
}

var inlineScript = regexp.MustCompile(`(?is)<script([^>]*)>(.*?)</script>`)

// page checks the inline scripts of an HTML page.
func (r *runner) page(ctx context.Context, text string) error {
	for _, m := range inlineScript.FindAllStringSubmatch(text, -1) {
		isData := strings.Contains(m[1], "json") || strings.Contains(m[1], "importmap")
		if isData || strings.TrimSpace(m[2]) == "" {
			continue
		}
		if err := r.script(ctx, m[2]); err != nil {
			return err
		}
	}
	return nil
}
