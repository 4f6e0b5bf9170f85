package json_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"reflect"
	"strings"
	"testing"

	"github.com/sluice-push/sluice/push"
	"github.com/sluice-push/sluice/push/protocol"
	clientjson "github.com/sluice-push/sluice/push/protocol/json"
)

// commandForms are commands with their JSON encodings, for both directions.
var commandForms = []struct {
	name string
	json string
	want protocol.Command
}{
	{"pong", `{}`, protocol.Command{}},
	{"ping", `{"id":7,"ping":{}}`, protocol.Command{ID: 7, Kind: protocol.KindPing}},
	{"connect empty", `{"id":1,"connect":{}}`, protocol.Command{ID: 1, Kind: protocol.KindConnect}},
	{
		"connect",
		`{"id":1,"connect":{"token":"a.b.c","data":{"x":[1,2]},"subs":{"a":{"recover":true,"epoch":"e","offset":9007199254740991},` +
			`"b":{}},"name":"js","version":"1.2","headers":{"X-A":"1","X-B":""},"flag":3}}`,
		protocol.Command{ID: 1, Kind: protocol.KindConnect, Connect: protocol.ConnectRequest{
			Token: "a.b.c", Data: []byte(`{"x":[1,2]}`), Name: "js", Version: "1.2", Headers: map[string]string{"X-A": "1", "X-B": ""},
			Subs: map[string]protocol.SubscribeRequest{
				"a": {Channel: "a", Recover: true, Position: push.Position{Epoch: "e", Offset: push.MaxOffset}},
				"b": {Channel: "b"},
			},
			Flag: 3,
		}},
	},
	{
		"subscribe",
		`{"id":2,"subscribe":{"channel":"quotes:all","token":"t","recover":true,"epoch":"xyz","offset":12,"data":"d","positioned":true,` +
			`"recoverable":true,"join_leave":true,"delta":"fossil","flag":1,"type":1,"tf":{"key":"a","cmp":"eq","val":"b"}}}`,
		protocol.Command{ID: 2, Kind: protocol.KindSubscribe, Subscribe: protocol.SubscribeRequest{
			Channel: "quotes:all", Token: "t", Recover: true, Position: push.Position{Epoch: "xyz", Offset: 12}, Data: []byte(`"d"`),
			Positioned: true, Recoverable: true, JoinLeave: true, Delta: "fossil", Flag: protocol.SubscribeFlagCompaction, Type: 1,
			Filter: []byte(`{"key":"a","cmp":"eq","val":"b"}`),
		}},
	},
	{
		"subscribe to a map", `{"id":2,"subscribe":{"channel":"quotes:all","epoch":"xyz","offset":12,"type":1,"phase":2,"limit":-5,"cursor":"c"}}`,
		protocol.Command{ID: 2, Kind: protocol.KindSubscribe, Subscribe: protocol.SubscribeRequest{
			Channel: "quotes:all", Position: push.Position{Epoch: "xyz", Offset: 12}, Type: protocol.SubscriptionMap,
			Phase: protocol.PhaseState, Limit: -5, Cursor: "c",
		}},
	},
	{
		"unsubscribe", `{"id":3,"unsubscribe":{"channel":"a"}}`,
		protocol.Command{ID: 3, Kind: protocol.KindUnsubscribe, Unsubscribe: protocol.ChannelRequest{Channel: "a"}},
	},
	{
		"publish", `{"id":4,"publish":{"channel":"a","data":{"input":"hé"},"key":"k","tags":{"a":"1","b":"2"}}}`,
		protocol.Command{ID: 4, Kind: protocol.KindPublish, Publish: protocol.PublishRequest{
			Channel: "a", Data: []byte(`{"input":"hé"}`), Key: "k", Tags: map[string]string{"a": "1", "b": "2"},
		}},
	},
	{
		"publish removal", `{"id":4,"publish":{"channel":"a","key":"k","removed":true,"type":1}}`,
		protocol.Command{ID: 4, Kind: protocol.KindPublish, Publish: protocol.PublishRequest{
			Channel: "a", Key: "k", Removed: true, Type: 1,
		}},
	},
	{
		"publish null", `{"id":4,"publish":{"channel":"a","data":null}}`,
		protocol.Command{ID: 4, Kind: protocol.KindPublish, Publish: protocol.PublishRequest{Channel: "a", Data: []byte(`null`)}},
	},
	{
		"presence", `{"id":5,"presence":{"channel":"a"}}`,
		protocol.Command{ID: 5, Kind: protocol.KindPresence, Presence: protocol.ChannelRequest{Channel: "a"}},
	},
	{
		"presence_stats", `{"id":6,"presence_stats":{"channel":"a"}}`,
		protocol.Command{ID: 6, Kind: protocol.KindPresenceStats, PresenceStats: protocol.ChannelRequest{Channel: "a"}},
	},
	{
		"history", `{"id":7,"history":{"channel":"a","limit":-1,"since":{"offset":3,"epoch":"e"},"reverse":true}}`,
		protocol.Command{ID: 7, Kind: protocol.KindHistory, History: protocol.HistoryRequest{
			Channel: "a", Limit: -1, HasSince: true, Since: push.Position{Epoch: "e", Offset: 3}, Reverse: true,
		}},
	},
	{
		"history from the beginning", `{"id":7,"history":{"channel":"a","limit":10,"since":{}}}`,
		protocol.Command{ID: 7, Kind: protocol.KindHistory, History: protocol.HistoryRequest{Channel: "a", Limit: 10, HasSince: true}},
	},
	{
		"send", `{"send":{"data":[1,"two"]}}`,
		protocol.Command{Kind: protocol.KindSend, Send: protocol.SendRequest{Data: []byte(`[1,"two"]`)}},
	},
	{
		"rpc", `{"id":4294967295,"rpc":{"method":"m","data":1.5e3}}`,
		protocol.Command{ID: 1<<32 - 1, Kind: protocol.KindRPC, RPC: protocol.RPCRequest{Method: "m", Data: []byte(`1.5e3`)}},
	},
	{
		"refresh", `{"id":9,"refresh":{"token":"t"}}`,
		protocol.Command{ID: 9, Kind: protocol.KindRefresh, Refresh: protocol.RefreshRequest{Token: "t"}},
	},
	{
		"sub_refresh", `{"id":10,"sub_refresh":{"channel":"a","token":"t"}}`,
		protocol.Command{ID: 10, Kind: protocol.KindSubRefresh, SubRefresh: protocol.SubRefreshRequest{Channel: "a", Token: "t"}},
	},
}

func TestCommandForms(t *testing.T) {
	seen := make(map[protocol.Kind]bool)
	for _, form := range commandForms {
		t.Run(form.name, func(t *testing.T) {
			got := protocol.Command{ID: 99, Publish: protocol.PublishRequest{Key: "left over"}}
			if err := clientjson.DecodeCommand([]byte(form.json), &got); err != nil {
				t.Fatal(err)
			}
			if !reflect.DeepEqual(got, form.want) {
				t.Errorf("decoded\n%+v, want\n%+v", got, form.want)
			}
			if text := clientjson.AppendCommand(nil, &form.want); string(text) != form.json {
				t.Errorf("encoded\n%s, want\n%s", text, form.json)
			}
		})
		seen[form.want.Kind] = true
	}
	for kind := protocol.KindConnect; kind < protocol.KindPush; kind++ {
		if !seen[kind] {
			t.Errorf("no form of %s", kind)
		}
	}
}

func TestDecodeCommandLenience(t *testing.T) {
	subscribeA := protocol.Command{ID: 1, Kind: protocol.KindSubscribe, Subscribe: protocol.SubscribeRequest{Channel: "a"}}
	publishData := func(data string) protocol.Command {
		return protocol.Command{ID: 1, Kind: protocol.KindPublish, Publish: protocol.PublishRequest{Data: []byte(data)}}
	}
	for _, tt := range []struct {
		name, json string
		want       protocol.Command
	}{
		{"ID last", `{"subscribe":{"channel":"a"},"id":1}`, subscribeA},
		{"white space", " {\t\"id\" : 1 , \"subscribe\" : { \"channel\" : \"a\" } } \r", subscribeA},
		{"unknown members", `{"id":1,"trace":[{"a":{}}],"subscribe":{"since":-1.5E+7,"channel":"a","x":[true,false,null,"",[]]}}`, subscribeA},
		{"escaped names", `{"\u0069d":1,"subscr\u0069be":{"ch\u0061nnel":"\u0061"}}`, subscribeA},
		{"first request counts", `{"id":1,"subscribe":{"channel":"a"},"subscribe":{"channel":"b"},"publish":{"channel":3}}`, subscribeA},
		{"null request is none", `{"id":1,"publish":null,"subscribe":{"channel":"a"}}`, subscribeA},
		{"last member counts", `{"id":2,"id":1,"subscribe":{"channel":"b","token":"t","channel":"a","token":null}}`, subscribeA},
		{"null is zero", `{"id":1,"subscribe":{"channel":"a","offset":null,"recover":null,"tf":null}}`, subscribeA},
		{"names are exact", `{"id":1,"subscribe":{"channel":"a","Channel":"b"}}`, subscribeA},
		{"escapes", `{"id":1,"rpc":{"method":"\"\\\/\b\f\n\r\t\u00e9\ud83d\ude00"}}`, protocol.Command{
			ID: 1, Kind: protocol.KindRPC, RPC: protocol.RPCRequest{Method: "\"\\/\b\f\n\r\té😀"},
		}},
		{"data with spaces", `{"id":1,"publish":{"data": { "a" : 1 } }}`, publishData(`{ "a" : 1 }`)},
		{"data on several lines", "{\"id\":1,\"publish\":{\"data\":{\r\"a \\\" \\n\" : 1\n}\n}}", publishData(`{"a \" \n":1}`)},
		{"no request", `{"id":1}`, protocol.Command{ID: 1, Kind: protocol.KindUnknown}},
		{"unknown request", `{"id":1,"teleport":{}}`, protocol.Command{ID: 1, Kind: protocol.KindUnknown}},
		{"push is no request", `{"id":1,"push":{}}`, protocol.Command{ID: 1, Kind: protocol.KindUnknown}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			var got protocol.Command
			if err := clientjson.DecodeCommand([]byte(tt.json), &got); err != nil {
				t.Fatal(err)
			}
			if !reflect.DeepEqual(got, tt.want) {
				t.Errorf("decoded\n%+v, want\n%+v", got, tt.want)
			}
		})
	}
}

func TestDecodeCommandRefusesWhatCanBeAnswered(t *testing.T) {
	for _, tt := range []struct{ name, json, message string }{
		{"request", `{"id":1,"publish":[]}`, "publish: expected an object at byte 18"},
		{"ping", `{"id":1,"ping":true}`, "ping: expected an object at byte 15"},
		{"string", `{"id":1,"publish":{"channel":5}}`, "publish.channel: expected a string at byte 29"},
		{"ID behind it", `{"publish":{"channel":{}},"id":1}`, "publish.channel: expected a string at byte 22"},
		{"the first counts", `{"id":1,"publish":{"channel":5,"key":6}}`, "publish.channel: expected a string at byte 29"},
		{"bool", `{"id":1,"subscribe":{"recover":1}}`, "subscribe.recover: expected true or false at byte 31"},
		{"map", `{"id":1,"publish":{"tags":[]}}`, "publish.tags: expected an object at byte 26"},
		{"map value", `{"id":1,"publish":{"tags":{"a":1}}}`, "publish.tags: expected a string at byte 31"},
		{"offset too large", `{"id":1,"subscribe":{"offset":9007199254740992}}`, offsetWanted("subscribe.offset", 30)},
		{"offset negative", `{"id":1,"subscribe":{"offset":-1}}`, offsetWanted("subscribe.offset", 30)},
		{"offset fraction", `{"id":1,"subscribe":{"offset":1.0}}`, offsetWanted("subscribe.offset", 30)},
		{"offset string", `{"id":1,"subscribe":{"offset":"1"}}`, offsetWanted("subscribe.offset", 30)},
		{"offset endless", `{"id":1,"subscribe":{"offset":99999999999999999999999}}`, offsetWanted("subscribe.offset", 30)},
		{"server-side", `{"id":1,"connect":{"subs":{"a":{"offset":-1}}}}`, offsetWanted("connect.subs.offset", 41)},
		{"since", `{"id":1,"history":{"since":{"offset":-1}}}`, offsetWanted("history.since.offset", 37)},
		{"limit", `{"id":1,"history":{"limit":2147483648}}`, "history.limit: expected an integer of 32 bits at byte 27"},
		{"limit of a page", `{"id":1,"subscribe":{"limit":1.5}}`, "subscribe.limit: expected an integer of 32 bits at byte 29"},
		{"phase", `{"id":1,"subscribe":{"phase":-1}}`, "subscribe.phase: expected an integer between 0 and 4294967295 at byte 29"},
		{"cursor", `{"id":1,"subscribe":{"cursor":3}}`, "subscribe.cursor: expected a string at byte 30"},
		{"too deep", `{"id":1,"rpc":{"data":` + nested(129) + `}}`, "rpc: a value is nested deeper than 128 levels at byte 150"},
		{"too deep, with brackets in strings", `{"id":1,"rpc":{"data":` + strings.Replace(nested(129), "[]", `["]]]\"]"]`, 1) + `}}`, "rpc: a value is nested deeper than 128 levels at byte 150"},
		{"too deep, ID behind", `{"x":` + nested(500_000) + `,"ping":{},"id":1}`, "a value is nested deeper than 128 levels at byte 133"},
		{"half a pair", `{"id":1,"publish":{"data":"\ud83d"}}`, "publish: half of a surrogate pair in a string at byte 27"},
		{"half a pair and another character", `{"id":1,"publish":{"data":{"a\ud83d\u0041":1}}}`, "publish: half of a surrogate pair in a string at byte 29"},
		{"second half", `{"id":1,"publish":{"channel":"\ude00"}}`, "publish: half of a surrogate pair in a string at byte 30"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			var c protocol.Command
			err := clientjson.DecodeCommand([]byte(tt.json), &c)
			var refusal *push.Error
			if !errors.As(err, &refusal) || !errors.Is(err, push.ErrBadRequest) {
				t.Fatalf("error is %v, want a bad request", err)
			}
			if c.ID != 1 {
				t.Errorf("ID is %d, want 1", c.ID)
			}
			if refusal.Message != tt.message {
				t.Errorf("message is %q, want %q", refusal.Message, tt.message)
			}
		})
	}
}

func offsetWanted(field string, at int) string {
	return field + ": expected an integer between 0 and 9007199254740991 at byte " + string(rune('0'+at/10)) + string(rune('0'+at%10))
}

func TestDecodeCommandRefusesBrokenLines(t *testing.T) {
	for _, tt := range []struct {
		name, json, reason string
		offset             int
	}{
		{"nothing", ``, "unexpected end, expected '{'", 0},
		{"not an object", `[]`, "unexpected '[', expected '{'", 0},
		{"null", `null`, "unexpected 'n', expected '{'", 0},
		{"no end", `{"id":1`, "unexpected end, expected ',' or '}'", 7},
		{"two values", `{} {}`, "unexpected '{', expected the end", 3},
		{"comma at the end", `{"id":1,}`, "unexpected '}', expected a member name", 8},
		{"no colon", `{"id" 1}`, "unexpected '1', expected ':'", 6},
		{"no value", `{"id":}`, "unexpected '}', expected a value", 6},
		{"single quotes", `{'id':1}`, "unexpected '\\'', expected a member name", 1},
		{"string without end", `{"id`, "a string does not end", 4},
		{"string ends in escape", `{"id\`, "an escape that JSON does not know", 4},
		{"escape", `{"rpc":{"method":"\x"}}`, "an escape that JSON does not know", 18},
		{"unicode escape", `{"rpc":{"method":"\u00g0"}}`, "an escape that JSON does not know", 18},
		{"control character", "{\"rpc\":{\"method\":\"\x01\"}}", "a control character in a string", 18},
		{"UTF-8", "{\"id\":1,\"publish\":{\"data\":\"a\xff\"}}", "invalid UTF-8 in a string", 28},
		{"UTF-8 surrogate", "{\"\xed\xa0\x80\":1}", "invalid UTF-8 in a string", 2},
		{"leading zero", `{"id":01}`, "unexpected '1', expected ',' or '}'", 7},
		{"plus", `{"id":+1}`, "unexpected '+', expected a value", 6},
		{"minus only", `{"rpc":{"data":-}}`, "unexpected '}', expected a digit", 16},
		{"fraction", `{"rpc":{"data":1.}}`, "unexpected '}', expected a digit", 17},
		{"exponent", `{"rpc":{"data":1e+}}`, "unexpected '}', expected a digit", 18},
		{"literal", `{"rpc":{"data":nul}}`, "unexpected 'n', expected a value", 15},
		{"capital literal", `{"rpc":{"data":True}}`, "unexpected 'T', expected a value", 15},
		{"array", `{"rpc":{"data":[1 2]}}`, "unexpected '2', expected ',' or ']'", 18},
		{"array end", `{"rpc":{"data":[1,]}}`, "unexpected ']', expected a value", 18},
		{"broken after a wrong type", `{"id":1,"publish":{"channel":5}`, "unexpected end, expected ',' or '}'", 31},
		{"zero byte", "{\"id\":1\x00}", "unexpected '\\x00', expected ',' or '}'", 7},
		{"ID of the wrong type", `{"id":"1","ping":{}}`, "id: expected an integer between 0 and 4294967295", 6},
		{"ID too large", `{"id":4294967296,"ping":{}}`, "id: expected an integer between 0 and 4294967295", 6},
		{"wrong type without ID", `{"send":5}`, "send: expected an object", 8},
		{"too deep without ID", `{"send":{"data":` + nested(129) + `}}`, "send: a value is nested deeper than 128 levels", 144},
		{"too deep without end", `{"id":1,"rpc":{"data":` + strings.Repeat("[", 200), "unexpected end, expected ']' or '}'", 222},
	} {
		t.Run(tt.name, func(t *testing.T) {
			err := clientjson.DecodeCommand([]byte(tt.json), &protocol.Command{})
			var broken *clientjson.SyntaxError
			if !errors.As(err, &broken) {
				t.Fatalf("error is %v, want a SyntaxError", err)
			}
			if broken.Offset != tt.offset || broken.Reason != tt.reason {
				t.Errorf("%q at %d, want %q at %d", broken.Reason, broken.Offset, tt.reason, tt.offset)
			}
			if !strings.HasPrefix(err.Error(), "protocol: ") {
				t.Errorf("%q does not say where it comes from", err)
			}
		})
	}
}

func nested(n int) string { return strings.Repeat("[", n) + strings.Repeat("]", n) }

func TestLimitsDepth(t *testing.T) {
	nested := func(n int) []byte { return []byte(nested(n)) }
	for _, tt := range []struct{ depth, most int }{{0, 128}, {1, 1}, {100, 100}} {
		limits := clientjson.Limits{Depth: tt.depth}
		if _, err := limits.CompactData(nested(tt.most)); err != nil {
			t.Errorf("depth %d: %v", tt.depth, err)
		}
		if _, err := limits.CompactData(nested(tt.most + 1)); err == nil {
			t.Errorf("depth %d: takes %d levels", tt.depth, tt.most+1)
		}
		line := append(append([]byte(`{"id":1,"rpc":{"data":`), nested(tt.most)...), "}}"...)
		if err := limits.DecodeCommand(line, &protocol.Command{}); err != nil {
			t.Errorf("depth %d: command: %v", tt.depth, err)
		}
	}
	if _, err := (clientjson.Limits{Depth: -1}).CompactData(nested(5000)); err != nil {
		t.Errorf("no limit: %v", err)
	}
}

func TestNextLine(t *testing.T) {
	for _, tt := range []struct {
		name, frame string
		want        []string
	}{
		{"empty", "", nil},
		{"blank", "\n \r\n\t\n", nil},
		{"one", "{}", []string{"{}"}},
		{"one with its end", "{}\n", []string{"{}"}},
		{"several", "{}\n\n{\"id\":1}\r\n  {\"id\":2} ", []string{"{}", `{"id":1}`, `{"id":2}`}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			var got []string
			for line, rest := clientjson.NextLine([]byte(tt.frame)); line != nil; line, rest = clientjson.NextLine(rest) {
				got = append(got, string(line))
			}
			if !reflect.DeepEqual(got, tt.want) {
				t.Errorf("lines %q, want %q", got, tt.want)
			}
		})
	}
}

// checkLine reports encoded text that is not one line of JSON.
func checkLine(t *testing.T, text []byte) {
	t.Helper()
	if !json.Valid(text) {
		t.Errorf("not JSON: %s", text)
	}
	if bytes.ContainsAny(text, "\r\n") {
		t.Errorf("not on one line: %q", text)
	}
}
