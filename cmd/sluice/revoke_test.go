package main_test

import (
	"errors"
	"io"
	"net/http"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/gorilla/websocket"

	"github.com/sluice-push/sluice/internal/testwait"
	"github.com/sluice-push/sluice/push/config"
)

// tokenClient is a client with a token, as the node answers its connect command.
type tokenClient struct {
	t    *testing.T
	conn *websocket.Conn
}

// connectWithToken connects a client. The close code is 0 if it is connected.
func connectWithToken(t *testing.T, p *process, token string) (c *tokenClient, code int) {
	t.Helper()
	conn, _, err := websocket.DefaultDialer.DialContext(t.Context(), "ws://"+p.public+"/connection/websocket", nil)
	must(t, err)
	t.Cleanup(func() { _ = conn.Close() })
	must(t, conn.SetReadDeadline(time.Now().Add(time.Minute)))
	must(t, conn.WriteMessage(websocket.TextMessage, []byte(`{"id":1,"connect":{"token":"`+token+`"}}`)))
	c = &tokenClient{t, conn}
	_, answer, err := conn.ReadMessage()
	if err == nil {
		if !strings.Contains(string(answer), `"connect":{`) {
			t.Fatalf("connecting was answered %s", answer)
		}
		return c, 0
	}
	return c, codeOf(t, err)
}

func codeOf(t *testing.T, err error) int {
	t.Helper()
	closed := new(websocket.CloseError)
	if !errors.As(err, &closed) {
		t.Fatalf("the connection ended with %v", err)
	}
	return closed.Code
}

// end returns the code with which the server ends the connection.
func (c *tokenClient) end() int {
	c.t.Helper()
	for {
		if _, _, err := c.conn.ReadMessage(); err != nil {
			return codeOf(c.t, err)
		}
	}
}

// callAPI calls a method of the API that has to succeed.
func callAPI(t *testing.T, p *process, method, body string) {
	t.Helper()
	r, err := http.NewRequestWithContext(t.Context(), http.MethodPost, "http://"+p.public+"/api/"+method, strings.NewReader(body))
	must(t, err)
	r.Header.Set("X-API-Key", "key")
	answer, err := http.DefaultClient.Do(r)
	must(t, err)
	defer func() { _ = answer.Body.Close() }()
	text, err := io.ReadAll(answer.Body)
	must(t, err)
	if answer.StatusCode != http.StatusOK || !strings.Contains(string(text), `"result":{}`) {
		t.Fatalf("%s %s: status %d: %s", method, body, answer.StatusCode, text)
	}
}

// TestRevoke: a revocation ends the clients that it is about at once, keeps them out, outlives kill -9, and can be taken back.
func TestRevoke(t *testing.T) {
	t.Parallel()
	file := writeFile(t, "config.yaml", secretConfig+`
api: {keys: [{name: backend, hash: "`+config.HashKey("key")+`", scopes: [control]}]}
`)
	data := filepath.Join(t.TempDir(), "data")
	p := startNode(t, "--config", file, "--data", data)
	ann := command(t, "token", "make", "-c", file, "--user", "ann")
	bob := command(t, "token", "make", "-c", file, "--user", "bob", "--id", "b1")
	bobToo := command(t, "token", "make", "-c", file, "--user", "bob", "--id", "b2")
	connect := func(token string) *tokenClient {
		t.Helper()
		c, code := connectWithToken(t, p, token)
		if code != 0 {
			t.Fatalf("the client is refused with %d", code)
		}
		return c
	}
	refused := func(token string) {
		t.Helper()
		if _, code := connectWithToken(t, p, token); code != 3500 {
			t.Errorf("a revoked token is answered %d", code)
		}
	}
	a, b := connect(ann), connect(bob)
	callAPI(t, p, "block_user", `{"user":"ann"}`)
	callAPI(t, p, "revoke_token", `{"uid":"b1"}`)
	for _, c := range []*tokenClient{a, b} {
		if code := c.end(); code != 3500 {
			t.Errorf("the connection ended with %d", code)
		}
	}
	refused(ann)
	refused(bob)
	p.kill()
	p = startNode(t, "--config", file, "--data", data)
	refused(ann)
	refused(bob)
	other := connect(bobToo)
	callAPI(t, p, "invalidate_user_tokens", `{"user":"bob"}`)
	if code := other.end(); code != 3500 {
		t.Errorf("the connection ended with %d", code)
	}
	refused(bobToo)
	callAPI(t, p, "unblock_user", `{"user":"ann"}`)
	testwait.True(t, "the user may connect again", func() bool {
		_, code := connectWithToken(t, p, ann)
		return code == 0
	})
}
