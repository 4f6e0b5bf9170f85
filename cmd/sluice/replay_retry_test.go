package main_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	sluice "github.com/sluice-push/sluice/cmd/sluice"
)

// scriptedServer is a server with scripted answers to publications: "ok" accepts one, "lost" accepts it and cuts the connection, "refused" is a
// permanent error. Any other answer is a status and a body. After the last answer it continues with ok.
type scriptedServer struct {
	mu      sync.Mutex
	answers []string
	keys    []string // the idempotency keys of the requests, in order
}

func (m *scriptedServer) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	m.mu.Lock()
	defer m.mu.Unlock()
	var request struct {
		Key string `json:"idempotency_key"`
	}
	if err := json.NewDecoder(r.Body).Decode(&request); err != nil {
		w.WriteHeader(http.StatusTeapot)
		return
	}
	m.keys = append(m.keys, request.Key)
	answer := "ok"
	if len(m.answers) > 0 {
		answer, m.answers = m.answers[0], m.answers[1:]
	}
	switch answer {
	case "ok":
		_, _ = fmt.Fprint(w, `{"result":{"offset":1,"epoch":"e"}}`)
	case "lost":
		panic(http.ErrAbortHandler)
	case "refused":
		_, _ = fmt.Fprint(w, `{"error":{"code":102,"message":"unknown channel"}}`)
	default:
		status, body, _ := strings.Cut(answer, " ")
		var code int
		_, _ = fmt.Sscan(status, &code)
		w.WriteHeader(code)
		_, _ = fmt.Fprint(w, body)
	}
}

// TestReplayAgain: a publication whose answer is missing or temporary is repeated with the same key. A permanent error ends the replay.
func TestReplayAgain(t *testing.T) {
	folder := t.TempDir()
	file := filepath.Join(folder, "feed")
	if err := os.WriteFile(file, []byte("1 {\"n\":1}\n2 {\"n\":2}\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, tt := range []struct {
		name           string
		answers        []string
		tries          []int // how often each publication was sent
		code           int
		stdout, stderr string
	}{
		{name: "accepted", tries: []int{1, 1}, stdout: "2 publications to 1 channel"},
		{name: "busy", answers: []string{`200 {"error":{"code":111,"message":"too many requests"}}`}, tries: []int{2, 1}, stdout: "1 refusal retried"},
		{name: "failed", answers: []string{"ok", `200 {"error":{"code":100,"message":"internal server error"}}`}, tries: []int{1, 2}, stdout: "2 publications"},
		{name: "not ready", answers: []string{"503 not ready", "502 <html>"}, tries: []int{3, 1}, stdout: "2 publications"},
		{name: "lost", answers: []string{"ok", "lost", "lost"}, tries: []int{1, 3}, stdout: "2 publications"},
		{
			name: "refused", answers: []string{"ok", "refused"}, tries: []int{1, 1}, code: 1, stdout: "1 publication to",
			stderr: "unknown channel (code 102); fix the cause, then resume with the same command and --checkpoint",
		},
		{name: "not a node", answers: []string{"404 <html>"}, tries: []int{1}, code: 1, stdout: "0 publications", stderr: "not as a Sluice node does"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			m := &scriptedServer{answers: tt.answers}
			server := httptest.NewServer(m)
			defer server.Close()
			args := []string{"replay", "--url", server.URL, "--channel", "x", "--speed", "max", "--checkpoint", filepath.Join(t.TempDir(), "checkpoint"), file}
			code, stdout, stderr := sluice.RunCommand("", nil, args...)
			if code != tt.code || !strings.Contains(stdout, tt.stdout) || !strings.Contains(stderr, tt.stderr) {
				t.Errorf("code %d, stdout %q, stderr %q", code, stdout, stderr)
			}
			if tries := runs(m.keys); !slices.Equal(tries, tt.tries) {
				t.Errorf("the keys %q came, want %v of each", m.keys, tt.tries)
			}
			if code != 0 {
				return
			}
			m.keys = nil
			code, stdout, _ = sluice.RunCommand("", nil, args...)
			if code != 0 || !strings.HasPrefix(stdout, "nothing to do: checkpoint ") || len(m.keys) > 0 {
				t.Errorf("once more: code %d, stdout %q, keys %q", code, stdout, m.keys)
			}
		})
	}
}

// runs returns the lengths of the runs of equal strings.
func runs(in []string) (out []int) {
	for i, s := range in {
		if i > 0 && s == in[i-1] {
			out[len(out)-1]++
		} else {
			out = append(out, 1)
		}
	}
	return out
}

// TestReplayNobodyThere: if no node has ever answered at an address, the replay fails instead of waiting.
func TestReplayNobodyThere(t *testing.T) {
	file := filepath.Join(t.TempDir(), "feed")
	if err := os.WriteFile(file, []byte("1 {}\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	server := httptest.NewServer(http.NotFoundHandler())
	server.Close()
	code, stdout, stderr := sluice.RunCommand("", nil, "replay", "--url", server.URL, "--channel", "x", file)
	if code != 1 || !strings.HasPrefix(stdout, "0 publications") || !strings.Contains(stderr, "check that a node is running there") {
		t.Errorf("code %d, stdout %q, stderr %q", code, stdout, stderr)
	}
}
