package main

import (
	"os/exec"
	"path/filepath"
	"testing"

	"go.uber.org/goleak"
)

// cut is the folder with the excerpts in the repository, and cutName the recording that has an order book of twenty seconds.
const (
	cut     = "../../../../testdata/binance-2024-08-08"
	cutName = "spot_btcusdt_depth_20240808"
)

// program builds the command sluice and returns its path. The file is removed at the end of the test.
func program(t *testing.T) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "sluice")
	if out, err := exec.Command("go", "build", "-o", path, "../..").CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	return path
}

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }
