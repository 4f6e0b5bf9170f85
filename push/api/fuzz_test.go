package api_test

import (
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/sluice-push/sluice/push/api"
)

// FuzzBody: for every body, the answer is one JSON object with a result or an error, and never an internal error.
func FuzzBody(f *testing.F) {
	methods := []string{
		"publish", "broadcast", "history", "history_remove", "presence", "presence_stats", "channels", "info", "disconnect", "unsubscribe", "other",
	}
	for _, seed := range []string{
		``, `{}`, `null`, `[]`, `{"channel":"a","data":{"x":[1,"2",null]},"tags":{"a":"b"},"key":"k","idempotency_key":"i"}`,
		`{"channel":"table:a","key":"k","removed":true}`, `{"channels":["a","chat:b",""],"data":"\ud800"}`,
		`{"channel":"a","limit":-1,"since":{"offset":18446744073709551615,"epoch":"x"},"reverse":true}`,
		`{"user":"u","client":"c","code":3000,"reason":"r","whitelist":["a"],"disconnect":{"code":4999}}`,
		`{"pattern":"*a**b*"}`, "{\"channel\":\"a\",\"data\":\"\xff\"}", `{"channel":"a","data":` + strings.Repeat("[", 100),
	} {
		for i := range methods {
			f.Add(uint8(i), seed)
		}
	}
	p := newPlace(f, &api.Options{MaxBody: 1 << 16, MaxData: 1 << 12})
	f.Fuzz(func(t *testing.T, method uint8, body string) {
		w := httptest.NewRecorder()
		r := httptest.NewRequest(http.MethodPost, api.Prefix+methods[int(method)%len(methods)], strings.NewReader(body))
		p.handler.ServeHTTP(w, r)
		var answer struct {
			Error *struct {
				Code    uint32
				Message string
			}
			Result json.RawMessage
		}
		if err := json.Unmarshal(w.Body.Bytes(), &answer); err != nil {
			t.Fatalf("%s\nis answered %q: %v", body, w.Body, err)
		}
		switch {
		case (answer.Error == nil) == (answer.Result == nil):
			t.Errorf("%s\nis answered %s", body, w.Body)
		case w.Code != 200 && w.Code != 400 && w.Code != 404 && w.Code != 413, w.Code != 200 && answer.Error == nil:
			t.Errorf("%s\nhas status %d: %s", body, w.Code, w.Body)
		case answer.Error != nil && answer.Error.Code == 100:
			t.Errorf("%s\nis answered %s", body, w.Body)
		}
	})
}
