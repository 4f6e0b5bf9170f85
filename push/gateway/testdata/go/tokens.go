package main

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"maps"
	"time"

	"github.com/centrifugal/centrifuge-go"
)

// claims are those of a token.
type claims map[string]any

const secret = "a secret that only the scenarios know"

// token returns a token of ann as a back end makes it, which ends so many seconds from now.
func token(seconds int64, key string, more claims) string {
	all := claims{"sub": "ann", "exp": time.Now().Unix() + seconds}
	maps.Copy(all, more)
	body, err := json.Marshal(all)
	check(err)
	text := base64.RawURLEncoding.EncodeToString([]byte(`{"alg":"HS256"}`)) + "." + base64.RawURLEncoding.EncodeToString(body)
	h := hmac.New(sha256.New, []byte(key))
	h.Write([]byte(text))
	return text + "." + base64.RawURLEncoding.EncodeToString(h.Sum(nil))
}

// source gives tokens that end after so many seconds, one after the other, the last one again and again. calls gets the number of each.
type source struct {
	seconds []int64
	more    claims
	count   int
	calls   chan int
}

func newSource(more claims, seconds ...int64) *source {
	return &source{seconds: seconds, more: more, calls: make(chan int, 1000)}
}

// next is called by one goroutine of the client after the other.
func (s *source) next() (string, error) {
	s.count++
	s.calls <- s.count
	return token(s.seconds[min(s.count, len(s.seconds))-1], secret, s.more), nil
}

// atLeast waits until so many tokens were asked for.
func (s *source) atLeast(n int) {
	await(s.calls, func(got int) bool { return got == n }, fmt.Sprint(n, " tokens"))
}

func (s *source) connection(centrifuge.ConnectionTokenEvent) (string, error) { return s.next() }

func (s *source) subscription(e centrifuge.SubscriptionTokenEvent) (string, error) {
	equal(e.Channel, s.more["channel"])
	return s.next()
}

// end returns the code with which a subscription ends.
func (f *follower) end() uint32 {
	return await(f.ended, func(centrifuge.UnsubscribedEvent) bool { return true }, "the end").Code
}

// connections returns how many connections the client has made.
func (p *person) connections() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return len(p.conns)
}

func refreshesItsConnection(n *node) {
	s := newSource(nil, 2)
	p := connect(n, centrifuge.NewJsonClient, s.connection)
	s.atLeast(3)
	equal(p.connections(), 1)
	equal(len(p.events), 0)
}

func asksForAnotherWhenItsTokenHasEnded(n *node) {
	s := newSource(nil, 600)
	p := newPerson(n, centrifuge.NewProtobufClient, centrifuge.Config{Token: token(-100, secret, nil), GetToken: s.connection})
	check(p.sdk.Connect())
	p.await("connected")
	s.atLeast(1)
}

func connectsAgainWhenItsNewTokenHasEnded(n *node) {
	s := newSource(nil, 2, -100, 600)
	p := connect(n, centrifuge.NewJsonClient, s.connection)
	p.await("connecting 3005")
	p.await("connected")
	s.atLeast(3)
}

func stopsWithAnInvalidToken(n *node) {
	for _, bad := range []string{token(600, "another secret, which the node does not know", nil), "bogus", ""} {
		p := newPerson(n, centrifuge.NewProtobufClient, centrifuge.Config{Token: bad})
		check(p.sdk.Connect())
		p.await("disconnected 3500")
		equal(p.connections(), 1)
	}
}

func stopsWhenItIsUnauthorized(n *node) {
	p := newPerson(n, centrifuge.NewJsonClient, centrifuge.Config{GetToken: func(centrifuge.ConnectionTokenEvent) (string, error) {
		return "", centrifuge.ErrUnauthorized
	}})
	check(p.sdk.Connect())
	p.await("disconnected 1") // the client's own
}

func subscribesWithATokenAndRefreshesIt(n *node) {
	p := connect(n, centrifuge.NewProtobufClient, newSource(nil, 600).connection)
	s := newSource(claims{"channel": "secret:a"}, -100, 2) // the first one has ended already
	f := p.follow("secret:a", centrifuge.SubscriptionConfig{GetToken: s.subscription})
	await(f.subscribed, func(centrifuge.SubscribedEvent) bool { return true }, "subscribed")
	s.atLeast(4)
	n.publish("secret:a", 1)
	f.want("1")
	equal(len(f.subscribed), 0)
	equal(p.connections(), 1)
}

func isKeptOutOfAPrivateChannel(n *node) {
	p := connect(n, centrifuge.NewJsonClient, newSource(nil, 600).connection)
	for _, given := range []string{
		"", token(600, secret, claims{"sub": "bob", "channel": "secret:a"}), token(600, secret, claims{"channel": "secret:b"}), token(600, secret, nil),
	} {
		f := p.follow("secret:a", centrifuge.SubscriptionConfig{Token: given})
		equal(f.end(), uint32(103))
		check(p.sdk.RemoveSubscription(f.sdk))
	}
	f := p.follow("secret:a", centrifuge.SubscriptionConfig{GetToken: func(centrifuge.SubscriptionTokenEvent) (string, error) {
		return "", centrifuge.ErrUnauthorized
	}})
	equal(f.end(), uint32(1)) // the client's own
	equal(p.connections(), 1)
}
