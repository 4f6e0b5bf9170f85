package api_test

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"

	"github.com/sluice-push/sluice/push"
	"github.com/sluice-push/sluice/push/api"
	"github.com/sluice-push/sluice/push/broker"
	"github.com/sluice-push/sluice/push/broker/memory"
	"github.com/sluice-push/sluice/push/hub"
)

func Example() {
	b := memory.New(nil)
	defer func() { _ = b.Close() }()
	news := hub.Namespace{Namespace: broker.Namespace{Name: "news", Mode: push.Stream, History: push.History{Size: 100}}}
	h, err := hub.New(context.Background(), b, []hub.Namespace{news}, nil)
	if err != nil {
		fmt.Println(err)
		return
	}
	defer func() { _ = h.Close() }()

	handler := api.New(h, &api.Options{
		Authorize: func(key string, _ api.Scope) api.Grant { return api.Grant{Known: key == "secret", Allowed: true} },
	})
	call := func(method, body string) {
		r := httptest.NewRequest(http.MethodPost, api.Prefix+method, strings.NewReader(body))
		r.Header.Set("X-API-Key", "secret")
		w := httptest.NewRecorder()
		handler.ServeHTTP(w, r)
		fmt.Println(w.Code, strings.Contains(w.Body.String(), `"offset":1`), strings.Contains(w.Body.String(), `"text":"hello"`))
	}
	call("publish", `{"channel":"news:today","data":{"text":"hello"}}`)
	call("history", `{"channel":"news:today","limit":10}`)
	// Output:
	// 200 true false
	// 200 true true
}
