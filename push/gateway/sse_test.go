package gateway_test

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/sluice-push/sluice/internal/testwait"
	"github.com/sluice-push/sluice/push"
	"github.com/sluice-push/sluice/push/gateway"
	sseclients "github.com/sluice-push/sluice/push/gateway/sse"
	"github.com/sluice-push/sluice/push/hub"
)

// TestStream: the first event tells of the connection and its subscriptions, the others are what comes, each with the position.
func TestStream(t *testing.T) {
	p := newPlace(t, nil)
	p.publish("a", "0")
	epoch := p.epoch("a")
	r := strings.NewReplacer("EPOCH", epoch, "TABLE", p.epoch("table:t"), "NODE", p.hub.ID())
	p.put("table:t", push.Publication{Key: "k", Data: []byte(`"row"`)})
	s := p.stream(`{"subs":{"a":{},"table:t":{}}}`, "")
	first := s.next()
	want := r.Replace(`{"connect":{"client":"CLIENT","version":"v1","subs":{"a":{"recoverable":true,"epoch":"EPOCH","offset":1,"positioned":true},` +
		`"table:t":{"recoverable":true,"epoch":"TABLE","publications":[{"data":"row","offset":1,"key":"k"}],"positioned":true}},` +
		`"ping":25,"node":"NODE"}}`)
	if got := uuid.ReplaceAllString(first.data, "CLIENT"); got != want {
		t.Errorf("got %s\nwant %s", got, want)
	}
	if want := r.Replace("a=EPOCH:1&table%3At=TABLE:1"); first.id != want {
		t.Errorf("got the id %s\nwant %s", first.id, want)
	}
	for i, step := range []struct {
		channel string
		pub     push.Publication
		want    event
	}{
		{
			"a",
			push.Publication{Data: []byte(`{"x":1}`), Tags: map[string]string{"v": "1"}},
			event{"a=EPOCH:2&table%3At=TABLE:1", true, `{"channel":"a","pub":{"data":{"x":1},"offset":2,"tags":{"v":"1"}}}`},
		},
		{
			"table:t",
			push.Publication{Key: "k", Data: []byte(`2`)},
			event{"a=EPOCH:2&table%3At=TABLE:2", true, `{"channel":"table:t","pub":{"data":2,"offset":2,"key":"k"}}`},
		},
		{
			"table:t",
			push.Publication{Key: "k", Op: push.Remove},
			event{"a=EPOCH:2&table%3At=TABLE:3", true, `{"channel":"table:t","pub":{"data":null,"offset":3,"key":"k","removed":true}}`},
		},
	} {
		p.put(step.channel, step.pub)
		got := s.next()
		if want := (event{r.Replace(step.want.id), true, step.want.data}); got != want {
			t.Errorf("%d: got %v\nwant %v", i, got, want)
		}
	}
	for name, want := range map[string]string{"Cache-Control": "no-store", "X-Accel-Buffering": "no"} {
		if got := s.res.Header.Get(name); got != want {
			t.Errorf("%s: %q", name, got)
		}
	}
}

// TestStreamResumes: what Last-Event-ID says beats the URL, of which a browser repeats the first version for ever.
func TestStreamResumes(t *testing.T) {
	p := newPlace(t, nil)
	epoch := p.epoch("a")
	for i := range 5 {
		p.publish("a", fmt.Sprint(i+1))
	}
	pubs := func(from int) string {
		var out []string
		for i := from; i <= 5; i++ {
			out = append(out, fmt.Sprintf(`{"data":%d,"offset":%d}`, i, i))
		}
		if out == nil {
			return ""
		}
		return `"publications":[` + strings.Join(out, ",") + `],`
	}
	for _, tt := range []struct{ name, sub, lastID, want string }{
		{"fresh", `{}`, "", `"offset":5,"positioned":true}`},
		{"by the URL", `{"recover":true,"epoch":"EPOCH","offset":3}`, "", pubs(4) + `"recovered":true,"offset":3,"positioned":true,"was_recovering":true}`},
		{"by the id", `{}`, "a=EPOCH:2", pubs(3) + `"recovered":true,"offset":2,"positioned":true,"was_recovering":true}`},
		{
			"by both", `{"recover":true,"epoch":"EPOCH","offset":1}`, "a=EPOCH:4",
			pubs(5) + `"recovered":true,"offset":4,"positioned":true,"was_recovering":true}`,
		},
		{"an id of another channel", `{}`, "b=EPOCH:4", `"offset":5,"positioned":true}`},
		{"an id that is not ours", `{}`, "4711", `"offset":5,"positioned":true}`},
		{"an id of another epoch", `{}`, "a=other:4", `"offset":5,"positioned":true,"was_recovering":true}`},
		{"nothing missed", `{}`, "a=EPOCH:5", `"recovered":true,"offset":5,"positioned":true,"was_recovering":true}`},
	} {
		t.Run(tt.name, func(t *testing.T) {
			s := p.stream(`{"subs":{"a":`+strings.ReplaceAll(tt.sub, "EPOCH", epoch)+`}}`, strings.ReplaceAll(tt.lastID, "EPOCH", epoch))
			defer s.close()
			if got, want := s.next().data, `"subs":{"a":{"recoverable":true,"epoch":"`+epoch+`",`+tt.want; !strings.Contains(got, want) {
				t.Errorf("got %s\nwant %s", got, want)
			}
		})
	}
}

// TestStreamRefused: a request that does not become a stream says why.
func TestStreamRefused(t *testing.T) {
	p := newPlaceWith(t, &gateway.Options{
		Permit: func(_ context.Context, _ *gateway.Identity, r *gateway.PermitRequest) (gateway.Permission, error) {
			if r.Channel == "secret" {
				return gateway.Permission{}, push.ErrPermissionDenied
			}
			return gateway.Permission{}, nil
		},
		Authenticate: func(_ context.Context, token string, _ *http.Request) (gateway.Identity, error) {
			return gateway.Identity{Info: push.ClientInfo{User: "ann"}}, map[string]error{
				"invalid": push.DisconnectInvalidToken, "later": push.DisconnectTooManyRequests, "unauthorized": push.ErrUnauthorized,
				"expired": push.ErrTokenExpired, "busy": push.ErrTooManyRequests, "broken": errors.New("the directory is down"),
			}[token]
		},
	}, &hub.Options{SubscriptionsPerSession: 2})
	p.log.expect("the directory is down")
	for _, tt := range []struct {
		connect string
		status  int
		reason  string
	}{
		{`{`, 400, `cf_connect: `},
		{`{} {}`, 400, `at byte 3`},
		{`[]`, 400, `cf_connect: connect: expected an object at byte 0`},
		{`{"token":1}`, 400, `cf_connect: connect.token: expected a string at byte 9`},
		{`{"subs":["a"]}`, 400, `cf_connect: connect.subs: expected an object at byte 8`},
		{`{"subs":{"a":{"offset":"1"}}}`, 400, `connect.subs.offset: expected an integer between 0 and 9007199254740991 at byte 23`},
		{`{"subs":{"":{}}}`, 400, `channel name is empty`},
		{`{"subs":{"nowhere:a":{}}}`, 400, `unknown channel`},
		{`{"subs":{"a":{"type":1}}}`, 400, `this type of subscription is not supported`},
		{`{"subs":{"a":{"tf":{}}}}`, 400, `filters are not supported`},
		{`{"subs":{"a":{"recover":true,"epoch":"x","flag":2}}}`, 400, `unrecoverable position`},
		{`{"subs":{"a":{},"b":{},"c":{}}}`, 400, `at most 2 subscriptions are allowed`},
		{`{"subs":{"a":{},"secret":{}}}`, 403, `permission denied`},
		{`{"token":"invalid"}`, 403, `invalid token`},
		{`{"token":"later"}`, 503, `too many requests`},
		{`{"token":"unauthorized"}`, 401, `unauthorized`},
		{`{"token":"expired"}`, 401, `token expired`},
		{`{"token":"busy"}`, 503, `too many requests`},
		{`{"token":"broken"}`, 500, `internal server error`},
	} {
		res, body := p.get(http.MethodGet, sseclients.OneWayPath+"?cf_connect="+url.QueryEscape(tt.connect), nil)
		if res.StatusCode != tt.status || !strings.Contains(body, tt.reason) {
			t.Errorf("%s\n got %d %s\nwant %d %s", tt.connect, res.StatusCode, body, tt.status, tt.reason)
		}
		if !res.Close {
			t.Errorf("%s: the connection is kept", tt.connect)
		}
	}
	for _, connect := range []string{``, `null`, `{}`, "{\n}", `{"subs":{"a":{},"b":{}}}`} {
		p.stream(connect, "").next()
	}
}

// TestStreamOfManyChannels: with 128 channels a browser that comes back goes on where it was, and small events do not carry positions of hundreds of
// bytes.
func TestStreamOfManyChannels(t *testing.T) {
	p := newPlace(t, nil)
	var subs []string
	for i := range 128 {
		subs = append(subs, fmt.Sprintf(`"s%d":{}`, i))
	}
	connect := `{"subs":{` + strings.Join(subs, ",") + `}}`
	s := p.stream(connect, "")
	last := s.next().id
	if last == "" || len(last) > sseclients.MaxID {
		t.Fatalf("the first id is %q", last)
	}
	const n = 200
	bytes, told := 0, map[string]int{} // since the last id
	for i := range n {
		p.publish(fmt.Sprintf("s%d", i%128), fmt.Sprint(i))
		e := s.next()
		told[e.data]++
		if bytes += len(e.id); e.hasID {
			last = e.id
			clear(told)
		}
	}
	if bytes > n*60 {
		t.Errorf("%d bytes of ids for %d events of a few bytes", bytes, n)
	}
	p.publish("s5", `"missed"`)
	var hello struct {
		Connect struct {
			Subs map[string]struct {
				WasRecovering bool `json:"was_recovering"`
				Recovered     bool
				Publications  []struct{ Data any }
			}
		}
	}
	must(t, json.Unmarshal([]byte(p.stream(connect, last).next().data), &hello))
	missed := 0
	for name, sub := range hello.Connect.Subs {
		missed += len(sub.Publications)
		if !sub.Recovered {
			t.Errorf("%s is not recovered", name)
		}
	}
	if missed != 1+len(told) {
		t.Errorf("%d publications are told when it comes back, after %d without an id and one missed", missed, len(told))
	}
}

// TestStreamWithLostPosition: where a position cannot be told because it is too long, a client that comes back is told that it missed something.
func TestStreamWithLostPosition(t *testing.T) {
	p := newPlace(t, nil)
	var subs []string
	for i := range 64 {
		subs = append(subs, fmt.Sprintf(`"a%d":{}`, i))
	}
	connect := `{"subs":{` + strings.Join(subs, ",") + `}}`
	var hello struct {
		Connect struct {
			Subs map[string]struct {
				WasRecovering bool `json:"was_recovering"`
				Recovered     bool
			}
		}
	}
	must(t, json.Unmarshal([]byte(p.stream(connect, sseclients.LostID).next().data), &hello))
	if len(hello.Connect.Subs) != 64 {
		t.Fatalf("%d subscriptions", len(hello.Connect.Subs))
	}
	for name, sub := range hello.Connect.Subs {
		if !sub.WasRecovering || sub.Recovered {
			t.Errorf("%s: %+v", name, sub)
		}
	}
}

// TestStreamOfLargeTable: while the rows that did not fit into the first event follow, the position stays, so that a client that is cut
// meanwhile gets the others afterwards.
func TestStreamOfLargeTable(t *testing.T) {
	p := newPlace(t, nil)
	const rows = 1000
	var head push.Position
	for i := range rows {
		head = p.put("table:t", push.Publication{Key: fmt.Sprint(i), Data: []byte(filler(i))})
	}
	seen := map[string]bool{}
	s := p.stream(`{"subs":{"table:t":{}}}`, "")
	first := s.next()
	var hello struct {
		Connect struct {
			Subs map[string]struct{ Publications []struct{ Key string } }
		}
	}
	must(t, json.Unmarshal([]byte(first.data), &hello))
	for _, pub := range hello.Connect.Subs["table:t"].Publications {
		seen[pub.Key] = true
	}
	if len(seen) == 0 || len(seen) == rows {
		t.Fatalf("%d rows come with the first event", len(seen))
	}
	last, middle := fmt.Sprintf("table%%3At=%s:%d", head.Epoch, head.Offset), ""
	for len(seen) < rows {
		e := s.next()
		seen[parsePush(t, e.data).Pub.Key] = true
		switch {
		case len(seen) == rows && e.id != last:
			t.Errorf("the last row has the id %q, not %q", e.id, last)
		case len(seen) < rows && e.id != first.id:
			t.Fatalf("row %d has the id %q, not %q", len(seen), e.id, first.id)
		case len(seen) == rows/2:
			middle = e.id
		}
	}
	again := p.stream(`{"subs":{"table:t":{}}}`, middle)
	must(t, json.Unmarshal([]byte(again.next().data), &hello))
	after := map[string]bool{}
	for _, pub := range hello.Connect.Subs["table:t"].Publications {
		after[pub.Key] = true
	}
	for len(after) < rows {
		after[parsePush(t, again.next().data).Pub.Key] = true
	}
}

// TestStreamDisconnect: the last event says why the server ends the stream.
func TestStreamDisconnect(t *testing.T) {
	p := newPlace(t, &gateway.Options{Authenticate: func(context.Context, string, *http.Request) (gateway.Identity, error) {
		return gateway.Identity{Info: push.ClientInfo{User: "ann"}}, nil
	}})
	ctx, ann := testwait.Context(t), hub.Target{User: "ann"}
	for _, tt := range []struct {
		name string
		end  func() error
		want string
	}{
		{
			"for good", func() error { return p.hub.Disconnect(ctx, ann, push.DisconnectForceNoReconnect, nil) },
			`{"disconnect":{"code":3503,"reason":"force disconnect"}}`,
		},
		{
			"for now", func() error { return p.hub.Disconnect(ctx, ann, push.DisconnectForceReconnect, nil) },
			`{"disconnect":{"code":3011,"reason":"force reconnect","reconnect":true}}`,
		},
		{
			"unsubscribed", func() error { return p.hub.Unsubscribe(ctx, ann, "a", push.UnsubscribeServer) },
			`{"disconnect":{"code":3503,"reason":"server unsubscribe"}}`,
		},
		{
			"unsubscribed for now", func() error { return p.hub.Unsubscribe(ctx, ann, "a", push.UnsubscribeInsufficientState) },
			`{"disconnect":{"code":3010,"reason":"insufficient state","reconnect":true}}`,
		},
	} {
		t.Run(tt.name, func(t *testing.T) {
			s := p.stream(`{"subs":{"a":{}}}`, "")
			s.next()
			must(t, tt.end())
			s.want(tt.want)
			s.wantEnd()
			testwait.True(t, "it has left", func() bool { return p.gateway.Len() == 0 })
		})
	}
}

// TestStreamOverHTTP2: the same over a connection that carries several streams, of which one is refused.
func TestStreamOverHTTP2(t *testing.T) {
	p := newPlace(t, nil)
	p.overHTTP2()
	a, b := p.stream(`{"subs":{"a":{}}}`, ""), p.stream(`{"subs":{"a":{}}}`, "")
	if a.res.ProtoMajor != 2 {
		t.Fatalf("speaks %s", a.res.Proto)
	}
	a.next()
	b.next()
	if _, res := p.tryStream(`{`, ""); res.StatusCode != http.StatusBadRequest || res.Header.Get("Connection") != "" {
		t.Errorf("a broken request: %d %v", res.StatusCode, res.Header)
	}
	p.publish("a", "1")
	a.want(`{"channel":"a","pub":{"data":1,"offset":1}}`)
	b.want(`{"channel":"a","pub":{"data":1,"offset":1}}`)
	b.close()
	testwait.True(t, "one has left", func() bool { return p.gateway.Len() == 1 })
	p.publish("a", "2")
	a.want(`{"channel":"a","pub":{"data":2,"offset":2}}`)
}

func (p *place) overHTTP2() {
	p.protocols = new(http.Protocols)
	p.protocols.SetUnencryptedHTTP2(true)
}

// TestRefusalKeepsHTTP2: a refused request does not end the connection that it shares with others.
func TestRefusalKeepsHTTP2(t *testing.T) {
	p := newPlace(t, nil)
	p.overHTTP2()
	dials := 0
	transport := &http.Transport{Protocols: p.protocols, DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
		dials++
		return p.dial(ctx)
	}}
	defer transport.CloseIdleConnections()
	for range 5 {
		r, err := http.NewRequestWithContext(testwait.Context(t), http.MethodGet, "http://"+p.addr+sseclients.OneWayPath+"?cf_connect={", nil)
		must(t, err)
		res, err := transport.RoundTrip(r)
		must(t, err)
		_, _ = io.Copy(io.Discard, res.Body)
		_ = res.Body.Close()
	}
	if dials != 1 {
		t.Errorf("five requests took %d connections", dials)
	}
}

// TestStreamOverHTTP10: a client that knows no chunks reads until the end of the connection.
func TestStreamOverHTTP10(t *testing.T) {
	p := newPlace(t, nil)
	conn, err := p.dial(testwait.Context(t))
	must(t, err)
	defer func() { _ = conn.Close() }()
	must(t, conn.SetDeadline(time.Now().Add(patience)))
	_, err = fmt.Fprintf(conn, "GET %s?cf_connect={\"subs\":{\"a\":{}}} HTTP/1.0\r\n\r\n", sseclients.OneWayPath)
	must(t, err)
	in := bufio.NewReader(conn)
	res, err := http.ReadResponse(in, nil)
	must(t, err)
	defer func() { _ = res.Body.Close() }()
	s := &sseClient{t: t, res: res, lines: bufio.NewScanner(res.Body)}
	s.next()
	p.publish("a", "1")
	s.want(`{"channel":"a","pub":{"data":1,"offset":1}}`)
	done := make(chan error, 1)
	go func() { done <- p.shutdownWithin(patience) }()
	s.want(`{"disconnect":{"code":3001,"reason":"shutdown","reconnect":true}}`)
	if rest, err := io.ReadAll(res.Body); err != nil || len(rest) > 0 {
		t.Errorf("then %q, %v", rest, err)
	}
	must(t, testwait.Receive(t, done))
}

// TestStreamCancelled: clients that hang up at any time leave nothing behind.
func TestStreamCancelled(t *testing.T) {
	p := newPlace(t, nil)
	transport := &http.Transport{}
	defer transport.CloseIdleConnections() // those too whose request was cancelled while they were made
	var wg sync.WaitGroup
	for i := range 50 {
		wg.Go(func() {
			ctx, cancel := context.WithCancel(testwait.Context(t))
			defer cancel()
			r, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+p.addr+sseclients.OneWayPath+`?cf_connect={"subs":{"chat:1":{}}}`, nil)
			if err != nil {
				t.Error(err)
				return
			}
			stop := time.AfterFunc(time.Duration(i)*100*time.Microsecond, cancel)
			defer stop.Stop()
			if res, err := transport.RoundTrip(r); err == nil {
				_, _ = io.Copy(io.Discard, res.Body)
				_ = res.Body.Close()
			}
		})
	}
	testwait.Return(t, wg.Wait)
	// A request whose client has hung up may still be on its way to the gateway: none is here for good.
	testwait.True(t, "all have left", func() bool {
		clients, _, err := p.hub.PresenceStats(testwait.Context(t), "chat:1")
		must(t, err)
		return clients == 0 && p.gateway.Len() == 0 && p.hub.Stats().Sessions == 0
	})
}
