package gateway_test

import (
	"encoding/json"
	"fmt"
	"testing"
	"time"

	"github.com/sluice-push/sluice/push"
	"github.com/sluice-push/sluice/push/hub"
	"github.com/sluice-push/sluice/timingwheel"
)

// wishFor asks for a subscription to a channel with data.
const wishFor = `{"id":2,"subscribe":{"channel":"%s","data":%s}}`

// wishesOfSubscriptions are what a client may ask for when it subscribes.
var wishesOfSubscriptions = script{
	{
		"interval", fmt.Sprintf(wishFor, "a", `{"sluice":{"interval":200}}`),
		`{"id":2,"subscribe":{"recoverable":true,"epoch":"EPOCH","positioned":true,"data":{"sluice":{"interval":200}}}}`,
	},
	{
		"as often as may be", fmt.Sprintf(wishFor, "b", `{"sluice":{"interval":0}}`),
		`{"id":2,"subscribe":{"recoverable":true,"epoch":"EPOCH","positioned":true,"data":{"sluice":{"interval":0}}}}`,
	},
	{
		"told of losses", fmt.Sprintf(wishFor, "l", `{"sluice":{"lost":true}}`),
		`{"id":2,"subscribe":{"recoverable":true,"epoch":"EPOCH","positioned":true,"data":{"sluice":{"lost":true}}}}`,
	},
	{
		"told, but not often", fmt.Sprintf(wishFor, "m", `{"sluice":{"lost":true,"interval":100}}`),
		`{"id":2,"subscribe":{"recoverable":true,"epoch":"EPOCH","positioned":true,"data":{"sluice":{"interval":100,"lost":true}}}}`,
	},
	{
		"data of the application", fmt.Sprintf(wishFor, "c", `{"interval":5}`),
		`{"id":2,"subscribe":{"recoverable":true,"epoch":"EPOCH","positioned":true}}`,
	},
	{
		"another's", fmt.Sprintf(wishFor, "f", `{"Sluice":5}`),
		`{"id":2,"subscribe":{"recoverable":true,"epoch":"EPOCH","positioned":true}}`,
	},
	{
		"too long", fmt.Sprintf(wishFor, "d", `{"sluice":{"interval":86400001}}`),
		`{"id":2,"error":{"code":107,"message":"subscribe.data.sluice.interval is 86400001 milliseconds: use 0 to 86400000"}}`,
	},
	{
		"less than none", fmt.Sprintf(wishFor, "d", `{"sluice":{"interval":-1}}`),
		`{"id":2,"error":{"code":107,"message":"subscribe.data.sluice.interval is -1 milliseconds: use 0 to 86400000"}}`,
	},
}

// wishesLater are what it may ask for afterwards.
var wishesLater = script{
	{"later", `{"id":3,"rpc":{"method":"sluice.pace","data":{"channel":"a","interval":50}}}`, `{"id":3,"rpc":{"data":{"channel":"a","interval":50}}}`},
	{"more than may be", `{"id":4,"rpc":{"method":"sluice.pace","data":{"bandwidth":9999999}}}`, `{"id":4,"rpc":{"data":{"bandwidth":1048576}}}`},
	{
		"not subscribed", `{"id":5,"rpc":{"method":"sluice.pace","data":{"channel":"x","interval":50}}}`,
		`{"id":5,"error":{"code":107,"message":"not subscribed to \"x\""}}`,
	},
	{
		"nothing", `{"id":6,"rpc":{"method":"sluice.pace","data":{}}}`,
		`{"id":6,"error":{"code":107,"message":"rpc.data.interval (milliseconds) or rpc.data.bandwidth (bytes per second) is missing"}}`,
	},
	{
		"no data", `{"id":6,"rpc":{"method":"sluice.pace"}}`,
		`{"id":6,"error":{"code":107,"message":"rpc.data.interval (milliseconds) or rpc.data.bandwidth (bytes per second) is missing"}}`,
	},
	{
		"other names", `{"id":6,"rpc":{"method":"sluice.pace","data":{"Channel":"a","INTERVAL":50,"Bandwidth":1}}}`,
		`{"id":6,"error":{"code":107,"message":"rpc.data.interval (milliseconds) or rpc.data.bandwidth (bytes per second) is missing"}}`,
	},
	{
		"too late", `{"id":7,"rpc":{"method":"sluice.pace","data":{"channel":"a","interval":1,"lost":true}}}`,
		`{"id":7,"error":{"code":107,"message":"rpc.data.lost is allowed only in subscribe: leave it out"}}`,
	},
	{
		"no channel", `{"id":7,"rpc":{"method":"sluice.pace","data":{"interval":1}}}`,
		`{"id":7,"error":{"code":107,"message":"rpc.data.channel is missing: an interval applies to one subscription"}}`,
	},
	{
		"less than nothing", `{"id":8,"rpc":{"method":"sluice.pace","data":{"bandwidth":-1}}}`,
		`{"id":8,"error":{"code":107,"message":"rpc.data.bandwidth is -1: use 0 or more bytes per second"}}`,
	},
}

// TestWishes: how a client asks to be served, and what it is answered.
func TestWishes(t *testing.T) {
	p := newPlaceWith(t, nil, &hub.Options{Bandwidth: 1 << 20})
	c := p.connectWS(nil)
	c.send(`{"id":1,"connect":{"data":{"sluice":{"bandwidth":50000},"app":1}}}`)
	if got, want := dataOf(c.receive()), `{"sluice":{"bandwidth":50000}}`; got != want {
		t.Errorf("connect is answered with %s, not %s", got, want)
	}
	epoch := p.epoch("a")
	wishesOfSubscriptions.run(t, c, "EPOCH", epoch)
	wishesLater.run(t, c, "EPOCH", epoch)
	for _, broken := range []string{`{"sluice":{"interval":"x"}}`, `{"sluice":{"lost":1}}`, `{"sluice":5}`} {
		c.send(fmt.Sprintf(wishFor, "e", broken))
		if code, _ := errorOf(c.receive()); code != 107 {
			t.Errorf("%s is answered with code %d", broken, code)
		}
	}
}

// TestNothingIsLost: where nothing is lost, or the policy is another, no client is told that losses will be.
func TestNothingIsLost(t *testing.T) {
	p := newPlace(t, nil)
	c := p.client()
	for _, channel := range []string{"table:x", "ends:x", "cuts:x"} {
		c.send(fmt.Sprintf(`{"id":2,"subscribe":{"channel":"%s","data":{"sluice":{"lost":true}}}}`, channel))
		c.want(fmt.Sprintf(`{"id":2,"subscribe":{"recoverable":true,"epoch":"%s","positioned":true}}`, p.epoch(channel)))
	}
}

// dataOf returns the data of the answer to connect.
func dataOf(answer string) string {
	var in struct {
		Connect struct {
			Data json.RawMessage `json:"data"`
		} `json:"connect"`
	}
	_ = json.Unmarshal([]byte(answer), &in)
	return string(in.Connect.Data)
}

// errorOf returns the error of an answer.
func errorOf(answer string) (code int, message string) {
	var in struct {
		Error struct {
			Code    int    `json:"code"`
			Message string `json:"message"`
		} `json:"error"`
	}
	_ = json.Unmarshal([]byte(answer), &in)
	return in.Error.Code, in.Error.Message
}

// TestIntervalOverTheWire: a client with an interval gets what is newest when its time comes, one without gets everything.
func TestIntervalOverTheWire(t *testing.T) {
	clock := timingwheel.NewFakeClock(time.Now())
	p := newPlaceWith(t, nil, &hub.Options{Clock: clock})
	slow, quick := p.connectWS(nil), p.subscriber("table:t")
	slow.send(`{"id":1,"connect":{}}`)
	slow.receive()
	slow.send(`{"id":2,"subscribe":{"channel":"table:t","data":{"sluice":{"interval":1000}}}}`)
	slow.receive()
	for i := range 3 {
		p.put("table:t", push.Publication{Key: "k", Data: fmt.Append(nil, i)})
		quick.want(fmt.Sprintf(`{"push":{"channel":"table:t","pub":{"data":%d,"offset":%d,"key":"k"}}}`, i, i+1))
	}
	clock.Advance(1010 * time.Millisecond)
	slow.want(`{"push":{"channel":"table:t","pub":{"data":2,"offset":3,"key":"k"}}}`)
}
