package main_test

import (
	"path/filepath"
	"testing"
)

// TestPython runs the official Python client, unchanged, with the interpreter of its virtual environment and no other.
func TestPython(t *testing.T) {
	folder, err := filepath.Abs(filepath.Join("..", "..", "push", "gateway", "testdata", "python"))
	if err != nil {
		t.Fatal(err)
	}
	python := filepath.Join(folder, ".venv", "bin", "python") // absolute, because the script runs in its folder
	runScenarios(t, scenarios{
		folder:    folder,
		installed: filepath.Join(folder, ".venv", "requirements.txt"), // make deps creates it as the last step
		command:   []string{python, "-B", "run.py"},
	})
}
