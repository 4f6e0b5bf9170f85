package carriertest_test

import (
	"bytes"
	"context"
	"errors"
	"net/http"
	"net/url"
	"regexp"
	"strings"

	"github.com/sluice-push/sluice/push"
	"github.com/sluice-push/sluice/push/gateway"
	"github.com/sluice-push/sluice/push/gateway/httpstream"
	"github.com/sluice-push/sluice/push/gateway/outbox"
	"github.com/sluice-push/sluice/push/gateway/sse"
	"github.com/sluice-push/sluice/push/hub"
	"github.com/sluice-push/sluice/push/pushtest/carriertest"
)

// bug is a bug, and the check that has to find it.
type bug struct {
	name, check string
	harness     func() carriertest.Harness
}

// twoWay and oneWay return the harness of a carrier with bugs. Each check gets bugs of its own.
func twoWay(p func() *planted) func() carriertest.Harness {
	return func() carriertest.Harness { return p().harness(gateway.TwoWay) }
}

func oneWay(p func() *planted) func() carriertest.Harness {
	return func() carriertest.Harness { return p().harness(gateway.OneWay) }
}

// emulatedBy returns the harness of a carrier with bugs whose clients are emulated.
func emulatedBy(p *planted) func() carriertest.Harness {
	return func() carriertest.Harness { return p.harness(gateway.Emulated) }
}

// rewriting changes what the client receives.
func rewriting(pattern, by string) func() *planted {
	expression := regexp.MustCompile(pattern)
	return received(func() receiving {
		return func(next func() ([]byte, error)) ([]byte, error) {
			frame, err := next()
			return expression.ReplaceAll(frame, []byte(by)), err
		}
	})
}

// asking changes what the client sends.
func asking(pattern, by string) func() *planted {
	expression := regexp.MustCompile(pattern)
	return func() *planted {
		return &planted{send: func(frame []byte) []byte { return expression.ReplaceAll(frame, []byte(by)) }}
	}
}

// received plants a bug in what each client receives.
func received(f func() receiving) func() *planted {
	return func() *planted { return &planted{receive: f} }
}

// dropping loses the frames that have a text, from a number of them on.
func dropping(text string, from int) func() *planted {
	return received(func() receiving {
		seen := 0
		return func(next func() ([]byte, error)) ([]byte, error) {
			for {
				frame, err := next()
				if err != nil || !bytes.Contains(frame, []byte(text)) {
					return frame, err
				}
				if seen++; seen <= from {
					return frame, nil
				}
			}
		}
	})
}

// swapping exchanges two frames of which the first has a text.
func swapping(text string, at int) func() *planted {
	return received(func() receiving {
		seen := 0
		var kept []byte
		return func(next func() ([]byte, error)) ([]byte, error) {
			if kept != nil {
				frame := kept
				kept = nil
				return frame, nil
			}
			frame, err := next()
			if err == nil && bytes.Contains(frame, []byte(text)) {
				if seen++; seen == at {
					kept = bytes.Clone(frame)
					return next()
				}
			}
			return frame, err
		}
	})
}

// doubling repeats the frames that have a text.
func doubling(text string) func() *planted {
	return received(func() receiving {
		var kept []byte
		return func(next func() ([]byte, error)) ([]byte, error) {
			if kept != nil {
				frame := kept
				kept = nil
				return frame, nil
			}
			frame, err := next()
			if bytes.Contains(frame, []byte(text)) {
				kept = bytes.Clone(frame)
			}
			return frame, err
		}
	})
}

// handling changes how the server handles a line.
func handling(f func(c *conn, line []byte)) func() *planted {
	return func() *planted { return &planted{message: f} }
}

// ending changes with what a connection ends.
func ending(f func(c *conn, last []byte, d push.Disconnect)) func() *planted {
	return func() *planted { return &planted{end: f} }
}

func fixed(p planted) func() *planted { return func() *planted { return &p } }

// losing takes frames though there is no room.
func losing(c *conn, frames []hub.Frame) int {
	c.Outbox.TryWrite(frames)
	return len(frames)
}

// losingOne loses one frame of one client: the last one that a batch of the hub has.
func losingOne() *planted {
	clients := 0
	return received(func() receiving {
		clients++
		if clients != 64 {
			return func(next func() ([]byte, error)) ([]byte, error) { return next() }
		}
		return dropping(`"pub"`, 10)().receive()
	})()
}

var bugs = []bug{
	{"the node is not told", "connect/answer", twoWay(rewriting(`,"node":"[^"]*"`, ""))},
	{"no pong is asked for", "connect/answer", twoWay(rewriting(`,"pong":true`, ""))},
	{"pongs are asked for", "connect/answer", oneWay(rewriting(`"ping":25`, `"ping":25,"pong":true`))},
	{"the data is lost", "connect/answer", twoWay(asking(`"data":.*}},`, ""))},
	{"all have one identity", "connect/answer", twoWay(rewriting(`"client":"[^"]*"`, `"client":"me"`))},
	{"a secret for all", "connect/answer", twoWay(rewriting(`"node"`, `"session":"s","node"`))},
	{"counted twice", "connect/answer", twoWay(fixed(planted{stats: func(s *gateway.TransportStats) { s.Opened *= 2 }}))},
	{"another error", "connect/refused", twoWay(rewriting(`"code":109`, `"code":100`))},
	{"another code", "connect/refused", twoWay(ending(func(c *conn, _ []byte, _ push.Disconnect) { c.Outbox.End(nil, push.DisconnectBadRequest) }))},
	{"the request is lost", "connect/refused", twoWay(handling(func(c *conn, line []byte) {
		c.Request = nil
		c.handle(line)
	}))},
	{"a refused client is connected", "connect/refused", oneWay(asking(`"token":"[^"]*"`, ""))},
	{"a goodbye after the answer", "connect/refused", emulatedBy(&planted{chatty: true})},
	{"the second is passed over", "connect/twice", twoWay(handling(func(c *conn, line []byte) {
		if !bytes.HasPrefix(line, []byte(`{"id":2,"connect"`)) {
			c.handle(line)
		}
	}))},
	{"connected without being asked", "connect/first", twoWay(handling(func(c *conn, line []byte) {
		if !bytes.Contains(line, []byte(`connect`)) {
			c.handle([]byte(`{"id":100,"connect":{}}`))
		}
		c.handle(line)
	}))},
	{"the first command is passed over", "connect/first", twoWay(handling(func(c *conn, line []byte) {
		if bytes.Contains(line, []byte(`connect`)) {
			c.handle(line)
		}
	}))},
	{"no heartbeat", "connect/late", twoWay(fixed(planted{silent: true}))},
	{"no heartbeat, one way", "connect/late", oneWay(fixed(planted{silent: true}))},

	{"the first publication is lost", "subscribe/one", twoWay(dropping(`"pub"`, 0))},
	{"one is lost", "subscribe/one", oneWay(dropping(`"pub"`, 3))},
	{"one comes twice", "subscribe/one", twoWay(doubling(`"tags":{"a"`))},
	{"two are swapped", "subscribe/many", oneWay(swapping(`"pub"`, 2))},
	{"large ones are cut", "subscribe/one", twoWay(rewriting(`largelarge"`, `large"`))},
	{"tags are lost", "subscribe/one", oneWay(rewriting(`,"tags":{[^}]*}`, ""))},
	{"escapes are lost", "subscribe/one", twoWay(rewriting(`\\n`, ""))},
	{"not recoverable", "subscribe/one", twoWay(rewriting(`"recoverable":true,`, ""))},
	{"the offset is lost", "subscribe/one", oneWay(rewriting(`,"offset":1,`, ","))},
	{"an answer is lost", "subscribe/many", twoWay(dropping(`"subscribe":{`, 60))},
	{"two answers are swapped", "subscribe/many", twoWay(swapping(`"subscribe":{`, 50))},
	{"a request is lost", "subscribe/many", oneWay(asking(`"channel-50":{},`, ""))},
	{"a push before the answer", "subscribe/while publishing", twoWay(swapping(`"subscribe":{`, 3))},
	{"a push after the end", "subscribe/while publishing", twoWay(swapping(`"pub"`, 20))},
	{"a publication is lost", "subscribe/while publishing", twoWay(dropping(`"pub"`, 30))},
	{"the end of a subscription is passed over", "unsubscribe/by the client", twoWay(handling(func(c *conn, line []byte) {
		if !bytes.Contains(line, []byte(`"unsubscribe"`)) {
			c.handle(line)
		}
	}))},
	{"a push after the end", "unsubscribe/by the client", twoWay(doubling(`"id":4,"unsubscribe"`))},
	{"the end is not told", "unsubscribe/by the server", twoWay(dropping(`"unsubscribe":{`, 0))},
	{"another reason", "unsubscribe/by the server", twoWay(rewriting(`"code":2500`, `"code":2000`))},
	{"not disconnected", "unsubscribe/by the server", oneWay(dropping(`"disconnect"`, 0))},
	{"the publisher is lost", "publish", twoWay(rewriting(`"info":{[^}]*},`, ""))},
	{"tags are lost", "publish", twoWay(asking(`,"tags":{[^}]*}`, ""))},
	{"removals are lost", "publish", twoWay(asking(`,"removed":true`, ""))},
	{"two are swapped", "order", twoWay(swapping(`"pub"`, 100))},
	{"two are swapped, one way", "order", oneWay(swapping(`"pub"`, 5))},
	{"one comes twice", "order", oneWay(doubling(`"offset":20}`))},
	{"one is lost", "order", twoWay(dropping(`"offset":17}`, 0))},
	{"two answers are swapped", "order", twoWay(swapping(`"publish":{}`, 7))},
	{"one client loses one", "many clients", twoWay(losingOne)},
	{"one client loses one, one way", "many clients", oneWay(losingOne)},
	{"two are swapped", "many clients", oneWay(swapping(`"pub"`, 19))},
	{"not told that there is more", "history", twoWay(rewriting(`"sluice.more":"1"`, `"other":"1"`))},
	{"the direction is lost", "history", twoWay(asking(`,"reverse":true`, ""))},
	{"the position is lost", "history", twoWay(asking(`"since":{[^}]*},?`, ""))},
	{"clients that have left stay", "presence", twoWay(fixed(planted{closed: func(c *conn, how gateway.Ending) {
		if c.transport.gateway.Context().Err() != nil {
			c.Closed(how)
		}
	}}))},
	{"users are lost", "presence", twoWay(rewriting(`,"num_users":1`, ""))},
	{"leaves are lost", "join and leave", twoWay(dropping(`"leave":{`, 0))},
	{"leaves come as joins", "join and leave", twoWay(rewriting(`"leave":{`, `"join":{`))},
	{"the wish is lost", "join and leave", oneWay(asking(`"join_leave":true`, `"join_leave":false`))},
	{"results are lost", "calls", twoWay(rewriting(`"rpc":{"data":[^}]*}`, `"rpc":{`))},
	{"methods are lost", "calls", twoWay(asking(`"method":"other",`, `"method":"sluice.pace",`))},
	{"goes on after a send", "calls", twoWay(handling(func(c *conn, line []byte) {
		if !bytes.Contains(line, []byte(`{"send"`)) {
			c.handle(line)
		}
	}))},
	{"pongs are answered", "ping/command", twoWay(handling(func(c *conn, line []byte) {
		if string(line) == "{}\n" {
			c.Outbox.Ping()
		}
		c.handle(line)
	}))},
	{"no pings", "ping/answered", twoWay(fixed(planted{ping: func(*conn) bool { return true }}))},
	{"no pings, one way", "ping/answered", oneWay(fixed(planted{ping: func(*conn) bool { return true }}))},
	{"pongs are not heard", "ping/answered", twoWay(handling(func(c *conn, line []byte) {
		if string(line) != "{}\n" {
			c.handle(line)
		}
	}))},
	{"pings have an id", "ping/answered", twoWay(rewriting(`^{}`, `{"id":1}`))},
	{"a silent client is heard", "ping/unanswered", twoWay(fixed(planted{ping: func(*conn) bool { return false }}))},
	{"the end is not told", "ping/unanswered", twoWay(dropping(`"disconnect"`, 0))},

	{"what was missed is lost", "recover/same node", twoWay(rewriting(`"publications":\[[^\]]*\],`, ""))},
	{"what was missed is lost, one way", "recover/same node", oneWay(rewriting(`"publications":\[[^\]]*\],`, ""))},
	{"the position is the new one", "recover/same node", twoWay(rewriting(`"recovered":true,"offset":5`, `"recovered":true,"offset":10`))},
	{"the client begins anew", "recover/other node", twoWay(asking(`"recover":true,`, ""))},
	{"the epoch is lost", "recover/other node", oneWay(asking(`"epoch":"[^"]*",`, ""))},
	{"the client begins anew", "recover/table", twoWay(asking(`"recover":true,`, ""))},
	{"changes are lost", "recover/table", oneWay(rewriting(`"publications":\[[^\]]*\],`, ""))},
	{"removals are lost", "recover/table", oneWay(rewriting(`,"removed":true`, ""))},
	{"the end is not told", "recover/table", twoWay(dropping(`"unsubscribe":{`, 0))},
	{"recovered in any case", "recover/too late", twoWay(rewriting(`"was_recovering":true`, `"was_recovering":true,"recovered":true`))},
	{"recovered in any case, one way", "recover/too late", oneWay(rewriting(`"was_recovering":true`, `"was_recovering":true,"recovered":true`))},
	{"the refusal is lost", "recover/too late", twoWay(asking(`,"flag":2`, ""))},
	{"no position", "recover/by the last id", events(func(string) string { return "a=x:1" })},
	{"half a position", "recover/by the last id", events(func(id string) string { return strings.SplitAfter(id, "&")[0] })},
	{"commands come twice", "other node", emulated(func(c carriertest.Conn, frame []byte, n int) error {
		err := c.Send(frame)
		if n == 3 {
			err = errors.Join(err, c.Send(frame))
		}
		return err
	})},
	{"commands are lost", "other node", emulated(func(c carriertest.Conn, frame []byte, n int) error {
		if n == 3 {
			return nil
		}
		return c.Send(frame)
	})},

	{"rows are lost", "table/rows", twoWay(rewriting(`"key":"row-299"`, `"key":"row-298"`))},
	{"rows are lost, one way", "table/rows", oneWay(dropping(`"key":"row-298"`, 0))},
	{"rows come twice", "table/rows", twoWay(doubling(`"row-298"`))},
	{"pages have no end", "table/map", twoWay(asking(`,"cursor":"[^"]*"`, ""))},
	{"changes are lost", "table/map", twoWay(rewriting(`,"removed":true`, ""))},
	{"as often as possible", "table/rate", twoWay(asking(`"interval":1000`, `"interval":1`))},
	{"as often as possible, one way", "table/rate", oneWay(asking(`,?"data":{"sluice":{"interval":1000}}`, ""))},
	{"deltas are not marked", "delta/value", twoWay(rewriting(`,"delta":true}}`, `}}`))},
	{"deltas are not marked, one way", "delta/value", oneWay(rewriting(`,"delta":true}}`, `}}`))},
	{"data is no string", "delta/value", twoWay(rewriting(`"data":"([^\\"]*\\.*)","offset"`, `"data":{"x":1},"offset"`))},
	{"a delta is lost", "delta/value", twoWay(dropping(`"delta":true}}`, 4))},
	{"no deltas", "delta/map", twoWay(asking(`,"delta":"fossil"`, ""))},
	{"two are swapped", "delta/map", twoWay(swapping(`"pub"`, 5))},
	{"no numbers", "numbers", twoWay(asking(`,"flag":1`, ""))},
	{"another number", "numbers", twoWay(rewriting(`"push":{"id":`, `"push":{"id":1`))},
	{"numbers for all", "numbers", twoWay(rewriting(`"push":{"channel":"a","pub"`, `"push":{"id":1,"pub"`))},

	{"a queue without bound", "slow/table", twoWay(fixed(planted{queue: true}))},
	{"a queue without bound, one way", "slow/table", oneWay(fixed(planted{queue: true}))},
	{"takes what it has no room for", "slow/table", twoWay(fixed(planted{write: losing}))},
	{"the hub sleeps", "slow/table", oneWay(fixed(planted{asleep: true}))},
	{"a queue without bound", "slow/stream", twoWay(fixed(planted{queue: true}))},
	{"takes what it has no room for", "slow/stream", twoWay(fixed(planted{write: losing}))},
	{"the hub sleeps", "slow/stream", oneWay(fixed(planted{asleep: true}))},
	{"frames that were not taken are sent", "slow/stream", twoWay(fixed(planted{write: func(c *conn, frames []hub.Frame) int {
		return max(c.Outbox.TryWrite(frames)-1, 0)
	}}))},
	{"takes what it has no room for", "slow/policies", twoWay(fixed(planted{write: losing}))},
	{"another code", "slow/policies", twoWay(rewriting(`"code":3008`, `"code":3000`))},
	{"the end is not told", "slow/policies", oneWay(ending(func(c *conn, _ []byte, _ push.Disconnect) { _ = c.nc.Close() }))},
	{"answers without room are lost", "slow/replies", twoWay(fixed(planted{reply: func(c *conn, message []byte) error {
		if c.Outbox.Queued() >= outbox.Limit {
			return nil
		}
		return c.Outbox.Reply(message)
	}}))},
	{"answers without bound", "slow/replies", twoWay(fixed(planted{reply: func(c *conn, message []byte) error {
		c.enqueue(append(bytes.Clone(message), '\n'))
		return nil
	}}))},
	{"ends a client without room", "slow/replies", twoWay(fixed(planted{reply: func(c *conn, message []byte) error {
		if c.Outbox.Queued() >= outbox.Limit {
			c.Disconnect(push.DisconnectSlow)
		}
		return c.Outbox.Reply(message)
	}}))},
	{"patience without end", "slow/time-out", twoWay(fixed(planted{patient: true}))},
	{"counted as left", "slow/time-out", oneWay(fixed(planted{closed: func(c *conn, _ gateway.Ending) { c.Closed(gateway.EndedByClient) }}))},

	{"no goodbye", "end/codes", twoWay(ending(func(c *conn, _ []byte, _ push.Disconnect) { _ = c.nc.Close() }))},
	{"no reason", "end/codes", oneWay(ending(func(c *conn, _ []byte, d push.Disconnect) { c.Outbox.End(nil, push.Disconnect{Code: d.Code}) }))},
	{"one code for all", "end/codes", twoWay(ending(func(c *conn, _ []byte, d push.Disconnect) {
		c.Outbox.End(nil, push.Disconnect{Code: push.DisconnectShutdown.Code, Reason: d.Reason})
	}))},
	{"something follows the end", "end/codes", twoWay(doubling(`"disconnect"`))},
	{"not counted by code", "end/codes", twoWay(fixed(planted{stats: func(s *gateway.TransportStats) {
		s.Left += s.Disconnected[3503]
		s.Disconnected[3503] = 0
	}}))},
	{"a gateway is missing", "routes/told", twoWay(rewriting(`,"wss://self[^"]*"`, ""))},
	{"no gateways, one way", "routes/told", oneWay(rewriting(`"routes":\[[^]]*\]`, `"routes":[]`))},
	{"no message", "routes/move", twoWay(dropping(`"message"`, 0))},
	{"no message, one way", "routes/move", oneWay(dropping(`"message"`, 0))},
	{"another code", "routes/move", twoWay(ending(func(c *conn, last []byte, _ push.Disconnect) { c.Outbox.End(last, push.DisconnectForceReconnect) }))},
	{"the wrong gateway", "routes/drain", twoWay(rewriting(`wss://bob`, "wss://ann"))},
	{"no message", "routes/drain", oneWay(dropping(`"message"`, 0))},
	{"another code", "routes/wrong gateway", twoWay(ending(func(c *conn, _ []byte, _ push.Disconnect) { c.Outbox.End(nil, push.DisconnectInvalidToken) }))},
	{"another code, one way", "routes/wrong gateway", oneWay(ending(func(c *conn, _ []byte, _ push.Disconnect) { c.Outbox.End(nil, push.DisconnectInvalidToken) }))},
	{"no goodbye", "end/shutdown", twoWay(fixed(planted{abrupt: true}))},
	{"no goodbye, one way", "end/shutdown", oneWay(fixed(planted{abrupt: true}))},
	{"not counted", "end/statistics", twoWay(fixed(planted{stats: func(s *gateway.TransportStats) { s.Left = min(s.Left, 2) }}))},
	{"no bytes", "end/statistics", oneWay(fixed(planted{stats: func(s *gateway.TransportStats) { s.BytesOut = 0 }}))},
	{"a subscription stays", "end/statistics", twoWay(fixed(planted{closed: func(c *conn, how gateway.Ending) {
		if c.transport.gateway.Context().Err() != nil {
			c.Closed(how)
		}
	}}))},
	{"counted twice", "refusal/clients", twoWay(fixed(planted{insists: true}))},
	{"counted twice, one way", "refusal/clients", oneWay(fixed(planted{insists: true}))},
	{"another code", "refusal/users", twoWay(ending(func(c *conn, _ []byte, _ push.Disconnect) { c.Outbox.End(nil, push.DisconnectServerError) }))},
	{"clients of all users are one", "refusal/users", oneWay(asking(`"token":"[^"]*"`, `"token":"x"`))},
	{"users are lost", "refusal/users", oneWay(asking(`"token":"[^"]*"`, ""))},
	{"a user stays", "refusal/users", twoWay(fixed(planted{closed: func(*conn, gateway.Ending) {}}))},
	{"counted twice", "refusal/connects", twoWay(fixed(planted{insists: true}))},
	{"counted twice, one way", "refusal/connects", oneWay(fixed(planted{insists: true}))},
	{"the place of a client stays taken", "refusal/clients", twoWay(fixed(planted{closed: func(c *conn, how gateway.Ending) {
		if c.transport.gateway.Context().Err() != nil {
			c.Closed(how)
		}
	}}))},
	{"an error is lost", "refusal/commands", twoWay(dropping(`"error":{"code":104`, 0))},
	{"a command without a number is passed over", "refusal/commands", twoWay(handling(func(c *conn, line []byte) {
		if bytes.HasPrefix(line, []byte(`{"id":`)) || string(line) == "{}\n" {
			c.handle(line)
		}
	}))},
	{"an error ends the connection", "refusal/commands", twoWay(fixed(planted{reply: func(c *conn, message []byte) error {
		if bytes.Contains(message, []byte(`"code":106`)) {
			c.Disconnect(push.DisconnectBadRequest)
		}
		return c.Outbox.Reply(message)
	}}))},
	{"others notice", "refusal/commands", twoWay(func() *planted {
		var first *conn
		return &planted{message: func(c *conn, line []byte) {
			if first == nil {
				first = c
			}
			if bytes.Contains(line, []byte(`nowhere`)) {
				first.Outbox.Ping()
			}
			c.handle(line)
		}}
	})},
	{"bad lines are passed over", "refusal/frames", twoWay(handling(func(c *conn, line []byte) {
		if line[0] == '{' {
			c.handle(line)
		}
	}))},
	{"only the first of a line counts", "refusal/frames", twoWay(handling(func(c *conn, line []byte) {
		if first, _, found := bytes.Cut(line, []byte("}{")); found {
			line = append(first, '}')
		}
		c.handle(line)
	}))},
	{"the beginning of a frame is handled", "refusal/unfinished", twoWay(fixed(planted{hasty: true}))},
	{"an answer is lost", "refusal/flood", twoWay(dropping(`"id":5000,`, 0))},
	{"connected with what was understood", "refusal/requests", oneWay(asking(`,"nowhere:a":{}`, ""))},
	{"connected in any case", "refusal/requests", oneWay(asking(`^hello$`, "{}"))},
}

// emulated returns the harness of HTTP streams, whose n-th frame is sent by a function.
func emulated(send func(c carriertest.Conn, frame []byte, n int) error) func() carriertest.Harness {
	return func() carriertest.Harness {
		client := carriertest.HTTPStream{Form: carriertest.JSON, Way: gateway.Emulated}
		client.Request = func(first []byte, _ string) carriertest.StreamRequest {
			return carriertest.StreamRequest{Method: http.MethodPost, Target: httpstream.Path, Body: first}
		}
		h := carriertest.Harness{Transport: httpstream.New, Form: client.Form, Way: client.Way}
		h.Dial = func(ctx context.Context, t carriertest.Target) (carriertest.Conn, error) {
			c, err := client.Dial(ctx, t)
			return &emulatedConn{Conn: c, send: send}, err
		}
		return h
	}
}

type emulatedConn struct {
	carriertest.Conn
	send func(c carriertest.Conn, frame []byte, n int) error
	sent int
}

func (c *emulatedConn) Send(frame []byte) error {
	c.sent++
	return c.send(c.Conn, frame, c.sent)
}

// events returns the harness of server-sent events, whose clients come back with another id.
func events(change func(id string) string) func() carriertest.Harness {
	client := carriertest.HTTPStream{Form: carriertest.JSON, Way: gateway.OneWay, Read: carriertest.ReadEvent}
	client.Request = func(first []byte, lastID string) carriertest.StreamRequest {
		r := carriertest.StreamRequest{Method: http.MethodGet, Header: http.Header{}}
		r.Target = sse.OneWayPath + "?cf_connect=" + url.QueryEscape(string(first))
		if lastID != "" {
			r.Header.Set("Last-Event-ID", change(lastID))
		}
		return r
	}
	return func() carriertest.Harness {
		return carriertest.Harness{Transport: sse.NewOneWay, Form: client.Form, Way: client.Way, Dial: client.Dial}
	}
}
