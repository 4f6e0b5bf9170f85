package route_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/sluice-push/sluice/push"
	"github.com/sluice-push/sluice/push/gateway/route"
)

// What a refused client is answered.
func Example() {
	w := httptest.NewRecorder()
	route.Write(w, http.StatusServiceUnavailable, "the node is shutting down", []route.Route{{URL: "wss://b.example.org"}})
	fmt.Print(w.Body)
	fmt.Println(string(route.Move([]string{"wss://b.example.org"}, time.Second)))
	// Output:
	// {"reason":"the node is shutting down","routes":[{"url":"wss://b.example.org"}]}
	// {"sluice":{"move":{"routes":["wss://b.example.org"],"retry_after":1000}}}
}

// URLs that cannot be in a header are left out of it.
func TestField(t *testing.T) {
	for want, urls := range map[string][]string{
		"":                        {"", "a b", "a\nb: c", "\x00", "wss://安娜.example.org", "a\x7f"},
		"wss://a.example.org":     {"wss://a.example.org", "x\r\ny"},
		"wss://a wss://b?c=d%20e": {"wss://a", "wss://b?c=d%20e"},
	} {
		if got := route.Field(urls); got != want {
			t.Errorf("%q: %q, want %q", urls, got, want)
		}
	}
	if got := route.Field(nil); got != "" {
		t.Errorf("%q", got)
	}
}

// A message has valid JSON whatever the URLs are, and a list even if it is empty; a wait is not negative.
func TestMove(t *testing.T) {
	for want, got := range map[string][]byte{
		`{"sluice":{"move":{"routes":[],"retry_after":0}}}`:                       route.Move(route.URLs(nil), -time.Second),
		`{"sluice":{"move":{"routes":["a\"]}\n\u003c"],"retry_after":86400000}}}`: route.Move([]string{"a\"]}\n<"}, 24*time.Hour),
	} {
		if string(got) != want || !json.Valid(got) {
			t.Errorf("%s, want %s", got, want)
		}
	}
}

// No request makes a query with a token or a channel that is longer than allowed, and none panics.
func FuzzParseQuery(f *testing.F) {
	for _, seed := range []string{"", "token=a", "token=a&token=b", "channel=a%00", "channel=:", "%zz", "a;b", "token=" + strings.Repeat("x", 200)} {
		f.Add(seed, "Bearer x")
		f.Add(seed, "")
	}
	f.Add("", "Bearer")
	f.Add("token=a", "bearer   ")
	f.Fuzz(func(t *testing.T, query, header string) {
		r := &http.Request{URL: &url.URL{RawQuery: query}, Header: http.Header{"Authorization": {header}}}
		q, err := route.ParseQuery(r, 100)
		if err != nil {
			return
		}
		if len(q.Token) > 100 || q.Channel != "" && push.CheckChannel(q.Channel) != nil {
			t.Errorf("%+v", q)
		}
	})
}
