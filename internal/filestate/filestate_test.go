package filestate_test

import (
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/sluice-push/sluice/internal/filestate"
)

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// A file that is written, replaced, removed or made again has changed, once each; one that is only read has not.
func TestWatch(t *testing.T) {
	folder := t.TempDir()
	path, other := filepath.Join(folder, "a"), filepath.Join(folder, "b")
	must(t, os.WriteFile(path, []byte("1"), 0o600))
	w := filestate.NewWatch(0, path, "", other)
	step := func(name string, want bool, do func() error) {
		t.Helper()
		must(t, do())
		if got := w.Changed(); got != want {
			t.Errorf("%s: changed %t, want %t", name, got, want)
		}
		if w.Changed() {
			t.Errorf("%s: changed twice", name)
		}
	}
	old := time.Unix(1_000_000, 0)
	step("nothing", false, func() error { return nil })
	step("read", false, func() error { _, err := os.ReadFile(path); return err })
	step("longer", true, func() error { return os.WriteFile(path, []byte("22"), 0o600) })
	step("another time", true, func() error { return os.Chtimes(path, old, old) })
	step("replaced by its like", true, func() error {
		must(t, os.WriteFile(path+".new", []byte("33"), 0o600))
		must(t, os.Chtimes(path+".new", old, old))
		return os.Rename(path+".new", path)
	})
	step("removed", true, func() error { return os.Remove(path) })
	step("another one appears", true, func() error { return os.WriteFile(other, nil, 0o600) })
}

// Within the duration the Watch does not look.
func TestWatchSeldom(t *testing.T) {
	path := filepath.Join(t.TempDir(), "a")
	w := filestate.NewWatch(time.Hour, path)
	must(t, os.WriteFile(path, []byte("1"), 0o600))
	if w.Changed() {
		t.Error("it has looked within the hour")
	}
	if filestate.NewWatch(0).Changed() {
		t.Error("no files have changed")
	}
}
