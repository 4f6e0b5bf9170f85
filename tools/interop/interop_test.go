package interop_test

import "testing"

// nodePeer is the peer that the regular tests run, because every development machine has its requirements.
var nodePeer = peer{
	name:   "ws",
	can:    fragments | pings | compresses | inflates | windows | serverWindows | anyCode | noCode,
	client: true,
	server: true,
	start:  program("node", "node_modules/.package-lock.json", "node", "ws.mjs"),
}

// run plays all scenarios that a peer is able to, in the given ways, and reports the result of each.
func run(t *testing.T, p peer, asServer []serverWay, asClient []clientWay, result func(p peer, weConnect bool, s scenario, ok bool)) {
	each := func(t *testing.T, weConnect bool, play func(*testing.T, scenario)) {
		for _, s := range scenarios() {
			if s.needs&windows != 0 && weConnect {
				s.needs |= serverWindows
			}
			if s.needs&^p.can != 0 {
				continue
			}
			s.can = p.can
			result(p, weConnect, s, t.Run(s.name, func(t *testing.T) { play(t, s) }))
		}
	}
	if p.client {
		for _, way := range asServer {
			t.Run("our server, "+way.name, func(t *testing.T) {
				c := p.start(t)
				each(t, false, func(t *testing.T, s scenario) { way.serve(t, c, s) })
			})
		}
	}
	if p.server {
		for _, way := range asClient {
			t.Run("our client, "+way.name, func(t *testing.T) {
				c := p.start(t).(*process)
				each(t, true, func(t *testing.T, s scenario) { way.connect(t, c, s) })
			})
		}
	}
}

// TestNode runs the peer ws in one way as a server and one way as a client.
func TestNode(t *testing.T) {
	tried := 0
	run(t, nodePeer, serverWays[:1], clientWays[:1], func(peer, bool, scenario, bool) { tried++ })
	if all := len(scenarios()); tried != 2*all || all == 0 {
		t.Errorf("%d of %d scenarios were tried", tried, 2*all)
	}
}
