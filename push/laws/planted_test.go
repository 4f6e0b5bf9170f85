package laws_test

import (
	"os/exec"
	"path/filepath"
	"testing"
)

// TestPlantedFit checks that all planted bugs still apply to the code, so that a change of the code that breaks one is noticed at once.
func TestPlantedFit(t *testing.T) {
	patches, err := filepath.Glob("testdata/planted/*.patch")
	if err != nil || len(patches) < 12 {
		t.Fatalf("%d patches, %v", len(patches), err)
	}
	for _, p := range patches {
		cmd := exec.CommandContext(t.Context(), "git", "apply", "-C1", "--check", filepath.Join("push", "laws", p))
		cmd.Dir = filepath.Join("..", "..")
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Errorf("%s does not fit any more: %v\n%s", p, err, out)
		}
	}
}
