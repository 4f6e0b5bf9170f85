package api_test

import (
	"bytes"
	"compress/gzip"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/sluice-push/sluice/push"
	"github.com/sluice-push/sluice/push/api"
)

// send calls a method with a raw body, and returns the status and the answer.
func (p *place) send(method, body, encoding string) (status int, answer string) {
	r := httptest.NewRequest(http.MethodPost, api.Prefix+method, strings.NewReader(body))
	if encoding != "" {
		r.Header.Set("Content-Encoding", encoding)
	}
	return p.do(r)
}

// Text that would be changed is refused in every member of every method: encoding/json replaces bytes that it cannot read by U+FFFD, so that two
// channels, or two idempotency keys, would become one (golang/go#16282).
func TestTextThatWouldBeChanged(t *testing.T) {
	p := newPlace(t, nil)
	for _, bad := range []string{"\xff", "\xc3", "\xed\xa0\x80", `\ud800`, `\udc00x`, `\ud83d\ud83d`} {
		for _, tt := range []struct{ method, body string }{
			{"publish", `{"channel":"aX","data":1}`},
			{"publish", `{"channel":"a","data":"X"}`},
			{"publish", `{"channel":"a","data":{"X":1}}`},
			{"publish", `{"channel":"a","data":1,"idempotency_key":"X"}`},
			{"publish", `{"channel":"a","data":1,"key":"X"}`},
			{"publish", `{"channel":"a","data":1,"tags":{"X":"1"}}`},
			{"publish", `{"channel":"a","data":1,"tags":{"a":"X"}}`},
			{"publish", `{"channel":"a","data":1,"other":"X"}`},
			{"broadcast", `{"channels":["X"],"data":1}`},
			{"history", `{"channel":"X"}`},
			{"history", `{"channel":"a","since":{"epoch":"X"}}`},
			{"history_remove", `{"channel":"X"}`},
			{"presence", `{"channel":"X"}`},
			{"presence_stats", `{"channel":"X"}`},
			{"channels", `{"pattern":"X"}`},
			{"disconnect", `{"user":"X"}`},
			{"disconnect", `{"user":"a","reason":"X"}`},
			{"disconnect", `{"user":"a","whitelist":["X"]}`},
			{"unsubscribe", `{"user":"a","channel":"X"}`},
			{"pace", `{"user":"X","interval":1}`},
		} {
			body := strings.ReplaceAll(tt.body, "X", bad)
			if status, got := p.send(tt.method, body, ""); status != http.StatusBadRequest || !strings.Contains(got, `"code":107`) {
				t.Errorf("%s %q: status %d, %s", tt.method, body, status, got)
			}
		}
	}
	if got := p.call("history", `{"channel":"a","limit":10}`); !strings.Contains(got, `"publications":[]`) {
		t.Errorf("something was stored: %s", got)
	}
	if status, got := p.send("publish", `{"channel":"a","data":"\ud83d\ude00"}`, ""); status != http.StatusOK {
		t.Errorf("a whole pair: status %d, %s", status, got)
	}
}

// Names of members are matched exactly.
func TestMemberNames(t *testing.T) {
	p := newPlace(t, nil)
	for method, body := range map[string]string{
		"publish":   `{"Channel":"a","data":1}`,
		"history":   `{"CHANNEL":"a"}`,
		"broadcast": `{"Channels":["a"],"data":1}`,
	} {
		if _, got := p.send(method, body, ""); !strings.Contains(got, "is missing") {
			t.Errorf("%s %s: %s", method, body, got)
		}
	}
	if _, got := p.send("publish", `{"channel":"a","Channel":"b","data":1,"Data":2}`, ""); !strings.Contains(got, `"offset":1`) {
		t.Errorf("other names beside: %s", got)
	}
	if got := p.call("history", `{"channel":"a","limit":1}`); !strings.Contains(got, `"data":1`) {
		t.Errorf("it became %s", got)
	}
}

// A member of Centrifugo's API that changes the meaning of a request is either supported or refused.
func TestMembersThatChangeTheMeaning(t *testing.T) {
	p := newPlace(t, nil)
	for body, want := range map[string]string{
		`{"channel":"a","data":1,"skip_history":true}`:        "skip_history is not supported",
		`{"channel":"a","data":1,"version":3}`:                "version is not supported",
		`{"channel":"a","data":1,"version_epoch":"x"}`:        "version_epoch is not supported",
		`{"channel":"a","data":1,"b64data":"Mg=="}`:           "data and b64data exclude each other: send one of them",
		`{"channel":"a","b64data":"e30"}`:                     "b64data",
		`{"channel":"a","b64data":"/w=="}`:                    "data: ",
		`{"channel":"a","b64data":"eyJhIjoxfQ=="}`:            `"offset":`,
		`{"channel":"a","data":2,"skip_history":false}`:       `"offset":`,
		`{"channel":"a","data":2,"version":0,"b64data":null}`: `"offset":`,
	} {
		if _, got := p.send("publish", body, ""); !strings.Contains(got, want) {
			t.Errorf("%s: %s, want %s", body, got, want)
		}
	}
	if got := p.call("history", `{"channel":"a","limit":-1}`); !strings.Contains(got, `"data":{"a":1}`) {
		t.Errorf("b64data became %s", got)
	}
	for method, body := range map[string]string{
		"disconnect": `{"user":"a","session":"s"}`, "unsubscribe": `{"user":"a","channel":"a","session":"s"}`,
	} {
		if _, got := p.send(method, body, ""); !strings.Contains(got, "session is not supported") {
			t.Errorf("%s %s: %s", method, body, got)
		}
	}
}

// A body may be compressed by gzip, and its decompressed size is bounded.
func TestCompressedBody(t *testing.T) {
	p := newPlace(t, &api.Options{MaxBody: 1000})
	compressed := func(text string) string {
		var out bytes.Buffer
		w := gzip.NewWriter(&out)
		if _, err := w.Write([]byte(text)); err != nil {
			t.Fatal(err)
		}
		if err := w.Close(); err != nil {
			t.Fatal(err)
		}
		return out.String()
	}
	const small = `{"channel":"a","data":1}`
	for _, tt := range []struct {
		name, body, encoding string
		status               int
	}{
		{"gzip", compressed(small), "gzip", 200},
		{"gzip in capitals", compressed(small), "GZIP", 200},
		{"identity", small, "identity", 200},
		{"as much as may be", compressed(small + strings.Repeat(" ", 1000-len(small))), "gzip", 200},
		{"too much", compressed(small + strings.Repeat(" ", 1001-len(small))), "gzip", 413},
		{"a bomb", compressed(small + strings.Repeat(" ", 10<<20)), "gzip", 413},
		{"not compressed", small, "gzip", 400},
		{"cut off", compressed(small)[:20], "gzip", 400},
		{"another", small, "br", 415},
		{"two", small, "gzip, br", 415},
	} {
		if status, got := p.send("publish", tt.body, tt.encoding); status != tt.status {
			t.Errorf("%s: status %d, %s", tt.name, status, got)
		}
	}
}

// A publication that is larger than brokers store is refused with a permanent error.
func TestLargeTagsAndKeys(t *testing.T) {
	p := newPlace(t, nil)
	x := func(n int) string { return strings.Repeat("x", n) }
	for body, want := range map[string]string{
		`{"channel":"a","data":1,"tags":{"k":"` + x(push.MaxTagBytes-1) + `"}}`:               `"offset":`,
		`{"channel":"a","data":1,"tags":{"k":"` + x(push.MaxTagBytes) + `"}}`:                 `{"code":106,"message":"the tags have 16385 bytes, at most 16384 are allowed"}`,
		`{"channel":"a","data":1,"idempotency_key":"` + x(push.MaxIdempotencyKeyLen) + `"}`:   `"offset":`,
		`{"channel":"a","data":1,"idempotency_key":"` + x(push.MaxIdempotencyKeyLen+1) + `"}`: `{"code":106,"message":"the idempotency key has 1025 bytes, at most 1024 are allowed"}`,
	} {
		if _, got := p.send("publish", body, ""); !strings.Contains(got, want) {
			t.Errorf("%.60s…: %s, want %s", body, got, want)
		}
	}
}
