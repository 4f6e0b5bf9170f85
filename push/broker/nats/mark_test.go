package nats_test

import (
	"context"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/sluice-push/sluice/push/broker/nats"
)

func openMark(t *testing.T, dir string) nats.Mark {
	t.Helper()
	m, err := nats.OpenMark(dir)
	if err != nil {
		t.Fatal(err)
	}
	return m
}

// writeData writes files into a data folder as the server does.
func writeData(t *testing.T, dir, text string) {
	t.Helper()
	path := filepath.Join(dir, "jetstream", "data")
	if err := os.MkdirAll(filepath.Dir(path), 0o750); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}

func finish(t *testing.T, end func() error) {
	t.Helper()
	if err := end(); err != nil {
		t.Fatal(err)
	}
}

// editMark changes the mark of a folder that is not in use, so that the change goes unnoticed.
func editMark(t *testing.T, dir string, edit func(map[string]any)) {
	t.Helper()
	path := filepath.Join(dir, "sluice.json")
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	have := make(map[string]any)
	if err := json.Unmarshal(text, &have); err != nil {
		t.Fatal(err)
	}
	edit(have)
	if text, err = json.Marshal(have); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, text, 0o600); err != nil {
		t.Fatal(err)
	}
}

func fromAnotherBoot(have map[string]any) { have["boot"] = "another" }

// fates are events that may happen to a data folder.
var fates = []struct {
	name   string
	killed bool
	then   func(t *testing.T, dir string) (now string) // what happens to the folder, and where it is then
	isNew  bool
}{
	{name: "closed", then: func(_ *testing.T, dir string) string { return dir }},
	{name: "killed", killed: true, then: func(_ *testing.T, dir string) string { return dir }},
	{name: "closed, another boot", then: func(t *testing.T, dir string) string {
		editMark(t, dir, fromAnotherBoot)
		return dir
	}},
	{name: "killed, another boot", killed: true, isNew: true, then: func(t *testing.T, dir string) string {
		editMark(t, dir, fromAnotherBoot)
		return dir
	}},
	{name: "moved", then: func(t *testing.T, dir string) string {
		if err := os.Rename(dir, dir+" moved"); err != nil {
			t.Fatal(err)
		}
		return dir + " moved"
	}},
	{name: "copied", isNew: true, then: func(t *testing.T, dir string) string {
		copyFolder(t, dir, dir+" copied")
		return dir + " copied"
	}},
	{name: "copied after a kill", killed: true, isNew: true, then: func(t *testing.T, dir string) string {
		copyFolder(t, dir, dir+" copied")
		return dir + " copied"
	}},
	{name: "put back by a copy", isNew: true, then: func(t *testing.T, dir string) string {
		copyFolder(t, dir, dir+" copied")
		finish(t, openMark(t, dir).Close)
		if err := os.CopyFS(dir, os.DirFS(dir+" copied")); err == nil {
			t.Fatal("it was copied over what is there")
		}
		removeAll(t, dir)
		copyFolder(t, dir+" copied", dir)
		return dir
	}},
	{name: "overwritten by older files", isNew: true, then: func(t *testing.T, dir string) string {
		names := []string{"sluice.lock", "sluice.json"}
		var older [][]byte
		for _, name := range names {
			text, err := os.ReadFile(filepath.Join(dir, name))
			if err != nil {
				t.Fatal(err)
			}
			older = append(older, text)
		}
		finish(t, openMark(t, dir).Abandon)
		for i, name := range names {
			if err := os.WriteFile(filepath.Join(dir, name), older[i], 0o600); err != nil {
				t.Fatal(err)
			}
		}
		return dir
	}},
	{name: "data changed after a clean end", isNew: true, then: func(t *testing.T, dir string) string {
		writeData(t, dir, "other")
		return dir
	}},
	{name: "data gone after a clean end", isNew: true, then: func(t *testing.T, dir string) string {
		removeAll(t, filepath.Join(dir, "jetstream"))
		return dir
	}},
	{name: "mark of garbage", isNew: true, then: func(t *testing.T, dir string) string {
		if err := os.WriteFile(filepath.Join(dir, "sluice.json"), []byte("{\"gen"), 0o600); err != nil {
			t.Fatal(err)
		}
		return dir
	}},
	{name: "mark without generation", isNew: true, then: func(t *testing.T, dir string) string {
		editMark(t, dir, func(have map[string]any) { delete(have, "generation") })
		return dir
	}},
	{name: "mark gone", isNew: true, then: func(t *testing.T, dir string) string {
		removeAll(t, filepath.Join(dir, "sluice.json"))
		return dir
	}},
	{name: "lock gone", isNew: true, then: func(t *testing.T, dir string) string {
		removeAll(t, filepath.Join(dir, "sluice.lock"))
		return dir
	}},
}

// TestGeneration: a data folder gets another generation exactly if it may not hold the data that it last held.
func TestGeneration(t *testing.T) {
	for _, c := range fates {
		t.Run(c.name, func(t *testing.T) {
			dir := filepath.Join(t.TempDir(), "data")
			m := openMark(t, dir)
			before := m.Generation()
			if before == "" || m.Renewed() != "" {
				t.Fatalf("an empty folder has generation %q: %s", before, m.Renewed())
			}
			writeData(t, dir, "data")
			if c.killed {
				finish(t, m.Abandon)
			} else {
				finish(t, m.Close)
			}
			m = openMark(t, c.then(t, dir))
			now := m.Generation()
			if isNew := now != before; isNew != c.isNew || now == "" || isNew != (m.Renewed() != "") {
				t.Errorf("the generation was %q and is %q: %s", before, now, m.Renewed())
			}
			finish(t, m.Close)
		})
	}
}

// TestFolderRefused: a folder that cannot be used is refused with a helpful reason, and not changed.
func TestFolderRefused(t *testing.T) {
	for _, c := range []struct {
		name, want string
		make       func(t *testing.T, dir string) string
	}{
		{"of somebody else", "neither empty nor a data folder: choose another", func(t *testing.T, dir string) string {
			if err := os.WriteFile(filepath.Join(dir, "letter.txt"), []byte("dear"), 0o600); err != nil {
				t.Fatal(err)
			}
			return dir
		}},
		{"a file", "cannot be created", func(t *testing.T, dir string) string {
			if err := os.WriteFile(filepath.Join(dir, "file"), nil, 0o600); err != nil {
				t.Fatal(err)
			}
			return filepath.Join(dir, "file")
		}},
		{"below a file", "cannot be created", func(t *testing.T, dir string) string {
			if err := os.WriteFile(filepath.Join(dir, "file"), nil, 0o600); err != nil {
				t.Fatal(err)
			}
			return filepath.Join(dir, "file", "data")
		}},
		{"lock cannot be written", "is not writable", func(t *testing.T, dir string) string {
			if err := os.Mkdir(filepath.Join(dir, "sluice.lock"), 0o700); err != nil {
				t.Fatal(err)
			}
			return dir
		}},
		{"mark cannot be written", "is not writable", func(t *testing.T, dir string) string {
			finish(t, openMark(t, dir).Close)
			if err := os.Mkdir(filepath.Join(dir, "sluice.json.new"), 0o700); err != nil {
				t.Fatal(err)
			}
			return dir
		}},
		{"in use", "in use by another process", func(t *testing.T, dir string) string {
			m := openMark(t, dir)
			t.Cleanup(func() { finish(t, m.Close) })
			return dir
		}},
		{"none", "needs a data folder", func(*testing.T, string) string { return "" }},
	} {
		t.Run(c.name, func(t *testing.T) {
			dir := c.make(t, t.TempDir())
			b, err := nats.New(context.Background(), &nats.Options{Dir: dir})
			if err == nil {
				t.Errorf("%s was taken", dir)
				_ = b.Close()
			} else if !strings.Contains(err.Error(), c.want) {
				t.Errorf("refused with %q, want %q", err, c.want)
			}
		})
	}
}

// TestFileSystemOfItsOwn: a new file system is not empty, and can be a data folder all the same.
func TestFileSystemOfItsOwn(t *testing.T) {
	dir := t.TempDir()
	if err := os.Mkdir(filepath.Join(dir, "lost+found"), 0o700); err != nil {
		t.Fatal(err)
	}
	finish(t, openMark(t, dir).Close)
}

// TestListenNeedsToken: without a token the server does not listen on an address that other machines can reach.
func TestListenNeedsToken(t *testing.T) {
	for _, address := range []string{"0.0.0.0:0", ":0", "[::]:0", "192.0.2.1:0", "nonsense"} {
		b, err := nats.New(t.Context(), &nats.Options{Dir: t.TempDir(), Listen: address})
		if err == nil {
			t.Errorf("%s was opened", address)
			_ = b.Close()
		}
	}
}
