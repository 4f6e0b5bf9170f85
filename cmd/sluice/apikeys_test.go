package main

import (
	"bytes"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/sluice-push/sluice/push/api"
	"github.com/sluice-push/sluice/push/config"
)

// Keys are replaced while the node runs. If the file is not valid, or is gone, the keys stay as they were.
func TestKeysFile(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		file := filepath.Join(t.TempDir(), "keys.yaml")
		write := func(text string) {
			t.Helper()
			if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
				t.Fatal(err)
			}
			<-time.After(time.Second)
		}
		entry := func(key, more string) string {
			return fmt.Sprintf("- {name: %s, hash: %q, scopes: [read]%s}\n", key, config.HashKey(key), more)
		}
		write(entry("old", ""))
		cfg, err := config.Parse("", fmt.Appendf(nil, "api: {keys_file: %q, keys: [%s]}\n", file, strings.TrimPrefix(strings.TrimSpace(entry("fixed", "")), "- ")), nil, nil)
		if err != nil {
			t.Fatal(err)
		}
		var log bytes.Buffer
		keys, err := config.NewKeys(cfg, slog.New(slog.NewTextHandler(&log, nil)))
		if err != nil {
			t.Fatal(err)
		}
		a := newAccess(cfg, false, nil, keys)
		accepts := func(when string, accepted, refused string) {
			t.Helper()
			for key := range strings.FieldsSeq(accepted) {
				if g := a.authorize(key, api.ScopeRead); !g.Known || !g.Allowed {
					t.Errorf("%s: key %s is refused: %s", when, key, log.String())
				}
			}
			for key := range strings.FieldsSeq(refused) {
				if a.authorize(key, api.ScopeRead).Known {
					t.Errorf("%s: key %s is accepted", when, key)
				}
			}
		}
		accepts("at first", "fixed old", "new")
		write(entry("old", "") + entry("new", ""))
		accepts("while keys are exchanged", "fixed old new", "")
		write(entry("new", ""))
		accepts("afterwards", "fixed new", "old")
		for _, bad := range []string{"- {name: bad\n", entry("fixed", ""), entry("new", ", namespaces: [absent]"), "keys: []\n"} {
			log.Reset()
			write(bad)
			accepts(bad, "fixed new", "bad")
			if strings.Count(log.String(), "level=WARN") != 1 || !strings.Contains(log.String(), "keys.yaml") {
				t.Errorf("the log is %s", log.String())
			}
		}
		if err := os.Remove(file); err != nil {
			t.Fatal(err)
		}
		<-time.After(time.Second)
		accepts("without the file", "fixed new", "old")
		write(entry("new", ", namespaces: [\"\"]"))
		accepts("for a namespace", "fixed new", "")
		if g := a.authorize("new", api.ScopeRead); g.Namespace == nil || !g.Namespace("") || g.Namespace("other") {
			t.Error("the key is not for its namespace alone")
		}
		if g := a.authorize("fixed", api.ScopeControl); g.Allowed || g.Namespace != nil {
			t.Errorf("another key has %+v", g)
		}
	})
}

// A node does not start without the file of keys that its configuration names.
func TestKeysFileIsMissing(t *testing.T) {
	cfg := config.Default()
	cfg.API.KeysFile = filepath.Join(t.TempDir(), "absent.yaml")
	if _, err := config.NewKeys(cfg, slog.New(slog.DiscardHandler)); err == nil || !strings.Contains(err.Error(), "absent.yaml") {
		t.Errorf("no error, or %v", err)
	}
}
