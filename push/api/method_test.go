package api_test

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/sluice-push/sluice/internal/testwait"
	"github.com/sluice-push/sluice/push"
	"github.com/sluice-push/sluice/push/api"
	"github.com/sluice-push/sluice/push/hub"
)

func TestPublish(t *testing.T) {
	p := newPlace(t, nil)
	for _, tt := range []struct{ name, body, want string }{
		{"an object", `{"channel":"a","data":{"value":1}}`, `{"result":{"offset":1,"epoch":"EPOCH"}}`},
		{"a string", `{"channel":"a","data":"x"}`, `{"result":{"offset":2,"epoch":"EPOCH"}}`},
		{"null", `{"channel":"a","data":null}`, `{"result":{"offset":3,"epoch":"EPOCH"}}`},
		{
			"what Centrifugo knows besides", `{"channel":"a","data":4,"skip_history":false,"b64data":"","delta":false}`,
			`{"result":{"offset":4,"epoch":"EPOCH"}}`,
		},
		{"tags and key", `{"channel":"a","data":5,"tags":{"b":"2","a":"1"},"key":"k"}`, `{"result":{"offset":5,"epoch":"EPOCH"}}`},
		{"over several lines", "{\"channel\":\"a\",\"data\":{\n\t\"a b\": [1,\r\n2]\n}}", `{"result":{"offset":6,"epoch":"EPOCH"}}`},
		{"characters that HTML escapes", `{"channel":"a","data":"<&>"}`, `{"result":{"offset":7,"epoch":"EPOCH"}}`},
		{"spaces on one line", `{"channel":"a","data":[1, 2]}`, `{"result":{"offset":8,"epoch":"EPOCH"}}`},
	} {
		t.Run(tt.name, func(t *testing.T) { p.want("publish", tt.body, tt.want, "a") })
	}
	p.want("history", `{"channel":"a","limit":-1}`, `{"result":{"publications":[{"data":{"value":1},"offset":1},{"data":"x","offset":2},`+
		`{"data":null,"offset":3},{"data":4,"offset":4},{"data":5,"offset":5,"key":"k","tags":{"a":"1","b":"2"}},`+
		`{"data":{"a b":[1,2]},"offset":6},{"data":"<&>","offset":7},{"data":[1,2],"offset":8}],"offset":8,"epoch":"EPOCH"}}`, "a")
}

func TestPublishRefused(t *testing.T) {
	p := newPlace(t, &api.Options{
		MaxData: 16,
		Allow:   func(name string, _ api.Action) bool { return name != "secret" },
	})
	deep := func(n int) string { return strings.Repeat("[", n) + strings.Repeat("]", n) }
	for _, tt := range []struct{ name, body, want string }{
		{"nothing", ``, `{"error":{"code":107,"message":"data is missing"}}`},
		{"null", `null`, `{"error":{"code":107,"message":"data is missing"}}`},
		{"no data", `{"channel":"a"}`, `{"error":{"code":107,"message":"data is missing"}}`},
		{"no channel", `{"data":1}`, `{"error":{"code":107,"message":"channel is missing"}}`},
		{"unknown namespace", `{"channel":"nowhere:a","data":1}`, `{"error":{"code":102,"message":"unknown channel: namespace \"nowhere\" is not configured"}}`},
		{
			"a namespace that does not allow it", `{"channel":"secret","data":1}`,
			`{"error":{"code":103,"message":"namespace \"\" does not allow this for the API"}}`,
		},
		{
			"too much data", `{"channel":"a","data":"0123456789abcdef"}`,
			`{"error":{"code":106,"message":"data has 18 bytes, at most 16 are allowed"}}`,
		},
		{
			"too long a channel", `{"channel":"` + strings.Repeat("a", 256) + `","data":1}`,
			`{"error":{"code":107,"message":"channel name has 256 bytes, at most 255 are allowed"}}`,
		},
		{
			"a control character in the channel", `{"channel":"a\u0000","data":1}`,
			`{"error":{"code":107,"message":"channel name has a control character (U+0000)"}}`,
		},
		{
			"too long a key", `{"channel":"table:a","key":"` + strings.Repeat("a", 256) + `","data":1}`,
			`{"error":{"code":107,"message":"key has 256 bytes, at most 255 are allowed"}}`,
		},
		{
			"a removal with data", `{"channel":"table:a","key":"k","removed":true,"data":1}`,
			`{"error":{"code":107,"message":"data and removed exclude each other: leave one out, or send tags with removed"}}`,
		},
		{
			"a removal from a stream", `{"channel":"a","removed":true}`,
			`{"error":{"code":107,"message":"namespace \"\" has mode stream: rows can be removed only from values and tables"}}`,
		},
	} {
		t.Run(tt.name, func(t *testing.T) {
			if got := p.call("publish", tt.body); got != tt.want {
				t.Errorf("got %s\nwant %s", got, tt.want)
			}
		})
	}
	unbounded := newPlace(t, nil)
	if got := unbounded.call("publish", `{"channel":"a","data":`+deep(129)+`}`); !strings.Contains(got, `"code":107,"message":"data: `) {
		t.Errorf("deep data: %s", got)
	}
	if got := unbounded.call("publish", `{"channel":"a","data":`+deep(128)+`}`); !strings.Contains(got, `"offset":1`) {
		t.Errorf("data as deep as may be: %s", got)
	}
}

func TestPublishOnce(t *testing.T) {
	p := newPlace(t, nil)
	for range 3 {
		p.want("publish", `{"channel":"a","data":1,"idempotency_key":"once"}`, `{"result":{"offset":1,"epoch":"EPOCH"}}`, "a")
	}
	p.want("publish", `{"channel":"b","data":1,"idempotency_key":"once"}`, `{"result":{"offset":2,"epoch":"EPOCH"}}`, "b")
	p.want("publish", `{"channel":"a","data":1,"idempotency_key":"twice"}`, `{"result":{"offset":3,"epoch":"EPOCH"}}`, "a")
	p.want("broadcast", `{"channels":["a","b"],"data":1,"idempotency_key":"once"}`,
		`{"result":{"responses":[{"result":{"offset":1,"epoch":"EPOCH"}},{"result":{"offset":2,"epoch":"EPOCH"}}]}}`, "a")
}

func TestBroadcast(t *testing.T) {
	p := newPlace(t, &api.Options{Allow: func(name string, _ api.Action) bool { return name != "secret" }})
	p.want("broadcast", `{"channels":["a","nowhere:a","secret","","b"],"data":{"x":1}}`, `{"result":{"responses":[`+
		`{"result":{"offset":1,"epoch":"EPOCH"}},{"error":{"code":102,"message":"unknown channel: namespace \"nowhere\" is not configured"}},`+
		`{"error":{"code":103,"message":"namespace \"\" does not allow this for the API"}},`+
		`{"error":{"code":107,"message":"channel is missing"}},{"result":{"offset":2,"epoch":"EPOCH"}}]}}`, "a")
	for body, want := range map[string]string{
		`{"data":1}`:                 `{"error":{"code":107,"message":"channels is missing"}}`,
		`{"channels":[],"data":1}`:   `{"error":{"code":107,"message":"channels is missing"}}`,
		`{"channels":["a"]}`:         `{"error":{"code":107,"message":"data is missing"}}`,
		`{"channel":"a","data":"x"}`: `{"error":{"code":107,"message":"channels is missing"}}`,
	} {
		if got := p.call("broadcast", body); got != want {
			t.Errorf("%s\n got %s\nwant %s", body, got, want)
		}
	}
}

func TestHistory(t *testing.T) {
	p := newPlace(t, nil)
	for i := range 5 {
		p.call("publish", fmt.Sprintf(`{"channel":"a","data":%d}`, i+1))
	}
	epoch := p.epoch("a")
	item := func(offsets ...int) string {
		var items []string
		for _, n := range offsets {
			items = append(items, fmt.Sprintf(`{"data":%d,"offset":%d}`, n, n))
		}
		return `{"result":{"publications":[` + strings.Join(items, ",") + `],"offset":5,"epoch":"EPOCH"}}`
	}
	for _, tt := range []struct{ name, rest, want string }{
		{"the position only", ``, item()},
		{"limit 0", `,"limit":0`, item()},
		{"all", `,"limit":-1`, item(1, 2, 3, 4, 5)},
		{"some", `,"limit":2`, item(1, 2)},
		{"more than there are", `,"limit":100`, item(1, 2, 3, 4, 5)},
		{"the newest", `,"limit":2,"reverse":true`, item(5, 4)},
		{"since", `,"limit":2,"since":{"offset":2,"epoch":"` + epoch + `"}`, item(3, 4)},
		{"since without epoch", `,"limit":-1,"since":{"offset":3}`, item(4, 5)},
		{"since the head", `,"limit":-1,"since":{"offset":5,"epoch":"` + epoch + `"}`, item()},
		{"before", `,"limit":-1,"reverse":true,"since":{"offset":3,"epoch":"` + epoch + `"}`, item(2, 1)},
		{"another epoch", `,"limit":-1,"since":{"offset":3,"epoch":"other"}`, `{"error":{"code":112,"message":"unrecoverable position"}}`},
	} {
		t.Run(tt.name, func(t *testing.T) { p.want("history", `{"channel":"a"`+tt.rest+`}`, tt.want, "a") })
	}
	for body, want := range map[string]string{
		`{}`:                      `{"error":{"code":107,"message":"channel is missing"}}`,
		`{"channel":"nowhere:a"}`: `{"error":{"code":102,"message":"unknown channel: namespace \"nowhere\" is not configured"}}`,
	} {
		if got := p.call("history", body); got != want {
			t.Errorf("%s\n got %s\nwant %s", body, got, want)
		}
	}
}

// TestTable: rows are published by key, replaced and removed.
func TestTable(t *testing.T) {
	p := newPlace(t, nil)
	for _, body := range []string{
		`{"channel":"table:a","key":"x","data":1}`, `{"channel":"table:a","key":"y","data":2}`,
		`{"channel":"table:a","key":"x","data":3,"tags":{"venue":"v"}}`, `{"channel":"table:a","key":"y","removed":true}`,
	} {
		p.call("publish", body)
	}
	p.want("history", `{"channel":"table:a","limit":-1}`,
		`{"result":{"publications":[{"data":3,"offset":3,"key":"x","tags":{"venue":"v"}}],"offset":4,"epoch":"EPOCH"}}`, "table:a")
}

// TestHistoryRemove: a table is cleared and continues; a stream is refused.
func TestHistoryRemove(t *testing.T) {
	p := newPlace(t, nil)
	const all = `{"channel":"table:a","limit":-1}`
	p.call("publish", `{"channel":"table:a","data":1}`)
	p.want("history_remove", `{"channel":"table:a"}`, `{"result":{}}`, "table:a")
	p.want("history", all, `{"result":{"publications":[],"offset":2,"epoch":"EPOCH"}}`, "table:a")
	p.call("publish", `{"channel":"table:a","data":2}`)
	p.want("history", all, `{"result":{"publications":[{"data":2,"offset":3}],"offset":3,"epoch":"EPOCH"}}`, "table:a")
	for body, want := range map[string]string{
		`{}`:              `{"error":{"code":107,"message":"channel is missing"}}`,
		`{"channel":"a"}`: `{"error":{"code":107,"message":"namespace \"\" has mode stream: rows can be removed only from values and tables"}}`,
	} {
		if got := p.call("history_remove", body); got != want {
			t.Errorf("got %s\nwant %s", got, want)
		}
	}
}

// TestHistoryOfForeignData: data that is not JSON, published by another program, causes an error and not a broken answer.
func TestHistoryOfForeignData(t *testing.T) {
	p := newPlace(t, nil)
	p.log.expect("response encoding failed")
	_, err := p.hub.Publish(testwait.Context(t), "a", push.Publication{Data: []byte("not JSON")}, "")
	must(t, err)
	if got := p.call("history", `{"channel":"a","limit":1}`); got != `{"error":{"code":100,"message":"internal server error"}}` {
		t.Errorf("got %s", got)
	}
}

func TestPresence(t *testing.T) {
	p := newPlace(t, &api.Options{Allow: func(name string, a api.Action) bool { return name != "chat:secret" || a != api.Presence }})
	p.connect("ann", "1", "chat:1")
	p.connect("ann", "2", "chat:1")
	p.connect("", "3", "chat:1")
	info := `"conn_info":{"name":"Ann"}`
	for _, tt := range []struct{ method, body, want string }{
		{"presence", `{"channel":"chat:1"}`, `{"result":{"presence":{"1":{"user":"ann","client":"1",` + info + `},` +
			`"2":{"user":"ann","client":"2",` + info + `},"3":{"user":"","client":"3",` + info + `}}}}`},
		{"presence", `{"channel":"chat:2"}`, `{"result":{"presence":{}}}`},
		{"presence", `{"channel":"a"}`, `{"error":{"code":108,"message":"namespace \"\" keeps no presence"}}`},
		{"presence", `{"channel":"chat:secret"}`, `{"error":{"code":103,"message":"namespace \"chat\" does not allow this for the API"}}`},
		{"presence", ``, `{"error":{"code":107,"message":"channel is missing"}}`},
		{"presence_stats", `{"channel":"chat:1"}`, `{"result":{"num_clients":3,"num_users":2}}`},
		{"presence_stats", `{"channel":"chat:2"}`, `{"result":{"num_clients":0,"num_users":0}}`},
		{"presence_stats", `{"channel":"a"}`, `{"error":{"code":108,"message":"namespace \"\" keeps no presence"}}`},
		{"presence_stats", ``, `{"error":{"code":107,"message":"channel is missing"}}`},
	} {
		if got := p.call(tt.method, tt.body); got != tt.want {
			t.Errorf("%s %s\n got %s\nwant %s", tt.method, tt.body, got, tt.want)
		}
	}
}

func TestChannelsAndInfo(t *testing.T) {
	p := newPlace(t, nil)
	p.connect("ann", "1", "chat:1", "a")
	p.connect("bob", "2", "chat:1")
	for body, want := range map[string]string{
		``:                     `{"result":{"channels":{"a":{"num_clients":1},"chat:1":{"num_clients":2}}}}`,
		`{"pattern":"chat:*"}`: `{"result":{"channels":{"chat:1":{"num_clients":2}}}}`,
		`{"pattern":"b"}`:      `{"result":{"channels":{}}}`,
	} {
		if got := p.call("channels", body); got != want {
			t.Errorf("%s\n got %s\nwant %s", body, got, want)
		}
	}
	var got struct {
		Result struct{ Nodes []map[string]any }
	}
	must(t, json.Unmarshal([]byte(p.call("info", `{}`)), &got))
	if len(got.Result.Nodes) != 1 {
		t.Fatalf("nodes: %v", got)
	}
	node := got.Result.Nodes[0]
	delete(node, "uptime")
	want := map[string]any{
		"uid": p.hub.ID(), "name": "here", "version": "v1", "num_clients": 2.0, "num_users": 2.0, "num_subs": 3.0, "num_channels": 2.0,
	}
	if fmt.Sprint(node) != fmt.Sprint(want) {
		t.Errorf("got %v\nwant %v", node, want)
	}
}

// TestAfterClose: after the hub was closed, all answers are errors.
func TestAfterClose(t *testing.T) {
	p := newPlace(t, nil)
	must(t, p.hub.Close())
	if got := p.call("history", `{"channel":"a","limit":1}`); !strings.HasPrefix(got, `{"error":{"code":100,`) {
		t.Errorf("history: %s", got)
	}
	if _, err := p.hub.Connect(&client{}, words{}, hub.SessionOptions{}); err == nil {
		t.Error("a closed hub connects")
	}
}

// A key cannot access the node's internal channels, whatever Allow returns.
func TestOwnNamespace(t *testing.T) {
	p := newPlace(t, &api.Options{Allow: func(string, api.Action) bool { return true }})
	const refused = `{"error":{"code":102,"message":"unknown channel: namespace \"@sluice\" is not configured"}}`
	for method, body := range map[string]string{
		"publish":        `{"channel":"@sluice:ready","data":1}`,
		"history":        `{"channel":"@sluice:ready","limit":1}`,
		"history_remove": `{"channel":"@sluice:ready"}`,
		"presence":       `{"channel":"@sluice:ready"}`,
		"presence_stats": `{"channel":"@sluice:ready"}`,
	} {
		p.want(method, body, refused, "a")
	}
	p.want("broadcast", `{"channels":["@sluice:ready"],"data":1}`, `{"result":{"responses":[`+refused+`]}}`, "a")
}
