package main_test

import (
	"io"
	"net/http"
	"strings"
	"testing"
)

// TestPageFiles: the node serves the files of the page, and no other files of its folder.
func TestPageFiles(t *testing.T) {
	p := startNode(t, "--demo")
	for path, want := range map[string]struct {
		status int
		kind   string
		text   string
	}{
		"/":                 {http.StatusOK, "text/html", `<script src="page.js">`},
		"/page.css":         {http.StatusOK, "text/css", "prefers-color-scheme"},
		"/page.js":          {http.StatusOK, "text/javascript", "Centrifugal Labs"}, // the licence of a bundled package
		"/icon.svg":         {http.StatusOK, "image/svg+xml", "<svg"},
		"/src/page.ts":      {http.StatusNotFound, "text/plain", ""},
		"/src/package.json": {http.StatusNotFound, "text/plain", ""},
	} {
		t.Run(path, func(t *testing.T) {
			resp, err := http.Get("http://" + p.public + path)
			if err != nil {
				t.Fatal(err)
			}
			body, err := io.ReadAll(resp.Body)
			_ = resp.Body.Close()
			if err != nil {
				t.Fatal(err)
			}
			kind := resp.Header.Get("Content-Type")
			if resp.StatusCode != want.status || !strings.HasPrefix(kind, want.kind) || !strings.Contains(string(body), want.text) {
				t.Errorf("%s, %s, %d bytes, want %d, %s with %q", resp.Status, kind, len(body), want.status, want.kind, want.text)
			}
			if policy := resp.Header.Get("Content-Security-Policy"); !strings.HasPrefix(policy, "default-src 'self'") {
				t.Errorf("the policy is %q", policy)
			}
		})
	}
}
