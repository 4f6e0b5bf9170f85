//go:build race && linux && (amd64 || arm64)

package kitex_test

import (
	"os/exec"
	"testing"
)

// TestWithoutRaceDetector runs the tests of this package without the race detector, because Kitex 0.16.1 has data races of its own (mux_pool.go).
func TestWithoutRaceDetector(t *testing.T) {
	out, err := exec.CommandContext(t.Context(), "go", "test", "-count", "1", "-timeout", "5m", ".").CombinedOutput()
	if err != nil {
		t.Errorf("%v\n%s", err, out)
	}
}
