package api_test

import (
	"strings"
	"testing"

	"github.com/sluice-push/sluice/internal/testwait"
	"github.com/sluice-push/sluice/push"
)

func TestDisconnect(t *testing.T) {
	for _, tt := range []struct {
		name, body string
		want       push.Disconnect
	}{
		{"default", `{"user":"ann"}`, push.DisconnectForceNoReconnect},
		{"by client", `{"client":"1"}`, push.DisconnectForceNoReconnect},
		{"by both", `{"user":"ann","client":"1"}`, push.DisconnectForceNoReconnect},
		{"code and reason", `{"user":"ann","code":4000,"reason":"go"}`, push.Disconnect{Code: 4000, Reason: "go"}},
		{"as Centrifugo has it", `{"user":"ann","disconnect":{"code":3000,"reason":"again"}}`, push.Disconnect{Code: 3000, Reason: "again"}},
		{"highest code", `{"user":"ann","code":4999}`, push.Disconnect{Code: 4999, Reason: push.DisconnectForceNoReconnect.Reason}},
		{"longest reason", `{"user":"ann","reason":"` + strings.Repeat("r", 123) + `"}`, push.Disconnect{Code: 3503, Reason: strings.Repeat("r", 123)}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			p := newPlace(t, nil)
			ann, bob, spared := p.connect("ann", "1"), p.connect("bob", "2"), p.connect("ann", "3")
			body := strings.TrimSuffix(tt.body, "}") + `,"whitelist":["3"]}`
			if got := p.call("disconnect", body); got != `{"result":{}}` {
				t.Fatalf("got %s", got)
			}
			if got := testwait.Receive(t, ann.disconnects); got != tt.want {
				t.Errorf("ended with %v, want %v", got, tt.want)
			}
			// Control messages arrive in order: when the second has had its effect, the first has, too.
			p.call("disconnect", `{"user":"bob","code":3999}`)
			if got := testwait.Receive(t, bob.disconnects); got.Code != 3999 {
				t.Errorf("the wrong user was disconnected: %v", got)
			}
			if len(spared.disconnects) > 0 {
				t.Error("a client of the whitelist was disconnected")
			}
		})
	}
}

func TestDisconnectRefused(t *testing.T) {
	p := newPlace(t, nil)
	ann := p.connect("ann", "1")
	for body, want := range map[string]string{
		``:                           `user or client is missing`,
		`{"code":3000}`:              `user or client is missing`,
		`{"user":"ann","code":1000}`: `code 1000 is not valid for applications: use 3000 to 4999`,
		`{"user":"ann","code":2999}`: `code 2999 is not valid for applications: use 3000 to 4999`,
		`{"user":"ann","code":5000}`: `code 5000 is not valid for applications: use 3000 to 4999`,
		`{"user":"ann","disconnect":{"code":1006}}`:                 `code 1006 is not valid for applications: use 3000 to 4999`,
		`{"user":"ann","reason":"` + strings.Repeat("é", 62) + `"}`: `reason has 124 bytes, at most 123 are allowed`,
	} {
		if got := p.call("disconnect", body); got != `{"error":{"code":107,"message":"`+want+`"}}` {
			t.Errorf("%s: got %s", body, got)
		}
	}
	if len(ann.disconnects) > 0 {
		t.Error("a refused request disconnected a client")
	}
}

func TestUnsubscribe(t *testing.T) {
	p := newPlace(t, nil)
	ann, bob := p.connect("ann", "1", "a", "b"), p.connect("bob", "2", "a")
	if got := p.call("unsubscribe", `{"channel":"a","user":"ann"}`); got != `{"result":{}}` {
		t.Fatalf("got %s", got)
	}
	if got := testwait.Receive(t, ann.frames); got != "a ends with 2000: server unsubscribe" {
		t.Errorf("got %q", got)
	}
	if !ann.Subscribes("b") || !bob.Subscribes("a") {
		t.Error("more than was asked for ended")
	}
	if got := p.call("unsubscribe", `{"channel":"a","client":"2"}`); got != `{"result":{}}` {
		t.Fatalf("got %s", got)
	}
	testwait.Receive(t, bob.frames)
	if got := p.call("unsubscribe", `{"channel":"b","client":"1","code":2502,"reason":"state invalidated"}`); got != `{"result":{}}` {
		t.Fatalf("got %s", got)
	}
	if got := testwait.Receive(t, ann.frames); got != "b ends with 2502: state invalidated" {
		t.Errorf("got %q", got)
	}
	tooLong := strings.Repeat("r", 124)
	for body, want := range map[string]string{
		``:                `channel is missing`,
		`{"user":"ann"}`:  `channel is missing`,
		`{"channel":"b"}`: `user or client is missing`,
		`{"channel":"b","user":"ann","code":1999}`:                `code 1999 is not one of an unsubscribe: use 2000 to 2499, or 2500 to 2999 for clients to subscribe again`,
		`{"channel":"b","user":"ann","code":3000}`:                `code 3000 is not one of an unsubscribe: use 2000 to 2499, or 2500 to 2999 for clients to subscribe again`,
		`{"channel":"b","user":"ann","reason":"` + tooLong + `"}`: `reason has 124 bytes, at most 123 are allowed`,
	} {
		if got := p.call("unsubscribe", body); got != `{"error":{"code":107,"message":"`+want+`"}}` {
			t.Errorf("%s: got %s", body, got)
		}
	}
}

func TestPace(t *testing.T) {
	p := newPlace(t, nil)
	ann, bob := p.connect("ann", "1", "a"), p.connect("bob", "2", "a")
	for _, body := range []string{`{"user":"ann","bandwidth":1000}`, `{"client":"1","channel":"a","interval":100,"bandwidth":2000}`} {
		if got := p.call("pace", body); got != `{"result":{}}` {
			t.Fatalf("%s: got %s", body, got)
		}
	}
	p.call("disconnect", `{"user":"bob","code":3999}`) // control messages come in order
	_ = testwait.Receive(t, bob.disconnects)
	if got := ann.Bandwidth(); got != 2000 {
		t.Errorf("the client has %d bytes a second", got)
	}
	if got := bob.Bandwidth(); got != 0 {
		t.Errorf("another client has %d bytes a second", got)
	}
	for body, want := range map[string]string{
		``:                                   `user or client is missing`,
		`{"bandwidth":5}`:                    `user or client is missing`,
		`{"user":"ann"}`:                     `interval (milliseconds) or bandwidth (bytes per second) is missing`,
		`{"user":"ann","interval":5}`:        `channel is missing: an interval applies to one subscription`,
		`{"user":"ann","interval":-1}`:       `interval is -1 milliseconds: use 0 to 86400000`,
		`{"user":"ann","interval":86400001}`: `interval is 86400001 milliseconds: use 0 to 86400000`,
		`{"user":"ann","bandwidth":-7}`:      `bandwidth is -7: use 0 or more bytes per second`,
	} {
		if got := p.call("pace", body); got != `{"error":{"code":107,"message":"`+want+`"}}` {
			t.Errorf("%s: got %s", body, got)
		}
	}
}
