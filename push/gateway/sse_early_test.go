package gateway_test

import (
	"context"
	"net/http"
	"net/url"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/sluice-push/sluice/internal/testwait"
	"github.com/sluice-push/sluice/push"
	"github.com/sluice-push/sluice/push/gateway"
	sseclients "github.com/sluice-push/sluice/push/gateway/sse"
	"github.com/sluice-push/sluice/push/hub"
)

// A function of the options that panics costs its own client only: nothing of that client stays behind.
func TestStreamPanics(t *testing.T) {
	var calls atomic.Int32
	p := newPlace(t, &gateway.Options{SessionsPerAddress: 1, Authenticate: func(context.Context, string, *http.Request) (gateway.Identity, error) {
		if calls.Add(1) == 1 {
			panic(http.ErrAbortHandler)
		}
		return gateway.Identity{}, nil
	}})
	r, err := http.NewRequestWithContext(testwait.Context(t), http.MethodGet, "http://"+p.addr+sseclients.OneWayPath, nil)
	must(t, err)
	var transport http.Transport
	defer transport.CloseIdleConnections()
	if res, err := transport.RoundTrip(r); err == nil {
		_ = res.Body.Close()
		t.Fatalf("a request whose handler panics is answered %d", res.StatusCode)
	}
	p.stream(`{}`, "").next()
}

// Commands that make a function of the options panic cost their own client only, also where they come in requests beside its stream.
func TestEmulatedPanics(t *testing.T) {
	p := newPlace(t, &gateway.Options{Permit: func(_ context.Context, _ *gateway.Identity, _ *gateway.PermitRequest) (gateway.Permission, error) {
		panic("on purpose")
	}})
	p.log.expect("panic in the handling of a client")
	res, body := p.get(http.MethodGet, sseclients.Path+"?cf_connect="+url.QueryEscape(`{"id":1,"connect":{}}`+"\n"+`{"id":2,"subscribe":{"channel":"a"}}`), nil)
	if res.StatusCode != http.StatusOK || !strings.Contains(body, `"code":3004`) {
		t.Errorf("%s %s", res.Status, body)
	}
	if got := p.gateway.Stats().Panics; got != 1 {
		t.Errorf("%d panics are counted", got)
	}
}

// A client that the server ends while it is still subscribing is told so, and counted once.
func TestStreamDisconnectedEarly(t *testing.T) {
	var p *place
	p = newPlace(t, &gateway.Options{Permit: func(_ context.Context, _ *gateway.Identity, _ *gateway.PermitRequest) (gateway.Permission, error) {
		if err := p.hub.Disconnect(t.Context(), hub.Target{User: "ann"}, push.DisconnectForceNoReconnect, nil); err != nil {
			t.Error(err)
		}
		testwait.True(t, "the client has been ended", func() bool {
			return p.gateway.Stats().Transports[sseclients.OneWayName].Disconnected[uint32(push.DisconnectForceNoReconnect.Code)] == 1
		})
		return gateway.Permission{}, nil
	}, Authenticate: func(context.Context, string, *http.Request) (gateway.Identity, error) {
		return gateway.Identity{Info: push.ClientInfo{User: "ann"}}, nil
	}})
	s := p.stream(`{"subs":{"a":{}}}`, "")
	s.next()
	s.want(`{"disconnect":{"code":3503,"reason":"force disconnect"}}`)
	s.wantEnd()
	testwait.True(t, "the client has left", func() bool { return p.gateway.Len() == 0 })
	if refused := p.gateway.Stats().Refused.Client; refused != 0 {
		t.Errorf("%d clients count as refused", refused)
	}
}

// The time in which a client has to say who it is does not end with a stream whose authentication takes longer: it has said so.
func TestStreamOfSlowAuthentication(t *testing.T) {
	slow := func(context.Context, string, *http.Request) (gateway.Identity, error) {
		<-time.After(3 * time.Second)
		return gateway.Identity{}, nil
	}
	inFakeTime(t, &gateway.Options{ConnectTimeout: time.Second, Authenticate: slow}, func(t *testing.T, p *place) {
		t.Helper()
		s := p.stream(`{"subs":{"a":{}}}`, "")
		s.next()
		<-time.After(2 * time.Second)
		p.publish("a", `1`)
		s.want(`{"channel":"a","pub":{"data":1,"offset":1}}`)
	})
}
