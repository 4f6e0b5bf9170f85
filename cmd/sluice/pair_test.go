package main_test

import (
	"context"
	"crypto/sha256"
	"fmt"
	"io"
	"log"
	"math/rand/v2"
	"net"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/sluice-push/sluice/cmd/sluice/internal/clientconn"
	"github.com/sluice-push/sluice/internal/testwait"
	"github.com/sluice-push/sluice/push/protocol"
	"github.com/sluice-push/sluice/push/protocol/protobuf"
)

// pair is two nodes with one broker, a NATS server, and what balances clients between them.
type pair struct {
	nodes [2]*process
	turn  atomic.Int64 // of the node that gets the next connection
}

// startPair starts two nodes with a configuration, which must not have a block for the broker.
func startPair(t *testing.T, config string) *pair {
	t.Helper()
	path, err := binary()
	if err != nil {
		t.Fatal(err)
	}
	server := &natsProcess{t: t, address: freePort(t), store: t.TempDir()}
	server.start()
	p := new(pair)
	for i := range p.nodes {
		file := filepath.Join(t.TempDir(), "sluice.yaml")
		own := fmt.Sprintf("\nbroker: {kind: nats, nats: {url: %q}}\ntcp: {listen: \"127.0.0.1:0\"}\n", "nats://"+server.address)
		if err := os.WriteFile(file, []byte(config+own), 0o600); err != nil {
			t.Fatal(err)
		}
		p.nodes[i] = startProgram(t, path, "--insecure", "--config", file)
	}
	return p
}

// dial connects to the node whose turn it is, or to the other one if that is gone. tcp selects the nodes' ports for TCP.
func (p *pair) dial(ctx context.Context, turn int64, tcp bool) (conn net.Conn, err error) {
	for i := range p.nodes {
		node := p.nodes[(turn+int64(i))%2]
		address := node.public
		if tcp {
			address = node.tcp
		}
		if conn, err = new(net.Dialer).DialContext(ctx, "tcp", address); err == nil {
			return conn, nil
		}
	}
	return nil, err
}

// balance serves a reverse proxy that sends each request to the nodes in turn, as users have it in front of theirs, and returns its address.
func (p *pair) balance(t *testing.T) (address string) {
	t.Helper()
	transport := &http.Transport{DisableKeepAlives: true, DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
		return p.dial(ctx, p.turn.Add(1), false)
	}}
	t.Cleanup(transport.CloseIdleConnections)
	proxy := &httputil.ReverseProxy{
		Transport: transport, FlushInterval: -1, ErrorLog: log.New(io.Discard, "", 0),
		Rewrite: func(r *httputil.ProxyRequest) {
			r.SetURL(&url.URL{Scheme: "http", Host: r.In.Host})
			r.Out.Host = r.In.Host
			r.SetXForwarded()
		},
	}
	server := httptest.NewServer(proxy)
	t.Cleanup(func() {
		server.CloseClientConnections()
		server.Close()
	})
	return server.Listener.Addr().String()
}

const pairConfig = `
ping: {interval: 60s, timeout: 50s}   # the machine of a test may be busy
namespaces:
  - {name: ticks, mode: stream, history: {size: 200000, age: 1h}}
`

// exchange sends a command and returns its reply. Pushes that come before are passed to pushed.
func exchange(t testing.TB, conn *clientconn.Conn, cmd *protocol.Command, pushed func(*protocol.Push)) protocol.Reply {
	t.Helper()
	ctx := testwait.Context(t)
	if err := conn.Send(ctx, cmd); err != nil {
		t.Fatal(err)
	}
	for {
		var r protocol.Reply
		if err := conn.Receive(ctx, &r); err != nil {
			t.Fatal(err)
		}
		switch {
		case r.ID == cmd.ID && r.Error == nil && r.Kind == cmd.Kind:
			return r
		case r.Kind == protocol.KindPush && r.Push.Kind == protocol.PushPublication:
			pushed(&r.Push)
		default:
			t.Fatalf("command %d was answered %+v", cmd.ID, r)
		}
	}
}

// TestEmulationAcrossNodes: commands of a client of one node that come to the other one are answered on the client's connection, in their order.
// Commands for a session or node that does not exist are refused. When the client's node is gone, that is said in bounded time.
func TestEmulationAcrossNodes(t *testing.T) {
	t.Parallel()
	p := startPair(t, pairConfig)
	kinds := [][2]string{{"http_stream", "json"}, {"http_stream", "protobuf"}, {"sse", "json"}}
	var told []protocol.ConnectResult
	for _, kind := range kinds {
		var connections atomic.Int64
		ctx := testwait.Context(t)
		conn, err := clientconn.Dial(ctx, &clientconn.Options{
			URL: "http://" + p.nodes[0].public, Transport: kind[0], Protocol: kind[1],
			Commands: []*protocol.Command{{ID: 1, Kind: protocol.KindConnect}},
			DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) { // the stream to the first node, commands to the second
				return p.dial(ctx, min(connections.Add(1)-1, 1), false)
			},
		})
		if err != nil {
			t.Fatal(err)
		}
		defer conn.Close()
		var r protocol.Reply
		if err := conn.Receive(ctx, &r); err != nil || r.Connect.Session == "" {
			t.Fatalf("connect was answered %+v, %v", r, err)
		}
		told = append(told, r.Connect)
		p.checkCommands(t, conn, "ticks:"+kind[0]+kind[1])
	}
	for _, form := range clientconn.Protocols() {
		right, other := told[0], told[0]
		other.Session = "guessed"
		p.wantEmulation(t, form, right, http.StatusNoContent)
		p.wantEmulation(t, form, other, http.StatusNotFound)
		other = right
		other.Node = "nowhere"
		p.wantEmulation(t, form, other, http.StatusNotFound)
		other.Node = ""
		p.wantEmulation(t, form, other, http.StatusBadRequest)
	}
	p.nodes[0].kill()
	for _, form := range clientconn.Protocols() {
		p.wantEmulation(t, form, told[0], http.StatusNotFound)
	}
}

// checkCommands sends commands of all sorts to a connection.
func (p *pair) checkCommands(t *testing.T, conn *clientconn.Conn, channel string) {
	t.Helper()
	var got strings.Builder
	pushed := func(push *protocol.Push) {
		if push.Channel == channel {
			got.Write(push.Publication.Data)
		}
	}
	exchange(t, conn, &protocol.Command{ID: 2, Kind: protocol.KindSubscribe, Subscribe: protocol.SubscribeRequest{Channel: channel}}, pushed)
	var want strings.Builder
	for i := range 20 {
		data := fmt.Sprintf("[%d]", 2*i)
		cmd := protocol.Command{ID: uint32(10 + i), Kind: protocol.KindPublish} //nolint:gosec // small
		cmd.Publish = protocol.PublishRequest{Channel: channel, Data: []byte(data)}
		exchange(t, conn, &cmd, pushed)
		if err := p.nodes[i%2].try("publish", fmt.Sprintf(`{"channel":%q,"data":[%d]}`, channel, 2*i+1)); err != nil {
			t.Fatal(err)
		}
		fmt.Fprintf(&want, "[%d][%d]", 2*i, 2*i+1)
	}
	for id := uint32(100); got.Len() < want.Len(); id++ {
		exchange(t, conn, &protocol.Command{ID: id, Kind: protocol.KindPing}, pushed)
	}
	if got.String() != want.String() {
		t.Errorf("%s: received %s, want %s", channel, &got, &want)
	}
	r := exchange(t, conn, &protocol.Command{ID: 3, Kind: protocol.KindPresenceStats, PresenceStats: protocol.ChannelRequest{Channel: channel}}, pushed)
	if r.PresenceStats.Clients != 1 {
		t.Errorf("%s: %d clients are present", channel, r.PresenceStats.Clients)
	}
	exchange(t, conn, &protocol.Command{ID: 4, Kind: protocol.KindUnsubscribe, Unsubscribe: protocol.ChannelRequest{Channel: channel}}, pushed)
}

// wantEmulation sends a pong of a session to the second node and checks how it is answered.
func (p *pair) wantEmulation(t *testing.T, form string, to protocol.ConnectResult, status int) {
	t.Helper()
	body, contentType := fmt.Sprintf(`{"node":%q,"session":%q,"data":"{}"}`, to.Node, to.Session), "application/json"
	if form == "protobuf" {
		pong := protobuf.AppendCommand(nil, &protocol.Command{})
		body, contentType = string(protobuf.AppendEmulation(nil, &protocol.Batch{Node: to.Node, Session: to.Session, Commands: pong})), "application/octet-stream"
	}
	r, err := http.NewRequestWithContext(testwait.Context(t), http.MethodPost, "http://"+p.nodes[1].public+"/emulation", strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	r.Header.Set("Content-Type", contentType)
	resp, err := http.DefaultClient.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = resp.Body.Close() }()
	said, _ := io.ReadAll(resp.Body)
	if resp.StatusCode != status || status == http.StatusNotFound && !strings.Contains(string(said), "connect again") {
		t.Errorf("%s, node %q, session %q: %s %s, want %d", form, to.Node, to.Session, resp.Status, said, status)
	}
}

// TestRecoversOnOtherNodes: clients of all transports and forms whose connections are balanced between two nodes, and cut over and over, get all
// publications in their order, whichever node they were published on. One of the nodes is killed on the way.
func TestRecoversOnOtherNodes(t *testing.T) {
	t.Parallel()
	p := startPair(t, pairConfig)
	const count, size = 600, 1000
	pad, hash := strings.Repeat("x", size), sha256.New()
	data := func(i int) string { return fmt.Sprintf(`"%d %s"`, i, pad) }
	for i := range count {
		_, _ = io.WriteString(hash, data(i)+"\n") // never returns an error
	}
	want := map[string]*expectation{"ticks:a": {count: count, hash: [sha256.Size]byte(hash.Sum(nil))}}
	clients := newFeedClients(0, len(feedKinds()), p.nodes[0], want)
	down := newOutages()
	for i, c := range clients {
		c.balance, c.outages = p.dialer(feedKinds()[i].tcp), down
		c.cutter = &cutter{random: rand.New(rand.NewPCG(uint64(i), 3)), life: count * size / 20}
	}
	viewing := startClients(t, clients...)
	for i := range count {
		if i == count/2 {
			down.begin()
			p.nodes[0].kill()
			down.end() // the other node takes the clients
		}
		if err := p.nodes[max(i%2, i*2/count)].try("publish", fmt.Sprintf(`{"channel":"ticks:a","data":%s}`, data(i))); err != nil {
			t.Fatalf("publication %d: %v", i, err)
		}
	}
	viewing.awaitComplete()
	checkReplay(viewing, p.nodes[1], want)
	for _, c := range clients {
		if c.cuts == 0 || c.checker.resumed() == 0 {
			t.Errorf("%s was cut %d times and resumed %d times", c.name, c.cuts, c.checker.resumed())
		}
	}
}

// dialer returns the function that makes one client's connections, to the nodes in turn.
func (p *pair) dialer(tcp bool) func(ctx context.Context) (net.Conn, error) {
	var turn atomic.Int64
	return func(ctx context.Context) (net.Conn, error) { return p.dial(ctx, turn.Add(1), tcp) }
}
