package json_test

import (
	"errors"
	"reflect"
	"strings"
	"testing"

	"github.com/sluice-push/sluice/push"
	"github.com/sluice-push/sluice/push/protocol"
	"github.com/sluice-push/sluice/push/protocol/json"
)

var alice = push.ClientInfo{User: "alice", Client: "c1", ConnInfo: []byte(`{"name":"A"}`), ChanInfo: []byte(`7`)}

const aliceJSON = `{"user":"alice","client":"c1","conn_info":{"name":"A"},"chan_info":7}`

// replyForms are replies with their JSON encodings, for both directions.
var replyForms = []struct {
	name string
	json string
	want protocol.Reply
}{
	{"ping", `{}`, protocol.Reply{}},
	{
		"error", `{"id":1,"error":{"code":107,"message":"bad request"}}`,
		protocol.Reply{ID: 1, Error: push.ErrBadRequest},
	},
	{
		"temporary error", `{"id":1,"error":{"code":100,"message":"internal server error","temporary":true}}`,
		protocol.Reply{ID: 1, Error: push.ErrInternal},
	},
	{
		"error without message", `{"id":1,"error":{"code":400,"message":""}}`,
		protocol.Reply{ID: 1, Error: &push.Error{Code: 400}},
	},
	{"connect empty", `{"id":1,"connect":{"client":""}}`, protocol.Reply{ID: 1, Kind: protocol.KindConnect}},
	{
		"connect",
		`{"id":1,"connect":{"client":"c","version":"1","expires":true,"ttl":60,"data":{"a":1},"subs":{"x":{"recoverable":true,` +
			`"epoch":"e","recovered":true,"offset":5},"y":{}},"ping":25,"pong":true,"session":"s","node":"n"}}`,
		protocol.Reply{ID: 1, Kind: protocol.KindConnect, Connect: protocol.ConnectResult{
			Client: "c", Version: "1", Expires: true, TTL: 60, Data: []byte(`{"a":1}`), Ping: 25, Pong: true, Session: "s", Node: "n",
			Subs: map[string]protocol.SubscribeResult{
				"x": {Recoverable: true, Recovered: true, Position: push.Position{Epoch: "e", Offset: 5}},
				"y": {},
			},
		}},
	},
	{"subscribe empty", `{"id":2,"subscribe":{}}`, protocol.Reply{ID: 2, Kind: protocol.KindSubscribe}},
	{
		"subscribe",
		`{"id":2,"subscribe":{"expires":true,"ttl":1,"recoverable":true,"epoch":"e","publications":[{"data":1,"offset":3},` +
			`{"data":{"b":[]},"offset":9007199254740991}],"recovered":true,"offset":9007199254740991,"positioned":true,"data":null,` +
			`"was_recovering":true,"delta":true,"id":7}}`,
		protocol.Reply{ID: 2, Kind: protocol.KindSubscribe, Subscribe: protocol.SubscribeResult{
			Expires: true, TTL: 1, Recoverable: true, Positioned: true, Position: push.Position{Epoch: "e", Offset: push.MaxOffset},
			WasRecovering: true, Recovered: true, Data: []byte("null"), Delta: true, ID: 7,
			Publications: []push.Publication{{Data: []byte("1"), Offset: 3}, {Data: []byte(`{"b":[]}`), Offset: push.MaxOffset}},
		}},
	},
	{
		"rows of a map",
		`{"id":2,"subscribe":{"epoch":"e","offset":4,"phase":2,"state":[{"data":1,"offset":3,"key":"a"},{"data":2,"offset":4,"key":"b"}],"cursor":"c"}}`,
		protocol.Reply{ID: 2, Kind: protocol.KindSubscribe, Subscribe: protocol.SubscribeResult{
			Position: push.Position{Epoch: "e", Offset: 4}, Phase: protocol.PhaseState, Cursor: "c",
			State: []push.Publication{{Data: []byte("1"), Offset: 3, Key: "a"}, {Data: []byte("2"), Offset: 4, Key: "b"}},
		}},
	},
	{"unsubscribe", `{"id":3,"unsubscribe":{}}`, protocol.Reply{ID: 3, Kind: protocol.KindUnsubscribe}},
	{"publish", `{"id":4,"publish":{}}`, protocol.Reply{ID: 4, Kind: protocol.KindPublish}},
	{
		"presence empty", `{"id":5,"presence":{"presence":{}}}`,
		protocol.Reply{ID: 5, Kind: protocol.KindPresence},
	},
	{
		"presence", `{"id":5,"presence":{"presence":{"c1":` + aliceJSON + `,"c2":{"user":"","client":"c2"}}}}`,
		protocol.Reply{ID: 5, Kind: protocol.KindPresence, Presence: protocol.PresenceResult{
			Clients: []push.ClientInfo{alice, {Client: "c2"}},
		}},
	},
	{
		"presence_stats", `{"id":6,"presence_stats":{"num_clients":2,"num_users":1}}`,
		protocol.Reply{ID: 6, Kind: protocol.KindPresenceStats, PresenceStats: protocol.PresenceStatsResult{Clients: 2, Users: 1}},
	},
	{
		"presence_stats of nobody", `{"id":6,"presence_stats":{"num_clients":0,"num_users":0}}`,
		protocol.Reply{ID: 6, Kind: protocol.KindPresenceStats},
	},
	{
		"history", `{"id":7,"history":{"publications":[{"data":"x","offset":1}],"epoch":"e","offset":1}}`,
		protocol.Reply{ID: 7, Kind: protocol.KindHistory, History: protocol.HistoryResult{
			Publications: []push.Publication{{Data: []byte(`"x"`), Offset: 1}}, Position: push.Position{Epoch: "e", Offset: 1},
		}},
	},
	{"history empty", `{"id":7,"history":{}}`, protocol.Reply{ID: 7, Kind: protocol.KindHistory}},
	{"command ping", `{"id":8,"ping":{}}`, protocol.Reply{ID: 8, Kind: protocol.KindPing}},
	{
		"rpc", `{"id":9,"rpc":{"data":{"a":1}}}`,
		protocol.Reply{ID: 9, Kind: protocol.KindRPC, RPC: protocol.RPCResult{Data: []byte(`{"a":1}`)}},
	},
	{"rpc without data", `{"id":9,"rpc":{}}`, protocol.Reply{ID: 9, Kind: protocol.KindRPC}},
	{
		"refresh", `{"id":10,"refresh":{"client":"c","version":"v","expires":true,"ttl":5}}`,
		protocol.Reply{ID: 10, Kind: protocol.KindRefresh, Refresh: protocol.RefreshResult{
			Client: "c", Version: "v", Expires: true, TTL: 5,
		}},
	},
	{
		"sub_refresh", `{"id":11,"sub_refresh":{"expires":true,"ttl":5}}`,
		protocol.Reply{ID: 11, Kind: protocol.KindSubRefresh, SubRefresh: protocol.SubRefreshResult{Expires: true, TTL: 5}},
	},
}

// pushForms are pushes with their JSON encodings without the object around them, for both directions.
var pushForms = []struct {
	name string
	json string
	want protocol.Push
}{
	{
		"publication", `{"channel":"a","pub":{"data":{"x":1},"info":` + aliceJSON + `,"offset":4,"tags":{"t":"1","u":""},"key":"k"}}`,
		protocol.Push{Channel: "a", Kind: protocol.PushPublication, Publication: push.Publication{
			Data: []byte(`{"x":1}`), Info: &alice, Offset: 4, Tags: map[string]string{"u": "", "t": "1"}, Key: "k",
		}},
	},
	{
		"row of a sweep", `{"channel":"a","pub":{"data":1,"key":"k"}}`,
		protocol.Push{Channel: "a", Kind: protocol.PushPublication, Publication: push.Publication{Data: []byte("1"), Key: "k"}},
	},
	{
		"removal", `{"channel":"a","pub":{"data":null,"offset":5,"key":"k","removed":true}}`,
		protocol.Push{Channel: "a", Kind: protocol.PushPublication, Publication: push.Publication{Key: "k", Offset: 5, Op: push.Remove}},
	},
	{
		"clear", `{"channel":"a","pub":{"data":null,"offset":6,"cleared":true}}`,
		protocol.Push{Channel: "a", Kind: protocol.PushPublication, Publication: push.Publication{Offset: 6, Op: push.Clear}},
	},
	{
		"join", `{"channel":"a","join":{"info":` + aliceJSON + `}}`,
		protocol.Push{Channel: "a", Kind: protocol.PushJoin, Client: alice},
	},
	{
		"leave", `{"channel":"a","leave":{"info":{"user":"","client":"c"}}}`,
		protocol.Push{Channel: "a", Kind: protocol.PushLeave, Client: push.ClientInfo{Client: "c"}},
	},
	{
		"unsubscribe", `{"channel":"a","unsubscribe":{"code":2500,"reason":"insufficient state"}}`,
		protocol.Push{Channel: "a", Kind: protocol.PushUnsubscribe, Unsubscribe: push.UnsubscribeInsufficientState},
	},
	{
		"message", `{"message":{"data":"hello"}}`,
		protocol.Push{Kind: protocol.PushMessage, Message: []byte(`"hello"`)},
	},
	{
		"subscribe", `{"channel":"a","subscribe":{"recoverable":true,"epoch":"e","offset":1,"positioned":true,"data":[]}}`,
		protocol.Push{Channel: "a", Kind: protocol.PushSubscribe, Subscribe: protocol.SubscribeResult{
			Recoverable: true, Positioned: true, Position: push.Position{Epoch: "e", Offset: 1}, Data: []byte("[]"),
		}},
	},
	{
		"connect", `{"connect":{"client":"c","subs":{"a":{"publications":[{"data":1}]}},"ping":25}}`,
		protocol.Push{Kind: protocol.PushConnect, Connect: protocol.ConnectResult{
			Client: "c", Ping: 25,
			Subs: map[string]protocol.SubscribeResult{"a": {Publications: []push.Publication{{Data: []byte("1")}}}},
		}},
	},
	{
		"disconnect", `{"disconnect":{"code":3001,"reason":"shutdown","reconnect":true}}`,
		protocol.Push{Kind: protocol.PushDisconnect, Disconnect: push.DisconnectShutdown},
	},
	{
		"final disconnect", `{"disconnect":{"code":3501,"reason":"bad request"}}`,
		protocol.Push{Kind: protocol.PushDisconnect, Disconnect: push.DisconnectBadRequest},
	},
	{
		"refresh", `{"refresh":{"expires":true,"ttl":30}}`,
		protocol.Push{Kind: protocol.PushRefresh, Refresh: protocol.RefreshResult{Expires: true, TTL: 30}},
	},
	{"unknown", `{"channel":"a"}`, protocol.Push{Channel: "a"}},
	{
		"with a number", `{"id":7,"pub":{"data":1,"offset":5}}`,
		protocol.Push{ID: 7, Kind: protocol.PushPublication, Publication: push.Publication{Data: []byte("1"), Offset: 5}},
	},
}

func TestReplyForms(t *testing.T) {
	for _, form := range replyForms {
		t.Run(form.name, func(t *testing.T) {
			var got protocol.Reply
			if err := json.DecodeReply([]byte(form.json), &got); err != nil {
				t.Fatal(err)
			}
			if !reflect.DeepEqual(got, form.want) {
				t.Errorf("decoded\n%+v, want\n%+v", got, form.want)
			}
			text := json.AppendReply(nil, &form.want)
			checkLine(t, text)
			if string(text) != form.json {
				t.Errorf("encoded\n%s, want\n%s", text, form.json)
			}
		})
	}
}

func TestPushForms(t *testing.T) {
	seen := make(map[protocol.PushKind]bool)
	for _, form := range pushForms {
		seen[form.want.Kind] = true
		t.Run(form.name, func(t *testing.T) {
			var bare protocol.Push
			if err := json.DecodePush([]byte(form.json), &bare); err != nil {
				t.Fatal(err)
			}
			if !reflect.DeepEqual(bare, form.want) {
				t.Errorf("decoded\n%+v, want\n%+v", bare, form.want)
			}
			var reply protocol.Reply
			wrapped := `{"push":` + form.json + `}`
			if err := json.DecodeReply([]byte(wrapped), &reply); err != nil {
				t.Fatal(err)
			}
			want := protocol.Reply{Kind: protocol.KindPush, Push: form.want}
			if !reflect.DeepEqual(reply, want) {
				t.Errorf("decoded\n%+v, want\n%+v", reply, want)
			}
			checkText(t, json.AppendReply(nil, &want), wrapped)
			checkText(t, json.AppendPush(nil, &form.want, json.PushOptions{}), wrapped)
			checkText(t, json.AppendPush(nil, &form.want, json.PushOptions{Bare: true}), form.json)
			if form.want.Kind == protocol.PushPublication {
				p := &form.want.Publication
				checkText(t, json.AppendPublicationPush(nil, form.want.Channel, p, json.PushOptions{ID: form.want.ID}), wrapped)
				bare := json.AppendPublicationPush(nil, form.want.Channel, p, json.PushOptions{ID: form.want.ID, Bare: true})
				checkText(t, bare, form.json)
			}
		})
	}
	for kind := protocol.PushUnknown; kind <= protocol.PushRefresh; kind++ {
		if !seen[kind] {
			t.Errorf("no form of %s", kind)
		}
	}
}

func checkText(t *testing.T, got []byte, want string) {
	t.Helper()
	checkLine(t, got)
	if string(got) != want {
		t.Errorf("encoded\n%s, want\n%s", got, want)
	}
}

func TestAppendKeepsWhatIsThere(t *testing.T) {
	const before = "data: {"
	got := json.AppendReply([]byte(before), &protocol.Reply{ID: 1, Kind: protocol.KindPing})
	if want := before + `{"id":1,"ping":{}}`; string(got) != want {
		t.Errorf("got %s, want %s", got, want)
	}
}

func TestAppendPublicationWithoutData(t *testing.T) {
	checkText(t, json.AppendPublication(nil, &push.Publication{Offset: 1}), `{"data":null,"offset":1}`)
}

func TestAppendErrorReply(t *testing.T) {
	checkText(t, json.AppendErrorReply(nil, 3, push.ErrNotAvailable), `{"id":3,"error":{"code":108,"message":"not available"}}`)
}

// TestUnknownMembers adds a member that no release knows to each request, result and push.
func TestUnknownMembers(t *testing.T) {
	extend := func(text string) []byte {
		before, after, found := strings.Cut(text, `":{`)
		if !found {
			return []byte(text)
		}
		if !strings.HasPrefix(after, "}") {
			after = "," + after
		}
		return []byte(before + `":{"novelty":[{"a":-1.5e7},"\u0000",null,true,false]` + after)
	}
	for _, form := range commandForms {
		var got protocol.Command
		if err := json.DecodeCommand(extend(form.json), &got); err != nil || !reflect.DeepEqual(got, form.want) {
			t.Errorf("command %s: decoded %+v, %v", form.name, got, err)
		}
	}
	for _, form := range replyForms {
		var got protocol.Reply
		if err := json.DecodeReply(extend(form.json), &got); err != nil || !reflect.DeepEqual(got, form.want) {
			t.Errorf("reply %s: decoded %+v, %v", form.name, got, err)
		}
	}
	for _, form := range pushForms {
		var got protocol.Push
		if err := json.DecodePush(extend(form.json), &got); err != nil || !reflect.DeepEqual(got, form.want) {
			t.Errorf("push %s: decoded %+v, %v", form.name, got, err)
		}
	}
}

func TestDecodeReplyLenience(t *testing.T) {
	for _, tt := range []struct {
		name, json string
		want       protocol.Reply
	}{
		{"unknown result", `{"id":1,"teleport":{}}`, protocol.Reply{ID: 1, Kind: protocol.KindUnknown}},
		{"send is no result", `{"id":1,"send":{}}`, protocol.Reply{ID: 1, Kind: protocol.KindUnknown}},
		{"error beats result", `{"id":1,"ping":{},"error":{"code":1}}`, protocol.Reply{ID: 1, Error: &push.Error{Code: 1}}},
		{"null", `{"id":null,"error":null,"ping":{"x":1}}`, protocol.Reply{Kind: protocol.KindPing}},
		{"first content", `{"push":{"message":null,"join":{"x":1},"leave":5,"id":1}}`, protocol.Reply{
			Kind: protocol.KindPush, Push: protocol.Push{ID: 1, Kind: protocol.PushJoin},
		}},
		{"empty map", `{"push":{"pub":{"data":1,"tags":{},"info":null}}}`, protocol.Reply{
			Kind: protocol.KindPush,
			Push: protocol.Push{Kind: protocol.PushPublication, Publication: push.Publication{Data: []byte("1")}},
		}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			var got protocol.Reply
			if err := json.DecodeReply([]byte(tt.json), &got); err != nil {
				t.Fatal(err)
			}
			if !reflect.DeepEqual(got, tt.want) {
				t.Errorf("decoded\n%+v, want\n%+v", got, tt.want)
			}
		})
	}
}

func TestDecodeReplyErrors(t *testing.T) {
	for _, tt := range []struct{ json, want string }{
		{`{"id":1`, "protocol: decode reply: unexpected end, expected ',' or '}' at byte 7"},
		{`{"id":1,"ping":[]}`, "protocol: decode reply: ping: expected an object at byte 15"},
		{`{"push":{"disconnect":{"code":65536}}}`, "protocol: decode reply: disconnect.code: expected an integer between 0 and 65535 at byte 30"},
		{`{"history":{"publications":{}}}`, "protocol: decode reply: history.publications: expected an array at byte 27"},
	} {
		err := json.DecodeReply([]byte(tt.json), &protocol.Reply{})
		var broken *json.SyntaxError
		if !errors.As(err, &broken) {
			t.Errorf("%s: error is %v, want a SyntaxError", tt.json, err)
		} else if err.Error() != tt.want {
			t.Errorf("%s: error is %q, want %q", tt.json, err, tt.want)
		}
	}
	if err := json.DecodePush([]byte(`[]`), &protocol.Push{}); err == nil {
		t.Error("an array passes for a push")
	}
}
