package gateway_test

import (
	"context"
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/sluice-push/sluice/internal/testwait"
	"github.com/sluice-push/sluice/push"
	"github.com/sluice-push/sluice/push/admission"
	"github.com/sluice-push/sluice/push/gateway"
	"github.com/sluice-push/sluice/push/gateway/httpstream"
	sseclients "github.com/sluice-push/sluice/push/gateway/sse"
)

// asToken admits every client as the user that its token names.
func asToken(_ context.Context, token string, _ *http.Request) (gateway.Identity, error) {
	return gateway.Identity{Info: push.ClientInfo{User: token}}, nil
}

// exceeded returns how often a limit was exceeded.
func (p *place) exceeded(n admission.Name) uint64 {
	for _, one := range p.gateway.Stats().Exceeded {
		if one.Name == n {
			return one.Exceeded
		}
	}
	return 0
}

// connectAs sends a connect command with a token over WebSocket.
func (p *place) connectAs(user string) *wsClient {
	p.t.Helper()
	c := p.connectWS(nil)
	c.send(fmt.Sprintf(`{"id":1,"connect":{"token":%q}}`, user))
	return c
}

// A user's clients are counted together on all transports, and no longer than they are connected. A connect command that fails, and one that is tried
// again, count once at most; anonymous clients do not count.
func TestSessionsPerUser(t *testing.T) {
	p := newPlace(t, &gateway.Options{SessionsPerUser: 2, Authenticate: asToken})
	p.log.expect("limit=limits.sessions_per_user")
	for range 5 {
		p.client()
	}
	one := p.connectAs("ann")
	one.receive()
	two := p.stream(`{"token":"ann"}`, "")
	two.next()
	third := p.connectAs("ann")
	third.wantClose(int(push.DisconnectConnectionLimit.Code), push.DisconnectConnectionLimit.Reason)
	if res, body := p.get(http.MethodGet, sseclients.OneWayPath+`?cf_connect={"token":"ann"}`, nil); res.StatusCode != http.StatusForbidden ||
		strings.TrimSpace(body) != push.DisconnectConnectionLimit.Reason {
		t.Errorf("a third stream: %d %s", res.StatusCode, body)
	}
	again := p.connectAs("bob")
	again.receive()
	clumsy := p.connectWS(nil)
	for id := 1; id < 6; id++ { // the identity is known before the rest of the command is found wrong
		clumsy.send(fmt.Sprintf(`{"id":%d,"connect":{"token":"bob","data":{"sluice":{"bandwidth":"x"}}}}`, id))
		if got := clumsy.receive(); !strings.Contains(got, `"code":107`) {
			t.Fatalf("answered %s", got)
		}
	}
	if n := p.exceeded(admission.SessionsPerUser); n != 2 {
		t.Errorf("counted %d times", n)
	}
	two.close()
	_ = clumsy.conn.Close()
	testwait.True(t, "they have left", func() bool { return p.gateway.Len() == 7 })
	p.connectAs("ann").receive()
	p.connectAs("bob").receive()
}

// However clients come and go, in the end no session is counted.
func TestSessionsPerUserForgets(t *testing.T) {
	const most = 3
	p := newPlace(t, &gateway.Options{SessionsPerUser: most, Authenticate: asToken})
	var running sync.WaitGroup
	for i := range 8 {
		running.Go(func() {
			for n := range 20 {
				user := strconv.Itoa((i + n) % 2)
				r, err := http.NewRequestWithContext(testwait.Context(t), http.MethodPost, "http://"+p.addr+httpstream.Path,
					strings.NewReader(fmt.Sprintf(`{"id":1,"connect":{"token":%q}}`, user)))
				if err != nil {
					t.Error(err)
					return
				}
				res, err := http.DefaultTransport.RoundTrip(r)
				if err != nil {
					t.Error(err)
					return
				}
				_ = res.Body.Close() // often before the command was carried out
			}
		})
	}
	running.Wait()
	testwait.True(t, "all have left", func() bool { return p.gateway.Len() == 0 && p.gateway.Users() == 0 && p.hub.Stats().Sessions == 0 })
	if p.exceeded(admission.SessionsPerUser) > 0 {
		p.log.expect(`limit=limits.sessions_per_user`)
	}
}

// A client that is told to connect again finds room, although its connection is not closed yet.
func TestSessionsPerUserAfterDisconnect(t *testing.T) {
	p := newPlace(t, &gateway.Options{SessionsPerUser: 1, Authenticate: asToken})
	first := p.connectAs("ann")
	first.receive()
	p.gateway.EndClients(push.DisconnectForceReconnect, func(*gateway.Identity) bool { return true })
	if got := p.connectAs("ann").receive(); !strings.Contains(got, `"connect":{`) {
		t.Errorf("answered %s", got)
	}
	first.wantClose(int(push.DisconnectForceReconnect.Code), push.DisconnectForceReconnect.Reason)
	if n := p.gateway.Len(); n == 0 || p.gateway.Users() != 1 {
		t.Errorf("%d clients, %d users", n, p.gateway.Users())
	}
}

// A connection that ends while its client's identity is being looked up leaves nothing behind.
func TestConnectOfEndedConnection(t *testing.T) {
	begun, proceed := make(chan struct{}), make(chan struct{})
	p := newPlace(t, &gateway.Options{SessionsPerUser: 1, Authenticate: func(ctx context.Context, token string, r *http.Request) (gateway.Identity, error) {
		close(begun)
		<-proceed
		return asToken(ctx, token, r)
	}})
	r, err := http.NewRequestWithContext(testwait.Context(t), http.MethodPost, "http://"+p.addr+httpstream.Path,
		strings.NewReader(`{"id":1,"connect":{"token":"ann"}}`))
	must(t, err)
	res, err := http.DefaultTransport.RoundTrip(r)
	must(t, err)
	<-begun
	_ = res.Body.Close()
	testwait.True(t, "the stream has ended", func() bool { return p.gateway.Len() == 0 })
	close(proceed)
	must(t, p.shutdownWithin(patience)) // waits for the command
	if users, sessions := p.gateway.Users(), p.hub.Stats().Sessions; users != 0 || sessions != 0 {
		t.Errorf("%d users and %d sessions are left", users, sessions)
	}
}

// Connects beyond the rate are refused with a time to come again: those of the node with status 503, those of an address with 429.
func TestConnects(t *testing.T) {
	for _, tt := range []struct {
		name    string
		options gateway.Options
		limit   admission.Name
		status  int
		reason  string
	}{
		{"node", gateway.Options{Connects: 3}, admission.Connects, http.StatusServiceUnavailable, "too many clients connect, try again later"},
		{
			"address",
			gateway.Options{ConnectsPerAddress: 3},
			admission.ConnectsPerAddress, http.StatusTooManyRequests,
			"too many connects from address invalid IP, try again later",
		},
	} {
		t.Run(tt.name, func(t *testing.T) {
			inFakeTime(t, &tt.options, func(t *testing.T, p *place) {
				t.Helper()
				p.log.expect("limit=limits." + string(tt.limit))
				for range 3 {
					p.client()
				}
				for i := range 6 {
					_, res, err := p.dialWS(nil)
					if err == nil || res == nil || res.StatusCode != tt.status {
						t.Fatalf("connect %d: %v, %v", i, res, err)
					}
					want := "1"
					if tt.limit == admission.Connects && i > 0 {
						want = strconv.Itoa(1 + (i+2)/3)
					}
					if got := res.Header.Get("Retry-After"); got != want {
						t.Errorf("connect %d is to come again in %s s, want %s", i, got, want)
					}
				}
				stats := p.gateway.Stats()
				if stats.Refused.Ramp != 6 || p.exceeded(tt.limit) != 6 || p.gateway.Len() != 3 {
					t.Errorf("%+v, exceeded %d times, %d clients", stats.Refused, p.exceeded(tt.limit), p.gateway.Len())
				}
				pass(2 * time.Second)
				p.client()
			})
		})
	}
}

// Bytes beyond the rate of a client are refused, and what has no answer ends the connection. Others are served, and so is a client that has rested.
func TestBytesPerSession(t *testing.T) {
	const rate, frame = 1000, 16 << 10
	inFakeTime(t, &gateway.Options{BytesPerSession: rate, MessageBytes: 1 << 10, FrameBytes: frame}, func(t *testing.T, p *place) {
		t.Helper()
		p.log.expect("limit=limits.bytes_per_session")
		other, c := p.client(), p.client()
		long := strings.Repeat("x", 970)
		ping := func(id int) string { return fmt.Sprintf(`{"id":%d,"ping":{},"x":%q}`, id, long) }
		served := 0
		for id := 2; id < 30; id++ {
			c.send(ping(id))
			switch got := c.receive(); got {
			case fmt.Sprintf(`{"id":%d,"ping":{}}`, id):
				if served++; served != id-1 {
					t.Fatalf("command %d is served after one was refused", id)
				}
			case fmt.Sprintf(`{"id":%d,"error":{"code":111,"message":"too many bytes per second, try again later","temporary":true}}`, id):
			default:
				t.Fatalf("command %d is answered %s", id, got)
			}
		}
		if served < 14 || served > 16 { // the largest frame
			t.Errorf("%d commands of 1 KB are served at once", served)
		}
		other.ask(`{"id":2,"ping":{}}`, `{"id":2,"ping":{}}`)
		if n := p.gateway.Stats().Limited.Bytes; n != uint64(28-served) { //nolint:gosec // not negative
			t.Errorf("%d commands are counted as refused, %d were served", n, served)
		}
		pass(20 * time.Second)
		for id := 30; id < 35; id++ {
			c.ask(ping(id), fmt.Sprintf(`{"id":%d,"ping":{}}`, id))
		}
		c.send(strings.Repeat(strings.Repeat(" ", 10)+"{}\n", 1200))
		c.wantClose(int(push.DisconnectTooManyRequests.Code), push.DisconnectTooManyRequests.Reason)
	})
}

// Limits that run dry refuse nothing, and count what they would have refused.
func TestDry(t *testing.T) {
	names := admission.Names()
	isElsewhere := func(n admission.Name) bool { // token checks, TestBacklogDry, TestDrySubscriptions
		return n == admission.TokenChecks || n == admission.Backlog || n == admission.Subscriptions
	}
	var dry []admission.Name
	for _, n := range names {
		if !isElsewhere(n) {
			dry = append(dry, n)
		}
	}
	p := newPlace(t, &gateway.Options{
		Sessions: 1, SessionsPerAddress: 1, SessionsPerUser: 1, Connects: 1, ConnectsPerAddress: 1, CommandsPerSession: 1, CommandsPerAddress: 1,
		BytesPerSession: 1, MessageBytes: 4000, FrameBytes: 5000, Authenticate: asToken, Limits: admission.NewLimits(nil, dry...),
	})
	for range 3 {
		c := p.connectAs("ann")
		c.receive()
		for id := 2; id < 40; id++ {
			c.ask(fmt.Sprintf(`{"id":%d,"ping":{},"x":%q}`, id, strings.Repeat("x", 4000)), fmt.Sprintf(`{"id":%d,"ping":{}}`, id))
		}
	}
	for _, one := range p.gateway.Stats().Exceeded {
		isDry := !isElsewhere(one.Name)
		if one.Enforced == isDry || (one.Exceeded > 0) != isDry {
			t.Errorf("%+v", one)
		}
	}
	if s := p.gateway.Stats(); s.Refused != (gateway.Refused{}) || s.Limited != (gateway.Limited{}) {
		t.Errorf("refused: %+v, %+v", s.Refused, s.Limited)
	}
}
