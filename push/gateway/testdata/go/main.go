// Command main runs the official Go client against a node of the test that starts it: main NAME. Without a name it prints the names of all scenarios,
// as a JSON array.
//
// A scenario asks the test for a node with a line of JSON on standard output, {"do": "start", "args": […]}, and is answered with one on standard
// input.
package main

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log"
	"maps"
	"net"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"time"

	"github.com/centrifugal/centrifuge-go"
)

// patience is how long anything may take; waiting for more than that has failed.
const patience = 30 * time.Second

var scenarios = map[string]func(*node){
	"walksThroughEverythingInJSON":     func(n *node) { walk(n, centrifuge.NewJsonClient) },
	"walksThroughEverythingInProtobuf": func(n *node) { walk(n, centrifuge.NewProtobufClient) },
	"forgetsInJSON":                    func(n *node) { forgets(n, centrifuge.NewJsonClient) },
	"forgetsInProtobuf":                func(n *node) { forgets(n, centrifuge.NewProtobufClient) },
	"stopsWithoutTokens":               func(n *node) { stopsWithoutTokens(n) },
	"recoversFromNothingInJSON":        func(n *node) { recoversFromNothing(n, centrifuge.NewJsonClient) },
	"recoversFromNothingInProtobuf":    func(n *node) { recoversFromNothing(n, centrifuge.NewProtobufClient) },
}

// tokenScenarios have a node whose clients need tokens.
var tokenScenarios = map[string]func(*node){
	"refreshesItsConnection":               refreshesItsConnection,
	"asksForAnotherWhenItsTokenHasEnded":   asksForAnotherWhenItsTokenHasEnded,
	"connectsAgainWhenItsNewTokenHasEnded": connectsAgainWhenItsNewTokenHasEnded,
	"stopsWithAnInvalidToken":              stopsWithAnInvalidToken,
	"stopsWhenItIsUnauthorized":            stopsWhenItIsUnauthorized,
	"subscribesWithATokenAndRefreshesIt":   subscribesWithATokenAndRefreshesIt,
	"isKeptOutOfAPrivateChannel":           isKeptOutOfAPrivateChannel,
}

func main() {
	log.SetFlags(log.Lshortfile)
	if len(os.Args) < 2 {
		var names []string
		names = slices.AppendSeq(slices.Collect(maps.Keys(scenarios)), maps.Keys(tokenScenarios))
		check(json.NewEncoder(os.Stdout).Encode(names))
		return
	}
	if scenario, ok := tokenScenarios[os.Args[1]]; ok {
		scenario(start("--config", settings("tokens.yaml")))
		return
	}
	scenarios[os.Args[1]](start("--insecure", "--config", settings("node.yaml")))
}

// settings returns the path of a configuration, which the scenarios of the JavaScript client use too.
func settings(name string) string {
	path, err := filepath.Abs(filepath.Join("..", "sdk", name))
	check(err)
	return path
}

// node is a running sluice serve.
type node struct {
	answers *bufio.Reader
	args    []string

	mu      sync.Mutex
	current string // the address; guarded by mu
}

func start(args ...string) *node {
	n := &node{answers: bufio.NewReader(os.Stdin), args: args}
	n.start()
	return n
}

// start starts the process, on ports of its own.
func (n *node) start() {
	address := n.ask(map[string]any{"do": "start", "args": n.args})
	n.mu.Lock()
	defer n.mu.Unlock()
	n.current = address
}

// restart kills the process and starts another, elsewhere: clients that connect again find it, as behind a load balancer.
func (n *node) restart() {
	n.ask(map[string]any{"do": "kill"})
	n.start()
}

// ask has the test do something and returns the address that it answers.
func (n *node) ask(request map[string]any) string {
	check(json.NewEncoder(os.Stdout).Encode(request))
	line, err := n.answers.ReadBytes('\n')
	check(err)
	var answer struct{ Address string }
	check(json.Unmarshal(line, &answer))
	return answer.Address
}

func (n *node) address() string {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.current
}

// api calls a method of the HTTP API.
func (n *node) api(method string, request map[string]any) {
	body, err := json.Marshal(request)
	check(err)
	call, err := http.NewRequest(http.MethodPost, "http://"+n.address()+"/api/"+method, bytes.NewReader(body))
	check(err)
	call.Header.Set("X-API-Key", "key")
	response, err := http.DefaultClient.Do(call)
	check(err)
	defer func() { _ = response.Body.Close() }()
	var reply struct{ Error any }
	check(json.NewDecoder(response.Body).Decode(&reply))
	equal(reply.Error, nil)
}

func (n *node) publish(channel string, data any) {
	n.api("publish", map[string]any{"channel": channel, "data": data})
}

// create makes a client of one of the forms.
type create func(endpoint string, config centrifuge.Config) *centrifuge.Client

// person is the official client, as an application has it, whose connections can be cut.
type person struct {
	node   *node
	sdk    *centrifuge.Client
	events chan string

	mu      sync.Mutex
	conns   []net.Conn // guarded by mu
	offline bool       // guarded by mu
	id      string     // guarded by mu: of the newest connection
}

// connect returns a client that is connected. Its tokens are those of getToken, if that is not nil.
func connect(n *node, create create, getToken func(centrifuge.ConnectionTokenEvent) (string, error)) *person {
	p := newPerson(n, create, centrifuge.Config{GetToken: getToken})
	check(p.sdk.Connect())
	p.await("connected")
	return p
}

// newPerson returns a client that has not been told to connect yet, with the tokens of config.
func newPerson(n *node, create create, config centrifuge.Config) *person {
	p := &person{node: n, events: make(chan string, 1000)}
	config.Data, config.NetDialContext = []byte(`{"device":"till"}`), p.dial
	config.Proxy = func(*http.Request) (*url.URL, error) { return nil, nil }
	config.ReadTimeout, config.MinReconnectDelay, config.MaxReconnectDelay = patience, 10*time.Millisecond, 100*time.Millisecond
	p.sdk = create("ws://"+n.address()+"/connection/websocket", config)
	p.sdk.OnConnected(func(e centrifuge.ConnectedEvent) {
		p.mu.Lock()
		p.id = e.ClientID
		p.mu.Unlock()
		p.events <- "connected"
	})
	p.sdk.OnConnecting(func(e centrifuge.ConnectingEvent) { p.events <- fmt.Sprintf("connecting %d", e.Code) })
	p.sdk.OnDisconnected(func(e centrifuge.DisconnectedEvent) { p.events <- fmt.Sprintf("disconnected %d", e.Code) })
	return p
}

func (p *person) dial(ctx context.Context, network, _ string) (net.Conn, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.offline {
		return nil, errors.New("offline")
	}
	conn, err := new(net.Dialer).DialContext(ctx, network, p.node.address())
	if err == nil {
		p.conns = append(p.conns, conn)
	}
	return conn, err
}

// setOffline cuts the connections and lets no other be made, or lets the client connect again.
func (p *person) setOffline(offline bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.offline = offline
	if offline {
		for _, conn := range p.conns {
			_ = conn.Close()
		}
		p.conns = nil
	}
}

func (p *person) await(event string) {
	await(p.events, func(e string) bool { return e == event }, event)
}

// follower is a subscription with all that it got.
type follower struct {
	sdk         *centrifuge.Subscription
	subscribing chan centrifuge.SubscribingEvent
	subscribed  chan centrifuge.SubscribedEvent
	ended       chan centrifuge.UnsubscribedEvent
	values      chan string
}

func (p *person) follow(channel string, config ...centrifuge.SubscriptionConfig) *follower {
	sub, err := p.sdk.NewSubscription(channel, config...)
	check(err)
	f := &follower{
		sdk: sub, subscribing: make(chan centrifuge.SubscribingEvent, 100), subscribed: make(chan centrifuge.SubscribedEvent, 10),
		ended: make(chan centrifuge.UnsubscribedEvent, 10), values: make(chan string, 1000),
	}
	sub.OnSubscribing(func(e centrifuge.SubscribingEvent) { f.subscribing <- e })
	sub.OnSubscribed(func(e centrifuge.SubscribedEvent) { f.subscribed <- e })
	sub.OnUnsubscribed(func(e centrifuge.UnsubscribedEvent) { f.ended <- e })
	sub.OnPublication(func(e centrifuge.PublicationEvent) { f.values <- string(e.Data) })
	check(sub.Subscribe())
	return f
}

func (f *follower) want(values ...string) {
	for _, want := range values {
		equal(await(f.values, func(string) bool { return true }, want), want)
	}
}

// walk goes through what a client does.
func walk(n *node, create create) {
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	p := connect(n, create, nil)
	news := p.follow("news", centrifuge.SubscriptionConfig{Positioned: true, Recoverable: true})
	any1 := func(centrifuge.SubscribedEvent) bool { return true }
	equal(await(news.subscribed, any1, "subscribed").WasRecovering, false)
	for i := range 10 {
		_, err := p.sdk.Publish(ctx, "news", fmt.Appendf(nil, `{"i":%d}`, i))
		check(err)
		n.publish("news", map[string]int{"i": -i})
		news.want(fmt.Sprintf(`{"i":%d}`, i), fmt.Sprintf(`{"i":%d}`, -i))
	}
	history, err := news.sdk.History(ctx, centrifuge.WithHistoryLimit(2), centrifuge.WithHistoryReverse(true))
	check(err)
	equal(string(history.Publications[1].Data), `{"i":9}`)
	presence, err := p.sdk.Presence(ctx, "news")
	check(err)
	equal(len(presence.Clients), 1)
	_, err = p.sdk.RPC(ctx, "sluice.pace", []byte(`{"channel":"news","interval":0}`))
	check(err)
	refused := new(centrifuge.Error)
	_, err = p.sdk.Publish(ctx, "nowhere:a", []byte("1"))
	equal(errors.As(err, &refused) && refused.Code == 102, true)
	equal(await(p.follow("nowhere:a").ended, func(centrifuge.UnsubscribedEvent) bool { return true }, "the end").Code, uint32(102))

	for round := range 3 { // is cut off and comes back
		p.setOffline(true)
		var missed []string
		for i := range 20 {
			n.publish("news", round*100+i)
			missed = append(missed, fmt.Sprint(round*100+i))
		}
		p.setOffline(false)
		e := await(news.subscribed, any1, "subscribed again")
		equal(e.WasRecovering && e.Recovered, true)
		news.want(missed...)
	}

	fossil := p.follow("deltas:a", centrifuge.SubscriptionConfig{Delta: centrifuge.DeltaTypeFossil})
	await(fossil.subscribed, any1, "subscribed")
	for i := range 20 {
		data := map[string]any{"i": i, "pad": "the same in all of them, the same in all of them, the same in all of them"}
		n.publish("deltas:a", data)
		text, err := json.Marshal(data)
		check(err)
		fossil.want(string(text))
	}
	n.api("unsubscribe", map[string]any{"channel": "deltas:a", "client": p.clientID()})
	equal(await(fossil.ended, func(centrifuge.UnsubscribedEvent) bool { return true }, "the end").Code, uint32(2000))
	n.api("disconnect", map[string]any{"client": p.clientID(), "code": 3000, "reason": "go elsewhere"})
	p.await("connecting 3000")
	p.await("connected")
	n.api("disconnect", map[string]any{"client": p.clientID(), "code": 3500, "reason": "go away"})
	p.await("disconnected 3500")
}

func (p *person) clientID() string {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.id
}

// await returns the first value that fits.
func await[T any](c <-chan T, fits func(T) bool, what string) T {
	var seen []T
	late := time.After(patience)
	for {
		select {
		case v := <-c:
			if fits(v) {
				return v
			}
			seen = append(seen, v)
		case <-late:
			_ = log.Output(3, fmt.Sprintf("waited in vain for %s, saw %v", what, slices.Clip(seen)))
			os.Exit(1)
		}
	}
}

func check(err error) {
	if err != nil {
		_ = log.Output(2, err.Error())
		os.Exit(1)
	}
}

func equal(got, want any) {
	if got != want {
		_ = log.Output(2, fmt.Sprintf("got %v, want %v", got, want))
		os.Exit(1)
	}
}
