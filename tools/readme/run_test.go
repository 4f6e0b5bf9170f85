package main_test

import (
	"bytes"
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"go.uber.org/goleak"

	readme "github.com/sluice-push/sluice/tools/readme"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// fence returns a fenced block.
func fence(info, text string) string { return "```" + info + "\n" + text + "\n```\n" }

// runText runs the blocks of a text in an empty folder. Its stand-in for node refuses files with the word bad.
func runText(ctx context.Context, t *testing.T, text string) (dir, log string, err error) {
	t.Helper()
	dir, scratch := t.TempDir(), t.TempDir()
	node := filepath.Join(scratch, "node")
	script := "#!/bin/sh\n[ \"$1\" = --check ] && ! grep bad \"$2\"\n"
	if err := os.WriteFile(node, []byte(script), 0o755); err != nil {
		t.Fatal(err)
	}
	var b bytes.Buffer
	err = readme.RunBlocks(ctx, dir, node, text, &b)
	return dir, b.String(), err
}

func TestRun(t *testing.T) {
	const (
		ready = "sh background until=\"open http\""
		// A shell that gets a signal just before it starts a command waits for that command first. So the commands are short.
		server = "trap 'echo ended > ended' EXIT; trap 'exit 0' TERM; echo open http://x; while :; do sleep 0.05; done"
		// quitter ends by itself when another block tells it to and waits for its end.
		quitter = "mkfifo go; echo $$ > pid; echo open http://x; read -r < go; exit 7"
		quit    = "echo > go; while kill -0 $(cat pid); do read -rt 0.01 < <(sleep 1) || :; done"
	)
	tests := []struct {
		name, text, want string // want is part of the log
		ok               bool
	}{
		{"nothing", "text\n", "README.md: 0 passed, 0 failed, 0 not run", true},
		{"shell", fence("sh", "echo hi"), "PASS    README.md:1 sh", true},
		{"shell fails", fence("sh", "echo hi; exit 3"), "exit status 3\n        hi\n", false},
		{"first command fails", fence("sh", "false\necho hi"), "exit status 1", false},
		{"pipe fails", fence("sh", "false | cat"), "exit status 1", false},
		{"unset variable", fence("sh", "echo $nosuch"), "unbound variable", false},
		{"goes on after a failure", fence("sh", "false") + fence("sh", "true"), "1 passed, 1 failed, 0 not run", false},
		{"same folder", fence("sh", "echo hi > a") + fence("sh", "cat a"), "2 passed, 0 failed", true},
		{"leftovers are killed", fence("sh", "sleep 1000 &\n"), "1 passed", true},
		{"file", fence("yaml file=conf/a.yaml", "a: 1") + fence("sh", "grep 'a: 1' conf/a.yaml"), "2 passed, 0 failed", true},
		{
			"not run", fence("json notrun", "{]") + fence("text", "x") + fence("", "y") + fence("sh notrun", "false"),
			"0 passed, 0 failed, 4 not run", true,
		},
		{"not marked", fence("json", "{]"), "", false},
		{"configuration", fence("yaml check", "a: 1"), "go.mod file not found", false}, // no node is available here
		{"background", fence(ready, server) + fence("sh", "! test -e ended"), "2 passed, 0 failed", true},
		{"background in passing", fence("sh background", "sleep 1000"), "1 passed, 0 failed", true},
		{"background is not ready", fence(ready, "echo closed"), "ended without a line that contains \"open http\"", false},
		{"background ends", fence(ready, quitter) + fence("sh", quit), "ended before the last block: exit status 7", false},
		{"js", fence("js", "const a = 1"), "1 passed", true},
		{"bad js", fence("js", "bad"), "FAIL    README.md:1 js", false},
		{
			"html", fence("html", "<p>bad</p><script src=x></script><script type=application/json>bad</script><script>good</script>"),
			"1 passed", true,
		},
		{"bad html", fence("html", "<script>good</script>\n<script type=module>\nbad\n</script>"), "1 failed", false},
		{"go statements", fence("go", "x := 1\nuse(x)"), "1 passed", true},
		{"go declarations", fence("go", "import \"fmt\"\n\nfunc f() { fmt.Println() }"), "1 passed", true},
		{"go file", fence("go", "package x\n\nfunc f() {}"), "1 passed", true},
		{"bad go", fence("go", "func {"), "neither a file nor declarations nor statements", false},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			dir, log, err := runText(t.Context(), t, tt.text)
			if (err == nil) != tt.ok || !strings.Contains(log, tt.want) {
				t.Errorf("error = %v, log:\n%s\nwant ok = %t and %q", err, log, tt.ok, tt.want)
			}
			if strings.Contains(tt.text, "ended > ended") {
				if _, err := os.Stat(filepath.Join(dir, "ended")); err != nil {
					t.Errorf("the background block was not asked to end: %v", err)
				}
			}
		})
	}
}

// A block of either kind that does not end is killed at the deadline, and later blocks do not start.
func TestRunOutOfTime(t *testing.T) {
	for _, info := range []string{"sh", "sh background until=\"never\""} {
		ctx, cancel := context.WithCancel(t.Context())
		// The block itself triggers the deadline: it writes to the pipe that is read here.
		dir := t.TempDir()
		fifo := filepath.Join(dir, "up")
		if out, err := exec.Command("mkfifo", fifo).CombinedOutput(); err != nil {
			t.Fatal(err, string(out))
		}
		go func() {
			_, _ = os.ReadFile(fifo)
			cancel()
		}()
		_, log, err := runText(ctx, t, fence(info, "echo > "+fifo+"\nsleep 1000")+fence("sh", "true"))
		if err == nil || !strings.Contains(log, "context canceled") || !strings.Contains(log, "not started") {
			t.Errorf("%s: error = %v, log:\n%s", info, err, log)
		}
	}
}

// The complete command: it clones a repository as committed, and runs its README in the clone.
func TestRunInClone(t *testing.T) {
	repo := t.TempDir()
	write := func(name, text string) {
		t.Helper()
		if err := os.WriteFile(filepath.Join(repo, name), []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	git := func(args ...string) {
		t.Helper()
		args = append([]string{"-C", repo, "-c", "user.name=t", "-c", "user.email=t@example.com"}, args...)
		if out, err := exec.Command("git", args...).CombinedOutput(); err != nil {
			t.Fatalf("git %v: %v: %s", args, err, out)
		}
	}
	program := "package main\n\nimport \"fmt\"\n\nfunc main() { fmt.Println(%s) }"
	good, bad := strings.ReplaceAll(program, "%s", "1"), strings.ReplaceAll(program, "%s", "undefined")
	write("go.mod", "module example.com/x\n\ngo 1.26\n")
	write("README.md", fence("sh", "test -f go.mod && test ! -e draft")+fence("go", good)+
		fence("sh", "git status --porcelain | cmp - /dev/null"))
	write("BAD.md", fence("go", bad))
	git("init", "--quiet")
	git("add", ".")
	git("commit", "--quiet", "-m", "x")
	write("draft", "not committed")

	var log bytes.Buffer
	if err := readme.Run(t.Context(), filepath.Join(repo, "README.md"), &log); err != nil {
		t.Errorf("%v, log:\n%s", err, log.String())
	}
	err := readme.Run(t.Context(), filepath.Join(repo, "BAD.md"), &log)
	if err == nil || !strings.Contains(log.String(), "undefined: undefined") {
		t.Errorf("a program that does not compile passed: %v, log:\n%s", err, log.String())
	}
	if err := readme.Run(t.Context(), filepath.Join(repo, "NONE.md"), &log); err == nil {
		t.Error("no file, no error")
	}
	if err := readme.Run(t.Context(), filepath.Join(t.TempDir(), "README.md"), &log); err == nil {
		t.Error("no repository, no error")
	}
}
