package carriertest

import (
	"fmt"
	"strings"
	"sync/atomic"

	"github.com/sluice-push/sluice/push"
	"github.com/sluice-push/sluice/push/gateway"
	"github.com/sluice-push/sluice/push/hub"
	"github.com/sluice-push/sluice/push/protocol"
)

// publications are such that have everything a publication may have. They have no offsets.
func publications() []push.Publication {
	by := &push.ClientInfo{User: "ann", Client: "1", ConnInfo: []byte(`{"n":1}`), ChanInfo: []byte(`[2]`)}
	return []push.Publication{
		{Data: []byte(`{"x": 1}`)},
		{Data: []byte(`"a \"quoted\" line\n, é, 😀, </script>"`), Info: by},
		{Data: []byte(`null`), Tags: map[string]string{"a": "<1>", "b": "é"}},
		{Data: []byte(`[1,2.5e3,{"y":[]}]`), Key: "k\"ü"},
		{Data: []byte(`"` + strings.Repeat("large", 8_000) + `"`), Tags: map[string]string{"after": "this"}},
		{Data: []byte(`-0`)},
	}
}

// checkSubscribe: a client that subscribes is told its position, and gets what is published from then on, as it was published.
func checkSubscribe(s *suite) {
	n := s.start(gateway.Options{})
	before := n.publish("a", "1")
	c, got := s.subscriber(n, protocol.SubscribeRequest{Channel: "a", Data: []byte(`{"app":1}`)})
	if !got.Recoverable || !got.Positioned || got.Position != before || got.WasRecovering || got.Recovered || len(got.Publications) != 0 ||
		got.ID != 0 || got.Delta || got.Data != nil || got.Phase != 0 {
		s.Errorf("subscribe was answered %+v, want the position %v", got, before)
	}
	n.publish("b", "0")
	for _, p := range publications() {
		p.Offset = n.put("a", p).Offset
		c.wantPublication("a", p)
	}
	row := push.Publication{Key: "k", Data: []byte("1")}
	c, _ = s.subscriber(n, protocol.SubscribeRequest{Channel: "table:a"})
	row.Offset = n.put("table:a", row).Offset
	c.wantPublication("table:a", row)
	gone := push.Publication{Key: "k", Op: push.Remove}
	gone.Offset = n.put("table:a", gone).Offset
	c.wantPublication("table:a", gone)
}

// checkSubscribeMany: many subscriptions in one frame, or in one request, are answered in order and served.
func checkSubscribeMany(s *suite) {
	n := s.start(gateway.Options{})
	const count = 100
	channel := func(i int) string { return fmt.Sprintf("channel-%d", i) }
	c := s.dial(n)
	if s.harness.sends() {
		_, err := c.connect(protocol.ConnectRequest{})
		s.must("connect", err)
		var all []*protocol.Command
		for i := range count {
			all = append(all, &protocol.Command{ID: uint32(i + 2), Kind: protocol.KindSubscribe, Subscribe: protocol.SubscribeRequest{Channel: channel(i)}})
		}
		s.must("send", c.send(all...))
		for _, cmd := range all {
			if r := c.next(); r.ID != cmd.ID || r.Kind != protocol.KindSubscribe || r.Error != nil {
				s.Fatalf("command %d was answered %+v", cmd.ID, r)
			}
		}
	} else {
		subs := map[string]protocol.SubscribeRequest{}
		for i := range count {
			subs[channel(i)] = protocol.SubscribeRequest{}
		}
		told, err := c.connect(protocol.ConnectRequest{Subs: subs})
		s.must("connect", err)
		if len(told.Subs) != count {
			s.Errorf("%d subscriptions were answered, want %d", len(told.Subs), count)
		}
	}
	for i := range count {
		at := n.publish(channel(i), fmt.Sprint(i))
		c.wantPublication(channel(i), push.Publication{Data: fmt.Append(nil, i), Offset: at.Offset})
	}
}

// checkSubscribeWhilePublishing: while a publisher never pauses, a client subscribes, unsubscribes and resumes. No push comes before the reply,
// none after unsubscribe was answered, and between the reply and the pushes nothing is missing or doubled.
func checkSubscribeWhilePublishing(s *suite) {
	n := s.start(gateway.Options{})
	c := s.client(n)
	var stop, at atomic.Uint64
	published := s.background(func() {
		for stop.Load() == 0 && s.ctx.Err() == nil {
			if head := n.publish("a", "1").Offset; head > at.Load()+500 {
				s.eventually("the client goes on", func() bool { return stop.Load() != 0 || head < at.Load()+100 })
			}
		}
	})
	defer published()
	defer stop.Store(1)
	var from push.Position
	for round := range 10 {
		got := c.subscribe(protocol.SubscribeRequest{Channel: "a", Recover: round > 0, Position: from})
		if round > 0 && (!got.Recovered || got.Position != from) {
			s.Fatalf("after %v: resumed at %v, recovered: %t", from, got.Position, got.Recovered)
		}
		from = got.Position
		at.Store(from.Offset)
		in := func(p *push.Publication) {
			if p.Offset != from.Offset+1 {
				s.Fatalf("publication %d came after %d", p.Offset, from.Offset)
			}
			from.Offset = p.Offset
			at.Store(p.Offset)
		}
		for i := range got.Publications {
			in(&got.Publications[i])
		}
		for range 5 {
			p := c.publication("a")
			in(&p)
		}
		s.must("send", c.send(&protocol.Command{ID: 1000, Kind: protocol.KindUnsubscribe, Unsubscribe: protocol.ChannelRequest{Channel: "a"}}))
		r := c.next()
		for ; r.ID == 0; r = c.next() {
			in(&r.Push.Publication)
		}
		if r.ID != 1000 || r.Kind != protocol.KindUnsubscribe {
			s.Fatalf("unsubscribe was answered %+v", r)
		}
		c.ping()
	}
}

// checkUnsubscribe: after a client has unsubscribed nothing of the channel comes, and it may subscribe again.
func checkUnsubscribe(s *suite) {
	n := s.start(gateway.Options{})
	c, _ := s.subscriber(n, protocol.SubscribeRequest{Channel: "a"})
	c.wantError(protocol.Command{Kind: protocol.KindSubscribe, Subscribe: protocol.SubscribeRequest{Channel: "a"}}, push.ErrAlreadySubscribed)
	for i := range 3 {
		c.request(protocol.Command{Kind: protocol.KindUnsubscribe, Unsubscribe: protocol.ChannelRequest{Channel: "a"}})
		at := n.publish("a", "1")
		c.ping()
		if got := c.subscribe(protocol.SubscribeRequest{Channel: "a"}); got.Position != at || len(got.Publications) != 0 {
			s.Errorf("round %d: subscribed at %+v, want %v", i, got, at)
		}
	}
}

// checkServerUnsubscribes: the server ends a subscription, and says why. A one-way client, which could not subscribe again, is disconnected.
func checkServerUnsubscribes(s *suite) {
	n := s.start(gateway.Options{})
	for _, tt := range []struct {
		why  push.Unsubscribe
		ends push.Disconnect // a one-way client
	}{
		{push.UnsubscribeServer, push.Disconnect{Code: push.DisconnectForceNoReconnect.Code}},
		{push.UnsubscribeInsufficientState, push.DisconnectInsufficientState},
		{push.UnsubscribeStateInvalidated, push.DisconnectStateInvalidated},
	} {
		c, _ := s.subscriber(n, protocol.SubscribeRequest{Channel: "a"})
		s.must("unsubscribe", n.hub.Unsubscribe(s.ctx, hub.Target{Client: c.told.Client}, "a", tt.why))
		if !s.harness.sends() {
			c.wantEnd(tt.ends)
			continue
		}
		if p := c.push(); p.Kind != protocol.PushUnsubscribe || p.Channel != "a" || p.Unsubscribe != tt.why {
			s.Errorf("instead of %v: %+v", tt.why, p)
		}
		n.publish("a", "1")
		c.ping()
		c.subscribe(protocol.SubscribeRequest{Channel: "a"})
		p := push.Publication{Data: []byte("2")}
		p.Offset = n.put("a", p).Offset
		c.wantPublication("a", p)
	}
}

// checkPublish: what clients publish reaches subscribers with the publisher's identity, and what may not be published is refused.
func checkPublish(s *suite) {
	n := s.start(gateway.Options{})
	c := s.client(n)
	info := &push.ClientInfo{Client: c.told.Client}
	stream, _ := s.subscriber(n, protocol.SubscribeRequest{Channel: "a"})
	table, _ := s.subscriber(n, protocol.SubscribeRequest{Channel: "table:a"})
	for i, p := range publications() {
		r := protocol.PublishRequest{Channel: "a", Data: p.Data, Key: p.Key, Tags: p.Tags}
		c.request(protocol.Command{Kind: protocol.KindPublish, Publish: r})
		p.Offset, p.Info = uint64(i+1), info
		stream.wantPublication("a", p)
	}
	for i, p := range []push.Publication{{Key: "k", Data: []byte("1")}, {Key: "k", Op: push.Remove}} {
		r := protocol.PublishRequest{Channel: "table:a", Data: p.Data, Key: p.Key, Removed: p.Op == push.Remove}
		c.request(protocol.Command{Kind: protocol.KindPublish, Publish: r})
		p.Offset, p.Info = uint64(i+1), info
		table.wantPublication("table:a", p)
	}
	for _, tt := range []struct {
		request protocol.PublishRequest
		want    *push.Error
	}{
		{protocol.PublishRequest{Channel: "nowhere:a", Data: []byte("1")}, push.ErrUnknownChannel},
		{protocol.PublishRequest{Channel: "a"}, push.ErrBadRequest},
		{protocol.PublishRequest{Channel: "table:a", Key: "k", Data: []byte("1"), Removed: true}, push.ErrBadRequest},
		{protocol.PublishRequest{Data: []byte("1")}, push.ErrBadRequest},
	} {
		c.wantError(protocol.Command{Kind: protocol.KindPublish, Publish: tt.request}, tt.want)
	}
	c.ping()
}

// checkOrder: ten publishers publish at the same time. Each gets its answers in order, and a subscriber gets everything once, in the order of the
// channel, which is that of each publisher.
func checkOrder(s *suite) {
	n := s.start(gateway.Options{})
	c, _ := s.subscriber(n, protocol.SubscribeRequest{Channel: "a"})
	const publishers, each = 10, 50
	var published []func()
	for i := range publishers {
		var p *client
		if s.harness.sends() {
			p = s.client(n)
		}
		published = append(published, s.background(func() { n.publishInOrder(p, i, each) }))
	}
	last := [publishers]int{}
	for at := range publishers * each {
		p := c.publication("a")
		var from, number int
		if _, err := fmt.Sscanf(string(p.Data), "[%d,%d]", &from, &number); err != nil {
			s.Fatalf("publication %s: %v", describe(&p), err)
		}
		if p.Offset != uint64(at+1) || number != last[from]+1 { //nolint:gosec // small
			s.Fatalf("publication %d of publisher %d came at offset %d, after its %d, and after offset %d", number, from, p.Offset, last[from], at)
		}
		last[from] = number
	}
	for _, done := range published {
		s.within("publish", done)
	}
}

// checkManyClients: each of many clients gets everything once, in order. They are more than the hub writes to at a time.
func checkManyClients(s *suite) {
	n := s.start(gateway.Options{})
	const clients, count = 70, 20
	var all []*client
	for range clients {
		c, _ := s.subscriber(n, protocol.SubscribeRequest{Channel: "a"})
		all = append(all, c)
	}
	for i := range count {
		n.publish("a", fmt.Sprint(i))
	}
	for number, c := range all {
		for i := range count {
			if p := c.publication("a"); p.Offset != uint64(i+1) || string(p.Data) != fmt.Sprint(i) {
				s.Fatalf("client %d: publication %d is %s", number, i, describe(&p))
			}
		}
		if s.harness.sends() {
			c.ping()
		}
	}
}

// publishInOrder publishes numbers, as a client if there is one: ten commands in a frame.
func (n *node) publishInOrder(c *client, publisher, count int) {
	s := n.suite
	data := func(i int) []byte { return fmt.Appendf(nil, "[%d,%d]", publisher, i+1) }
	if c == nil {
		for i := range count {
			if _, err := n.hub.Publish(s.ctx, "a", push.Publication{Data: data(i)}, ""); err != nil {
				s.Errorf("publish: %v", err)
			}
		}
		return
	}
	const together = 10
	for i := 0; i < count; i += together {
		var all []*protocol.Command
		for j := range together {
			r := protocol.PublishRequest{Channel: "a", Data: data(i + j)}
			all = append(all, &protocol.Command{ID: uint32(i + j + 2), Kind: protocol.KindPublish, Publish: r}) //nolint:gosec // small
		}
		if err := c.send(all...); err != nil {
			s.Errorf("send: %v", err)
			return
		}
		for _, cmd := range all {
			if r, err := c.receive(); err != nil || r.ID != cmd.ID || r.Error != nil {
				s.Errorf("command %d was answered %+v, %v", cmd.ID, r, err)
				return
			}
		}
	}
}
