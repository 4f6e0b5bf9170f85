package clusterinfo_test

import (
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"go.uber.org/goleak"

	"github.com/sluice-push/sluice/cmd/sluice/internal/clusterinfo"
	"github.com/sluice-push/sluice/cmd/sluice/internal/clusternode"
	"github.com/sluice-push/sluice/cmd/sluice/internal/nodeclient"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// serve answers like the internal address of a node, and returns its URL.
func serve(t *testing.T, status int, text string) string {
	t.Helper()
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Method != http.MethodGet || r.URL.Path != clusternode.Path {
			t.Errorf("asked for %s %s", r.Method, r.URL)
		}
		w.WriteHeader(status)
		_, _ = w.Write([]byte(text))
	}))
	t.Cleanup(s.Close)
	return s.URL
}

func read(t *testing.T, name string) string {
	t.Helper()
	text, err := os.ReadFile(filepath.Join("testdata", name))
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// What a node answers with is printed as a table, and with --json as it is.
func TestInfo(t *testing.T) {
	for _, name := range []string{"cluster", "zone", "all", "first", "alone"} {
		t.Run(name, func(t *testing.T) {
			answer := read(t, name+".json")
			url := serve(t, http.StatusOK, answer)
			var out strings.Builder
			if err := (&clusterinfo.Command{Internal: url}).Run(&out); err != nil || out.String() != read(t, name+".txt") {
				t.Errorf("%v, printed\n%s", err, out.String())
			}
			out.Reset()
			if err := (&clusterinfo.Command{Internal: url, JSON: true}).Run(&out); err != nil || compact(t, out.String()) != compact(t, answer) {
				t.Errorf("%v, printed\n%s", err, out.String())
			}
		})
	}
}

// compact returns JSON with its members in the order of their names.
func compact(t *testing.T, text string) string {
	t.Helper()
	var v any
	if err := json.Unmarshal([]byte(text), &v); err != nil {
		t.Fatal(err)
	}
	out, err := json.Marshal(v)
	if err != nil {
		t.Fatal(err)
	}
	return string(out)
}

// The errors say what to do.
func TestInfoErrors(t *testing.T) {
	for name, tt := range map[string]struct {
		status int
		text   string
		want   string
	}{
		"another server": {http.StatusOK, "hello", "answered, but not as a node does: check that it is the internal address of a node (not JSON"},
		"no such path":   {http.StatusNotFound, "", "does not know /cluster: check that it is the internal address of a node"},
		"not ready":      {http.StatusServiceUnavailable, "it waits for its broker\n", "refused (503 Service Unavailable): it waits for its broker"},
	} {
		t.Run(name, func(t *testing.T) {
			var out strings.Builder
			err := (&clusterinfo.Command{Internal: serve(t, tt.status, tt.text)}).Run(&out)
			if err == nil || !strings.Contains(err.Error(), tt.want) || out.Len() > 0 {
				t.Errorf("%v, printed %q", err, out.String())
			}
		})
	}
	for internal, want := range map[string]string{"9000": "is not an address", "ftp://a": "is not a URL", "http://a:1": ""} {
		err := (&clusterinfo.Command{Internal: internal}).Validate()
		if (err == nil) != (want == "") || err != nil && !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v", internal, err)
		}
	}
	if err := (&clusterinfo.Command{Internal: "a:1", Certificates: nodeclient.Certificates{Key: "k"}}).Validate(); err == nil {
		t.Error("a key without a certificate is allowed")
	}
}
