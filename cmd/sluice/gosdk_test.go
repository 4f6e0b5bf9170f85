package main_test

import (
	"os/exec"
	"path/filepath"
	"testing"
)

// TestGoSDK runs the official Go client, unchanged, in a module of its own.
func TestGoSDK(t *testing.T) {
	folder := filepath.Join("..", "..", "push", "gateway", "testdata", "go")
	program := filepath.Join(t.TempDir(), "sdk")
	build := exec.Command("go", "build", "-o", program, ".")
	build.Dir = folder
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	runScenarios(t, scenarios{folder: folder, installed: program, command: []string{program}})
}
