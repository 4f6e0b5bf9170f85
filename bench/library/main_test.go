package main_test

import (
	"os"
	"testing"

	"go.uber.org/goleak"

	library "github.com/sluice-push/sluice/bench/library"
)

// TestMain is also the process of every server in Go, which is this program again, with the race detector if that is on.
func TestMain(m *testing.M) {
	if len(os.Args) > 1 && os.Args[1] == "serve" {
		library.Main()
		return
	}
	// Otherwise the race detector makes each of these processes wait for a second before it ends.
	if err := os.Setenv("GORACE", "atexit_sleep_ms=0 "+os.Getenv("GORACE")); err != nil {
		panic(err)
	}
	goleak.VerifyTestMain(m)
}
