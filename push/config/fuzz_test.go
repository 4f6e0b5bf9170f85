package config_test

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/sluice-push/sluice/push/config"
)

// FuzzParse: any text gives either a valid configuration or problems that say what and where, and never a panic.
func FuzzParse(f *testing.F) {
	files, err := filepath.Glob("testdata/errors/*.yaml")
	if err != nil {
		f.Fatal(err)
	}
	for _, file := range append(files, "default.yaml") {
		text, err := os.ReadFile(file)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(string(text), "SLUICE_NAMESPACES=[{name: a}]")
	}
	f.Add(full, "SLUICE_LIMITS_SESSIONS=1")
	f.Add("", "SLUICE_API_KEYS=[")
	f.Fuzz(func(t *testing.T, text, variable string) {
		c, err := config.Parse("f", []byte(text), []string{variable}, nil)
		if err == nil {
			if err := c.Validate(); err != nil {
				t.Fatalf("a configuration that loads is not valid: %v", err)
			}
			return
		}
		var e *config.Error
		if !errors.As(err, &e) || len(e.Problems) == 0 {
			t.Fatalf("error = %#v, want a *config.Error with problems", err)
		}
		for _, p := range e.Problems {
			place := p.Source
			if place == "" {
				place = p.Key // the name of an unknown variable
			}
			if p.Message == "" || place == "" || strings.ContainsAny(p.Key, "\n\r") {
				t.Fatalf("problem %+v does not say what and where in one line", p)
			}
		}
	})
}
