package main

import (
	"os/exec"
	"path/filepath"
	"testing"

	"go.uber.org/goleak"
)

// cut is the folder with the recordings of the repository, and cutName the one with an order book: twenty seconds of it.
const (
	cut     = "../../../testdata/binance-2024-08-08"
	cutName = "spot_btcusdt_depth_20240808"
)

// program builds the command sluice and returns its path. It is gone when the test ends.
func program(t *testing.T) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "sluice")
	if out, err := exec.Command("go", "build", "-o", path, "../../../cmd/sluice").CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	return path
}

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }
