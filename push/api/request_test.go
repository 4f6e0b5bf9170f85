package api_test

import (
	"bufio"
	"encoding/json"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/sluice-push/sluice/internal/testwait"
	"github.com/sluice-push/sluice/push/api"
	"github.com/sluice-push/sluice/push/hub"
)

// keys knows two keys.
func keys(key string, s api.Scope) api.Grant {
	switch key {
	case "publisher":
		return api.Grant{Known: true, Allowed: s == api.ScopePublish}
	case "all":
		return api.Grant{Known: true, Allowed: true}
	case "chat":
		return api.Grant{Known: true, Allowed: true, Namespace: func(name string) bool { return name == "chat" }}
	}
	return api.Grant{}
}

func TestAuthorization(t *testing.T) {
	p := newPlace(t, &api.Options{Authorize: keys})
	for _, tt := range []struct {
		name          string
		header, value string
		method        string
		status        int
	}{
		{"no key", "", "", "publish", 401},
		{"X-API-Key", "X-API-Key", "all", "publish", 200},
		{"Authorization", "Authorization", "apikey all", "publish", 200},
		{"the scheme in any case", "Authorization", "ApiKey  all ", "publish", 200},
		{"another scheme", "Authorization", "Bearer all", "publish", 401},
		{"no scheme", "Authorization", "all", "publish", 401},
		{"an unknown key", "X-API-Key", "other", "publish", 401},
		{"a scheme in the wrong header", "X-API-Key", "apikey all", "publish", 401},
		{"the scope", "X-API-Key", "publisher", "publish", 200},
		{"the same scope", "X-API-Key", "publisher", "broadcast", 200},
		{"another scope", "X-API-Key", "publisher", "history", 403},
		{"another scope: presence", "X-API-Key", "publisher", "presence", 403},
		{"another scope: presence_stats", "X-API-Key", "publisher", "presence_stats", 403},
		{"another scope: channels", "X-API-Key", "publisher", "channels", 403},
		{"another scope: info", "X-API-Key", "publisher", "info", 403},
		{"another scope: disconnect", "X-API-Key", "publisher", "disconnect", 403},
		{"another scope: unsubscribe", "X-API-Key", "publisher", "unsubscribe", 403},
		{"all scopes", "X-API-Key", "all", "disconnect", 200},
	} {
		t.Run(tt.name, func(t *testing.T) {
			r := httptest.NewRequest(http.MethodPost, api.Prefix+tt.method, strings.NewReader(`{"channel":"a","channels":["a"],"data":1,"user":"u"}`))
			if tt.header != "" {
				r.Header.Set(tt.header, tt.value)
			}
			status, body := p.do(r)
			if status != tt.status {
				t.Errorf("status %d, want %d: %s", status, tt.status, body)
			}
			if code := map[int]string{401: `"code":101`, 403: `"code":103`}[status]; !strings.Contains(body, code) {
				t.Errorf("the answer lacks %s: %s", code, body)
			}
		})
	}
}

// TestKeyOfNamespace: a key of some namespaces is for their channels only, and for no method that is not for a channel.
func TestKeyOfNamespace(t *testing.T) {
	p := newPlace(t, &api.Options{Authorize: keys})
	p.connect("u", "c1", "chat:a", "b")
	do := func(method, body string) string {
		r := httptest.NewRequest(http.MethodPost, api.Prefix+method, strings.NewReader(body))
		r.Header.Set("X-API-Key", "chat")
		_, answer := p.do(r)
		return answer
	}
	for _, tt := range []struct{ method, body string }{
		{"publish", `{"channel":"CHANNEL","data":1}`},
		{"history", `{"channel":"CHANNEL"}`},
		{"presence", `{"channel":"CHANNEL"}`},
		{"presence_stats", `{"channel":"CHANNEL"}`},
		{"unsubscribe", `{"channel":"CHANNEL","user":"x"}`},
		{"pace", `{"channel":"CHANNEL","user":"x","interval":5}`},
	} {
		if got := do(tt.method, strings.ReplaceAll(tt.body, "CHANNEL", "chat:a")); strings.Contains(got, "error") {
			t.Errorf("%s in the namespace: %s", tt.method, got)
		}
		for _, other := range []string{"a", "table:a", ":chat:a", "chats:a"} {
			if got := do(tt.method, strings.ReplaceAll(tt.body, "CHANNEL", other)); !strings.Contains(got, `{"error":{"code":103,"message":"the API key is not for namespace`) {
				t.Errorf("%s of %s: %s", tt.method, other, got)
			}
		}
	}
	if got := do("history_remove", `{"channel":"table:a"}`); !strings.Contains(got, `"code":103`) {
		t.Errorf("history_remove: %s", got)
	}
	if got := do("broadcast", `{"channels":["chat:a","b"],"data":1}`); strings.Count(got, `"code":103`) != 1 || strings.Count(got, `"offset"`) != 1 {
		t.Errorf("broadcast: %s", got)
	}
	if got := do("channels", `{}`); !strings.Contains(got, "chat:a") || strings.Contains(got, `"b"`) {
		t.Errorf("channels: %s", got)
	}
	for method, body := range map[string]string{
		"info":                   `{}`,
		"disconnect":             `{"user":"u"}`,
		"pace":                   `{"channel":"chat:a","user":"u","bandwidth":1000}`,
		"revoke_token":           `{"uid":"x"}`,
		"invalidate_user_tokens": `{"user":"u"}`,
		"block_user":             `{"user":"u"}`,
		"unblock_user":           `{"user":"u"}`,
	} {
		if got := do(method, body); !strings.Contains(got, `"code":103,"message":"the API key is only for some namespaces`) {
			t.Errorf("%s: %s", method, got)
		}
	}
	if got := do("pace", `{"user":"u","interval":5}`); !strings.Contains(got, `"code":103`) {
		t.Errorf("pace of all channels: %s", got)
	}
}

// TestRefusedBeforeReading: if a caller may not call the method, its body is not read.
func TestRefusedBeforeReading(t *testing.T) {
	p := newPlace(t, &api.Options{Authorize: keys})
	r := httptest.NewRequest(http.MethodPost, api.Prefix+"publish", unreadable{t})
	if status, _ := p.do(r); status != 401 {
		t.Errorf("status %d", status)
	}
}

type unreadable struct{ t *testing.T }

func (u unreadable) Read([]byte) (int, error) {
	u.t.Error("the body is read")
	return 0, nil
}

func TestStatus(t *testing.T) {
	p := newPlace(t, &api.Options{MaxBody: 100})
	for _, tt := range []struct {
		name, verb, method, body string
		status                   int
		want                     string
	}{
		{"unknown method", "POST", "subscribe", `{}`, 404, `no method \"subscribe\": use publish, broadcast, `},
		{"no method", "POST", "", `{}`, 404, `no method \"\"`},
		{"a method below", "POST", "publish/", `{}`, 404, `no method`},
		{"GET", "GET", "publish", ``, 405, `use POST`},
		{"PUT", "PUT", "publish", `{}`, 405, `use POST`},
		{"as much as may be", "POST", "publish", `{"channel":"a","data":1` + strings.Repeat(" ", 76) + `}`, 200, `"offset":1`},
		{"too large", "POST", "publish", `{"channel":"a","data":1` + strings.Repeat(" ", 77) + `}`, 413, `the body exceeds 100 bytes`},
	} {
		t.Run(tt.name, func(t *testing.T) {
			status, body := p.do(httptest.NewRequest(tt.verb, api.Prefix+tt.method, strings.NewReader(tt.body)))
			if status != tt.status || !strings.Contains(body, tt.want) {
				t.Errorf("status %d, %s\nwant %d, %s", status, body, tt.status, tt.want)
			}
		})
	}
	w := httptest.NewRecorder()
	p.handler.ServeHTTP(w, httptest.NewRequest(http.MethodGet, api.Prefix+"publish", nil))
	if got := w.Header().Get("Allow"); got != "POST" {
		t.Errorf("Allow: %q", got)
	}
}

// TestMalformed: the answer says which member is wrong, and what is wanted.
func TestMalformed(t *testing.T) {
	p := newPlace(t, nil)
	for _, tt := range []struct{ method, body, want string }{
		{"publish", `{`, `unexpected end of JSON input at byte 1`},
		{"publish", `{"channel":"a"} x`, `invalid character 'x' after top-level value at byte 17`},
		{"publish", `{"channel":"a" "data":1}`, `invalid character '"' after object key:value pair at byte 16`},
		{"publish", `[]`, `expected an object, not array`},
		{"publish", `"text"`, `expected an object, not string`},
		{"publish", `{"channel":5}`, `channel: expected a string, not number`},
		{"publish", `{"channel":"a","data":1,"removed":"yes"}`, `removed: expected true or false, not string`},
		{"publish", `{"channel":"a","data":1,"tags":[]}`, `tags: expected an object, not array`},
		{"publish", `{"channel":"a","data":1,"tags":{"venue":1}}`, `tags: expected a string, not number`},
		{"publish", `{"channel":"a","data":1,"idempotency_key":1}`, `idempotency_key: expected a string, not number`},
		{"broadcast", `{"channels":"a"}`, `channels: expected an array, not string`},
		{"broadcast", `{"channels":[1]}`, `channels: expected a string, not number`},
		{"broadcast", `{"channels":["a"],"key":1}`, `key: expected a string, not number`},
		{"history", `{"channel":"a","limit":"1"}`, `limit: expected a whole number, not string`},
		{"history", `{"channel":"a","limit":1.5}`, `limit: expected a whole number, not number 1.5`},
		{"history", `{"channel":"a","limit":1e99}`, `limit: expected a whole number, not number 1e99`},
		{"history", `{"channel":"a","since":1}`, `since: expected an object, not number`},
		{"history", `{"channel":"a","since":{"offset":-1}}`, `since.offset: expected a whole number of 0 or more, not number -1`},
		{"history", `{"channel":"a","since":{"epoch":{}}}`, `since.epoch: expected a string, not object`},
		{"disconnect", `{"user":"a","code":70000}`, `code: expected a whole number from 0 to 65535, not number 70000`},
		{"disconnect", `{"user":"a","disconnect":{"code":-1}}`, `disconnect.code: expected a whole number from 0 to 65535, not number -1`},
		{"disconnect", `{"user":"a","whitelist":"b"}`, `whitelist: expected an array, not string`},
	} {
		t.Run(tt.method+" "+tt.body, func(t *testing.T) {
			status, got := p.post(tt.method, tt.body)
			var answer struct {
				Error struct {
					Code    int
					Message string
				}
			}
			must(t, json.Unmarshal([]byte(got), &answer))
			want := "the body is not a valid " + tt.method + " request: " + tt.want
			if status != 400 || answer.Error.Code != 107 || answer.Error.Message != want {
				t.Errorf("status %d, %s\nwant %s", status, got, want)
			}
		})
	}
}

// TestSlowBody: a caller that does not send its body gets an answer after the timeout.
func TestSlowBody(t *testing.T) {
	p := newPlace(t, &api.Options{Timeout: 50 * time.Millisecond})
	srv := httptest.NewServer(p.handler)
	defer srv.Close()
	conn, err := net.Dial("tcp", srv.Listener.Addr().String())
	must(t, err)
	defer func() { _ = conn.Close() }()
	must(t, conn.SetDeadline(time.Now().Add(patience)))
	_, err = fmt.Fprintf(conn, "POST /api/publish HTTP/1.1\r\nHost: x\r\nContent-Length: 100\r\n\r\n{")
	must(t, err)
	res, err := http.ReadResponse(bufio.NewReader(conn), nil)
	must(t, err)
	defer func() { _ = res.Body.Close() }()
	if res.StatusCode != http.StatusBadRequest {
		t.Errorf("status %d", res.StatusCode)
	}
}

// TestConcurrentUse: many callers, each of which sees its own publications in order.
func TestConcurrentUse(t *testing.T) {
	p := newPlace(t, nil)
	srv := httptest.NewServer(p.handler)
	defer srv.Close()
	var wg sync.WaitGroup
	for i := range 8 {
		wg.Go(func() {
			for j := range 25 {
				for _, call := range []struct{ method, body string }{
					{"publish", fmt.Sprintf(`{"channel":"c%d","data":%d}`, i, j)},
					{"broadcast", `{"channels":["x","y"],"data":1}`},
					{"history", `{"channel":"x","limit":3,"reverse":true}`},
					{"channels", `{}`},
					{"info", `{}`},
					{"disconnect", `{"user":"nobody"}`},
				} {
					res, err := srv.Client().Post(srv.URL+api.Prefix+call.method, "application/json", strings.NewReader(call.body))
					if err != nil {
						t.Error(err)
						return
					}
					_ = res.Body.Close()
					if res.StatusCode != http.StatusOK {
						t.Errorf("%s: status %d", call.method, res.StatusCode)
					}
				}
			}
		})
	}
	testwait.Return(t, wg.Wait)
	for i := range 8 {
		found, err := p.hub.History(testwait.Context(t), fmt.Sprintf("c%d", i), hub.HistoryRequest{Limit: -1})
		must(t, err)
		for j, e := range found.Entries {
			if string(e.Data) != fmt.Sprint(j) {
				t.Fatalf("channel c%d: %s at %d", i, e.Data, j)
			}
		}
		if len(found.Entries) != 25 {
			t.Errorf("channel c%d has %d publications", i, len(found.Entries))
		}
	}
}
