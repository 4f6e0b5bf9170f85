package gateway_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"regexp"
	"strings"
	"testing"

	"github.com/gorilla/websocket"

	"github.com/sluice-push/sluice/internal/testwait"
	"github.com/sluice-push/sluice/push"
	"github.com/sluice-push/sluice/push/gateway"
	"github.com/sluice-push/sluice/push/hub"
)

var uuid = regexp.MustCompile(`[0-9a-f]{8}-[0-9a-f]{4}-4[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}`)

// TestConnect: what a client is told, and that each has an identity of its own.
func TestConnect(t *testing.T) {
	for _, tt := range []struct {
		name    string
		options gateway.Options
		rest    string
	}{
		{"default", gateway.Options{}, `"version":"v1","ping":25,"pong":true`},
		{"no pings", gateway.Options{PingInterval: -1}, `"version":"v1"`},
		{"no pongs", gateway.Options{PingInterval: 7_900_000_000, PongTimeout: -1}, `"version":"v1","ping":7`},
		{"short pings", gateway.Options{PingInterval: 1}, `"version":"v1","ping":1,"pong":true`},
	} {
		t.Run(tt.name, func(t *testing.T) {
			p := newPlace(t, &tt.options)
			var ids []string
			for range 2 {
				c := p.connectWS(nil)
				c.send(`{"id":1,"connect":{"name":"go","version":"1","data":{"x":1},"token":"any"}}`)
				got := c.receive()
				ids = append(ids, uuid.FindString(got))
				want := `{"id":1,"connect":{"client":"CLIENT",` + tt.rest + `,"node":"` + p.hub.ID() + `"}}`
				if got := uuid.ReplaceAllString(got, "CLIENT"); got != want {
					t.Errorf("got %s\nwant %s", got, want)
				}
			}
			if ids[0] == ids[1] {
				t.Error("two clients have the same identity")
			}
			if n := p.gateway.Len(); n != 2 {
				t.Errorf("%d clients are connected", n)
			}
		})
	}
}

// script is a conversation: commands and what they are answered. EPOCH, CLIENT and OTHER stand for what differs from run to run.
type script []struct{ name, command, want string }

func (s script) run(t *testing.T, c *wsClient, values ...string) {
	t.Helper()
	r := strings.NewReplacer(values...)
	for _, step := range s {
		c.send(r.Replace(step.command))
		if got, want := c.receive(), r.Replace(step.want); got != want {
			t.Fatalf("%s: %s\n got %s\nwant %s", step.name, step.command, got, want)
		}
	}
}

func TestCommands(t *testing.T) {
	p := newPlace(t, nil)
	c := p.connectWS(nil)
	c.send(`{"id":1,"connect":{}}`)
	id := uuid.FindString(c.receive())
	script{
		{"ping", `{"id":2,"ping":{}}`, `{"id":2,"ping":{}}`},
		{"the largest id", `{"id":4294967295,"ping":{}}`, `{"id":4294967295,"ping":{}}`},
		{"subscribe", `{"id":3,"subscribe":{"channel":"a"}}`, `{"id":3,"subscribe":{"recoverable":true,"epoch":"EPOCH","positioned":true}}`},
		{"unsubscribe", `{"id":4,"unsubscribe":{"channel":"a"}}`, `{"id":4,"unsubscribe":{}}`},
		{"unsubscribe again", `{"id":5,"unsubscribe":{"channel":"a"}}`, `{"id":5,"unsubscribe":{}}`},
		{"publish", `{"id":6,"publish":{"channel":"a","data":{"x":1}}}`, `{"id":6,"publish":{}}`},
		{
			"history", `{"id":7,"history":{"channel":"a","limit":-1}}`,
			`{"id":7,"history":{"publications":[{"data":{"x":1},"info":{"user":"","client":"CLIENT"},"offset":1}],"epoch":"EPOCH","offset":1}}`,
		},
		{"history: position", `{"id":8,"history":{"channel":"a"}}`, `{"id":8,"history":{"epoch":"EPOCH","offset":1}}`},
		{
			"history: since", `{"id":9,"history":{"channel":"a","limit":1,"since":{"offset":1,"epoch":"EPOCH"}}}`,
			`{"id":9,"history":{"epoch":"EPOCH","offset":1}}`,
		},
		{
			"history: lost", `{"id":10,"history":{"channel":"a","limit":1,"since":{"offset":1,"epoch":"other"}}}`,
			`{"id":10,"error":{"code":112,"message":"unrecoverable position"}}`,
		},
		{
			"subscribe: recover", `{"id":11,"subscribe":{"channel":"a","recover":true,"epoch":"EPOCH"}}`,
			`{"id":11,"subscribe":{"recoverable":true,"epoch":"EPOCH","publications":[{"data":{"x":1},"info":{"user":"","client":"CLIENT"},"offset":1}],` +
				`"recovered":true,"positioned":true,"was_recovering":true}}`,
		},
	}.run(t, c, "EPOCH", p.epoch("a"), "CLIENT", id)
	script{
		{"subscribe with presence", `{"id":3,"subscribe":{"channel":"chat:1"}}`, `{"id":3,"subscribe":{"recoverable":true,"epoch":"EPOCH","positioned":true}}`},
		{"presence", `{"id":4,"presence":{"channel":"chat:1"}}`, `{"id":4,"presence":{"presence":{"CLIENT":{"user":"","client":"CLIENT"}}}}`},
		{"presence stats", `{"id":5,"presence_stats":{"channel":"chat:1"}}`, `{"id":5,"presence_stats":{"num_clients":1,"num_users":1}}`},
		{"presence of none", `{"id":6,"presence":{"channel":"chat:2"}}`, `{"id":6,"presence":{"presence":{}}}`},
	}.run(t, c, "EPOCH", p.epoch("chat:1"), "CLIENT", id)
}

// TestDrySubscriptions: where the limit runs dry, a client gets more subscriptions, and each of them is counted once.
func TestDrySubscriptions(t *testing.T) {
	counted := make(chan push.ClientInfo, 10)
	p := newPlaceWith(t, nil, &hub.Options{
		SubscriptionsPerSession: 2, DrySubscriptions: true, Exceeded: func(c push.ClientInfo) { counted <- c },
	})
	c := p.subscriber("a")
	for id, name := range []string{"b", "c", "d"} {
		c.send(fmt.Sprintf(`{"id":%d,"subscribe":{"channel":%q}}`, id+3, name))
		if got := c.receive(); !strings.Contains(got, `"subscribe":{`) {
			t.Errorf("%s: %s", name, got)
		}
	}
	if n, c := len(counted), testwait.Receive(t, counted); n != 2 || c.Client == "" {
		t.Errorf("%d subscriptions were counted, the first of %+v", n, c)
	}
}

// TestRefusedCommands: these are answered with an error, and the connection goes on.
func TestRefusedCommands(t *testing.T) {
	p := newPlaceWith(t, nil, &hub.Options{SubscriptionsPerSession: 2})
	c := p.subscriber("a")
	script{
		{"unknown command", `{"id":3,"dance":{}}`, `{"id":3,"error":{"code":104,"message":"method not found"}}`},
		{"nothing but an id", `{"id":3}`, `{"id":3,"error":{"code":104,"message":"method not found"}}`},
		{"rpc", `{"id":4,"rpc":{"method":"m","data":1}}`, `{"id":4,"error":{"code":108,"message":"not available"}}`},
		{"refresh", `{"id":5,"refresh":{}}`, `{"id":5,"error":{"code":107,"message":"refresh.token is missing"}}`},
		{"sub_refresh", `{"id":6,"sub_refresh":{"channel":"a"}}`, `{"id":6,"error":{"code":107,"message":"sub_refresh.token is missing"}}`},
		{"subscribe twice", `{"id":7,"subscribe":{"channel":"a"}}`, `{"id":7,"error":{"code":105,"message":"already subscribed"}}`},
		{"unknown namespace", `{"id":8,"subscribe":{"channel":"nowhere:a"}}`, `{"id":8,"error":{"code":102,"message":"unknown channel: namespace \"nowhere\" is not configured"}}`},
		{"publish nowhere", `{"id":8,"publish":{"channel":"nowhere:a","data":1}}`, `{"id":8,"error":{"code":102,"message":"unknown channel: namespace \"nowhere\" is not configured"}}`},
		{"history of nowhere", `{"id":8,"history":{"channel":"nowhere:a"}}`, `{"id":8,"error":{"code":102,"message":"unknown channel: namespace \"nowhere\" is not configured"}}`},
		{"presence of nowhere", `{"id":8,"presence":{"channel":"nowhere:a"}}`, `{"id":8,"error":{"code":102,"message":"unknown channel: namespace \"nowhere\" is not configured"}}`},
		{"no presence", `{"id":8,"presence_stats":{"channel":"a"}}`, `{"id":8,"error":{"code":108,"message":"namespace \"\" keeps no presence"}}`},
		{"no channel", `{"id":9,"subscribe":{}}`, `{"id":9,"error":{"code":107,"message":"channel name is empty"}}`},
		{
			"control character", `{"id":9,"subscribe":{"channel":"a\u0001"}}`,
			`{"id":9,"error":{"code":107,"message":"channel name has a control character (U+0001)"}}`,
		},
		{"no data", `{"id":10,"publish":{"channel":"a"}}`, `{"id":10,"error":{"code":107,"message":"publish.data is missing"}}`},
		{
			"removal from a stream", `{"id":11,"publish":{"channel":"a","removed":true}}`,
			`{"id":11,"error":{"code":107,"message":"namespace \"\" has mode stream: rows can be removed only from values and tables"}}`,
		},
		{"a presence map", `{"id":12,"subscribe":{"channel":"b","type":2}}`, `{"id":12,"error":{"code":108,"message":"this type of subscription is not supported"}}`},
		{"a filter", `{"id":13,"subscribe":{"channel":"b","tf":{"op":"eq"}}}`, `{"id":13,"error":{"code":108,"message":"filters are not supported"}}`},
		{
			"a lost position, rather an error", `{"id":14,"subscribe":{"channel":"b","recover":true,"epoch":"other","offset":3,"flag":2}}`,
			`{"id":14,"error":{"code":112,"message":"unrecoverable position"}}`,
		},
		{
			"ill-typed channel", `{"id":15,"subscribe":{"channel":5}}`,
			`{"id":15,"error":{"code":107,"message":"subscribe.channel: expected a string at byte 32"}}`,
		},
		{"ill-typed request", `{"id":16,"publish":[]}`, `{"id":16,"error":{"code":107,"message":"publish: expected an object at byte 19"}}`},
		{
			"too large an offset", `{"id":17,"subscribe":{"channel":"b","recover":true,"offset":9007199254740992}}`,
			`{"id":17,"error":{"code":107,"message":"subscribe.offset: expected an integer between 0 and 9007199254740991 at byte 60"}}`,
		},
		{
			"a lost position, a fresh start", `{"id":18,"subscribe":{"channel":"b","recover":true,"epoch":"other","offset":3}}`,
			`{"id":18,"subscribe":{"recoverable":true,"epoch":"EPOCH","positioned":true,"was_recovering":true}}`,
		},
		{"subscription limit", `{"id":19,"subscribe":{"channel":"c"}}`, `{"id":19,"error":{"code":106,"message":"at most 2 subscriptions are allowed"}}`},
		{"still there", `{"id":20,"ping":{}}`, `{"id":20,"ping":{}}`},
	}.run(t, c, "EPOCH", p.epoch("a"))
}

// TestFatalCommands: these end the connection, with a code and a reason that says what was wrong, and where.
func TestFatalCommands(t *testing.T) {
	p := newPlace(t, &gateway.Options{MessageBytes: 4 << 10})
	for _, tt := range []struct {
		name      string
		connected bool
		kind      int
		message   string
		code      int
		reason    string
	}{
		{"broken JSON", true, websocket.TextMessage, `{"id":2,"ping":{}`, 3501, "bad request: protocol: "},
		{"broken JSON: where", true, websocket.TextMessage, `{"id":2,"ping":{}} x`, 3501, " at byte 19"},
		{"no object", true, websocket.TextMessage, `[]`, 3501, "at byte 0"},
		{"no id", true, websocket.TextMessage, `{"ping":{}}`, 3501, "bad request: a command needs an id"},
		{"id 0", true, websocket.TextMessage, `{"id":0,"subscribe":{"channel":"a"}}`, 3501, "bad request: a command needs an id"},
		{"unknown without id", true, websocket.TextMessage, `{"dance":{}}`, 3501, "bad request: a command needs an id"},
		{"ill-typed without id", true, websocket.TextMessage, `{"subscribe":{"channel":1}}`, 3501, "subscribe.channel: expected a string at byte 24"},
		{"id too large", true, websocket.TextMessage, `{"id":4294967296,"ping":{}}`, 3501, "id: "},
		{"negative id", true, websocket.TextMessage, `{"id":-1,"ping":{}}`, 3501, "id: "},
		{"connect twice", true, websocket.TextMessage, `{"id":2,"connect":{}}`, 3501, "bad request: already connected"},
		{"send", true, websocket.TextMessage, `{"send":{"data":1}}`, 3508, "not available"},
		{"send with id", true, websocket.TextMessage, `{"id":2,"send":{"data":1}}`, 3508, "not available"},
		{"too large", true, websocket.TextMessage, strings.Repeat(" ", 4<<10+1), 1009, ""},
		{"UTF-8", true, websocket.TextMessage, "{\"id\":2,\"rpc\":{\"method\":\"\xff\"}}", 1007, ""},
		{"UTF-8 in a binary frame", true, websocket.BinaryMessage, "{\"id\":2,\"rpc\":{\"method\":\"\xff\"}}", 3501, "at byte"},
		{"Protobuf", true, websocket.BinaryMessage, "\x08\x02\x5a\x00", 3501, "bad request: "},
		{"before connect: ping", false, websocket.TextMessage, `{"id":1,"ping":{}}`, 3501, "bad request: the first command must be connect"},
		{"before connect: unknown", false, websocket.TextMessage, `{"id":1,"dance":{}}`, 3501, "bad request: the first command must be connect"},
		{"before connect: send", false, websocket.TextMessage, `{"send":{}}`, 3501, "bad request: the first command must be connect"},
		{"connect without id", false, websocket.TextMessage, `{"connect":{}}`, 3501, "bad request: a command needs an id"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			var c *wsClient
			if tt.connected {
				c = p.client()
			} else {
				c = p.connectWS(nil)
			}
			must(t, c.conn.WriteMessage(tt.kind, []byte(tt.message)))
			c.wantClose(tt.code, tt.reason)
		})
	}
	testwait.True(t, "all have left", func() bool { return p.gateway.Len() == 0 })
}

// TestFatalEndsTheRest: what comes behind a command that ends the connection is not carried out.
func TestFatalEndsTheRest(t *testing.T) {
	p := newPlace(t, nil)
	c := p.client()
	c.send(`{"id":2,"publish":{"channel":"a","data":1}}` + "\n" + `{"ping":{}}` + "\n" + `{"id":3,"publish":{"channel":"a","data":2}}`)
	c.send(`{"id":4,"publish":{"channel":"a","data":3}}`)
	c.want(`{"id":2,"publish":{}}`)
	c.wantClose(3501, "a command needs an id")
	found, err := p.hub.History(testwait.Context(t), "a", hub.HistoryRequest{Limit: -1})
	must(t, err)
	if len(found.Entries) != 1 {
		t.Errorf("%d publications", len(found.Entries))
	}
}

// TestFrames: commands may share a message, which may be of either kind, and have blank lines between them.
func TestFrames(t *testing.T) {
	p := newPlace(t, nil)
	c := p.connectWS(nil)
	c.send("")
	c.send("\n \r\n")
	c.send("{}")
	c.send("{\"id\":1,\"connect\":{}}\r\n\n{}\n{\"id\":2,\"ping\":{}}\n")
	if got := c.receive(); !strings.HasPrefix(got, `{"id":1,"connect":`) {
		t.Fatalf("got %s", got)
	}
	c.want(`{"id":2,"ping":{}}`)
	must(t, c.conn.WriteMessage(websocket.BinaryMessage, []byte(`{"id":3,"ping":{}}`)))
	c.want(`{"id":3,"ping":{}}`)
	var many, want []string
	for i := range 200 {
		many = append(many, fmt.Sprintf(`{"id":%d,"ping":{}}`, i+10))
		want = append(want, many[i])
	}
	c.send(strings.Join(many, "\n"))
	c.want(want...)
	must(t, c.conn.WriteControl(websocket.PingMessage, []byte("hello"), c.deadline()))
	c.ask(`{"id":4,"ping":{}}`, `{"id":4,"ping":{}}`)
}

// TestAuthenticate: what the hook says becomes the client's identity, or its refusal.
func TestAuthenticate(t *testing.T) {
	p := newPlace(t, &gateway.Options{Authenticate: func(_ context.Context, token string, r *http.Request) (gateway.Identity, error) {
		switch token {
		case "banned":
			return gateway.Identity{}, push.Disconnect{Code: 4001, Reason: "banned"}
		case "invalid":
			return gateway.Identity{}, push.DisconnectInvalidToken
		case "expired":
			return gateway.Identity{}, fmt.Errorf("token: %w", push.ErrTokenExpired)
		case "broken":
			return gateway.Identity{}, errors.New("the directory is down")
		case "bad info":
			return gateway.Identity{Info: push.ClientInfo{User: "bad", ConnInfo: []byte("{")}}, nil
		}
		return gateway.Identity{Info: push.ClientInfo{User: r.Header.Get("X-User"), Client: "ignored", ConnInfo: []byte("{\n\"a\": 1}")}}, nil
	}})
	p.log.expect("the directory is down")
	p.log.expect(`connection info of user`)
	for token, end := range map[string]push.Disconnect{"banned": {Code: 4001, Reason: "banned"}, "invalid": push.DisconnectInvalidToken} {
		c := p.connectWS(nil)
		c.send(`{"id":1,"connect":{"token":"` + token + `"}}`)
		c.wantClose(int(end.Code), end.Reason)
	}
	c := p.connectWS(http.Header{"X-User": {"ann"}})
	c.ask(`{"id":1,"connect":{"token":"expired"}}`, `{"id":1,"error":{"code":109,"message":"token expired"}}`)
	c.ask(`{"id":2,"connect":{"token":"broken"}}`, `{"id":2,"error":{"code":100,"message":"internal server error","temporary":true}}`)
	c.ask(`{"id":3,"connect":{"token":"bad info"}}`, `{"id":3,"error":{"code":100,"message":"internal server error","temporary":true}}`)
	c.send(`{"id":4,"connect":{"token":"good"}}`)
	id := uuid.FindString(c.receive())
	c.send(`{"id":5,"subscribe":{"channel":"chat:1"}}`)
	c.receive()
	info := `{"user":"ann","client":"` + id + `","conn_info":{"a":1}}`
	c.ask(`{"id":6,"presence":{"channel":"chat:1"}}`, `{"id":6,"presence":{"presence":{"`+id+`":`+info+`}}}`)
	c.send(`{"id":7,"publish":{"channel":"chat:1","data":1}}`)
	pub := `{"push":{"channel":"chat:1","pub":{"data":1,"info":` + info + `,"offset":1}}}`
	if got := []string{c.receive(), c.receive()}; got[0] != pub && got[1] != pub {
		t.Errorf("got %s\nwant %s", got, pub)
	}
}

// TestPermit: each action is asked about, with the channel, and the hook's error is the answer.
func TestPermit(t *testing.T) {
	p := newPlace(t, &gateway.Options{Permit: func(_ context.Context, _ *gateway.Identity, r *gateway.PermitRequest) (gateway.Permission, error) {
		switch r.Channel {
		case "chat:" + r.Action.String():
			return gateway.Permission{}, nil
		case "chat:end":
			return gateway.Permission{}, push.DisconnectPermissionDenied
		}
		return gateway.Permission{}, push.ErrPermissionDenied
	}})
	c := p.client()
	for _, name := range []string{"subscribe", "publish", "history", "presence", "presence_stats"} {
		more := ""
		if name == "publish" {
			more = `,"data":1`
		}
		c.ask(`{"id":2,"`+name+`":{"channel":"chat:x"`+more+`}}`, `{"id":2,"error":{"code":103,"message":"permission denied"}}`)
		c.send(`{"id":3,"` + name + `":{"channel":"chat:` + strings.TrimSuffix(name, "_stats") + `"` + more + `}}`)
		if got := c.receive(); !strings.HasPrefix(got, `{"id":3,"`+name+`":`) {
			t.Errorf("%s: %s", name, got)
		}
	}
	c.send(`{"id":4,"history":{"channel":"chat:end"}}`)
	c.wantClose(3507, "permission denied")
}
