package main_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	sluice "github.com/sluice-push/sluice/cmd/sluice"
	"github.com/sluice-push/sluice/push/config"
)

func TestCommands(t *testing.T) {
	folder := t.TempDir()
	good, bad := filepath.Join(folder, "good.yaml"), filepath.Join(folder, "bad.yaml")
	for name, text := range map[string]string{good: "linger: 1m\n", bad: "namspaces: []\n"} {
		if err := os.WriteFile(name, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	tests := []struct {
		name           string
		args           string
		variables      []string
		stdin          string
		code           int
		stdout, stderr string // parts of the output; empty: no output
	}{
		{name: "no command", code: 2, stderr: "see sluice --help"},
		{name: "unknown command", args: "serf", code: 2, stderr: "serf"},
		{name: "help", args: "--help", stdout: "Usage: sluice <command>"},
		{name: "help of a command", args: "config --help", stdout: "config hash-key"},
		{name: "version", args: "version", stdout: "sluice "},
		{name: "check", args: "config check " + good, stdout: "the configuration is valid\n"},
		{name: "check of nothing", args: "config check", stdout: "the configuration is valid\n"},
		{
			name: "check of a mistake", args: "config check " + bad, code: 1,
			stderr: "sluice: config: namspaces: unknown key, did you mean namespaces? (" + bad + ":1:1)\n",
		},
		{
			name: "check of a variable", args: "config check", variables: []string{"SLUICE_LISTEN=x"}, code: 1,
			stderr: "(SLUICE_LISTEN)",
		},
		{name: "check of no file", args: "config check " + filepath.Join(folder, "none"), code: 1, stderr: "sluice: config: open "},
		{name: "default", args: "config default", stdout: "\nlisten: \":8000\"\n"},
		{name: "hash", args: "config hash-key", stdin: "secret\n", stdout: config.HashKey("secret") + "\n"},
		{name: "hash without line end", args: "config hash-key", stdin: "secret", stdout: config.HashKey("secret") + "\n"},
		{name: "hash of nothing", args: "config hash-key", code: 1, stderr: "must have 1 to 1024 bytes"},
		{
			name: "hash of too much", args: "config hash-key", stdin: strings.Repeat("x", 1025), code: 1,
			stderr: "must have 1 to 1024 bytes",
		},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			code, stdout, stderr := sluice.RunCommand(tt.stdin, tt.variables, strings.Fields(tt.args)...)
			if code != tt.code || !matches(stdout, tt.stdout) || !matches(stderr, tt.stderr) {
				t.Errorf("code %d, stdout %q, stderr %q\nwant %d, %q, %q", code, stdout, stderr, tt.code, tt.stdout, tt.stderr)
			}
		})
	}
}

// matches reports whether text contains part. An empty part matches only an empty text.
func matches(text, part string) bool {
	return strings.Contains(text, part) && (part != "") == (text != "")
}

// A new key is printed with its hash, and differs each time.
func TestNewKey(t *testing.T) {
	seen := make(map[string]bool)
	for range 10 {
		_, stdout, _ := sluice.RunCommand("", nil, "config", "hash-key", "--new")
		lines := strings.Split(stdout, "\n")
		if len(lines) != 3 || lines[1] != config.HashKey(lines[0]) || len(lines[0]) < 26 || seen[lines[0]] {
			t.Fatalf("output %q", stdout)
		}
		seen[lines[0]] = true
	}
}
