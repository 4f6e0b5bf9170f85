//go:build interop

package main_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"testing"
)

// TestJava runs the official Java client, unchanged. It needs a JDK, which is large, so that make interop runs it and make test does not.
func TestJava(t *testing.T) {
	folder, err := filepath.Abs(filepath.Join("..", "..", "push", "gateway", "testdata", "java"))
	if err != nil {
		t.Fatal(err)
	}
	installed := filepath.Join(folder, "lib", "pom.xml") // made as the last step
	if _, err := os.Stat(installed); err != nil {
		t.Fatalf("the Java client is not installed: run make interop (%v)", err)
	}
	sources, err := filepath.Glob(filepath.Join(folder, "*.java"))
	if err != nil || len(sources) == 0 {
		t.Fatalf("there are no scenarios in %s (%v)", folder, err)
	}
	classes := t.TempDir()
	jars := filepath.Join(folder, "lib", "*")
	compile := exec.Command("javac", append([]string{"-Xlint:all", "-Werror", "-d", classes, "-cp", jars}, sources...)...)
	if out, err := compile.CombinedOutput(); err != nil {
		t.Fatalf("javac: %v\n%s", err, out)
	}
	runScenarios(t, scenarios{
		folder:    folder,
		installed: installed,
		command:   []string{"java", "-cp", classes + string(os.PathListSeparator) + jars, "Main"},
	})
}
