package carriertest

import (
	"encoding/base64"
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/sluice-push/sluice/push"
	"github.com/sluice-push/sluice/push/gateway"
	"github.com/sluice-push/sluice/push/protocol"
)

const (
	// many publications of a kilobyte are several times what everything between the hub and a client holds.
	many   = 2500
	filler = 1000
	// mostQueued is what a carrier may hold for a client, and one frame beyond.
	mostQueued = 64 << 10
	frame      = 48 << 10
)

// few large publications are more than a hub remembers of a channel beyond its history.
const (
	few   = 300
	large = 64_000
)

// fill returns data of about a kilobyte that can be told apart.
func fill(i int) string { return fillTo(i, filler) }

func fillTo(i, size int) string {
	start := i * 7919 % (len(noise) / 2) // far from that of the publications before
	return fmt.Sprintf(`"%d %s"`, i, noise[start:start+size])
}

// noise is text of twice the size of a large publication that compression does not make much smaller: a client that does not read is to be noticed on
// a compressed connection, too.
var noise = func() string {
	var random [2 * large * 3 / 4]byte
	_, _ = rand.NewChaCha8([32]byte{}).Read(random[:]) // never fails
	return base64.StdEncoding.EncodeToString(random[:])
}()

// wantQueued fails the check if carriers hold more for their clients than they may. The gateway looks at most once a second: of several calls in a
// check only the first sees what there is.
func (n *node) wantQueued(clients, frame int) {
	n.suite.Helper()
	n.suite.network.settle()
	queues := max(n.suite.harness.Queues, 1)
	if got, most := n.gateway.Stats().QueueBytes, clients*queues*(mostQueued+frame); got > int64(most) {
		n.suite.Errorf("%d bytes are held for %d clients, at most %d may be", got, clients, most)
	}
}

// checkSlowTable: a client that does not read costs little memory, gets less than was published when it reads again, and ends with the newest
// version of each row. No row goes back.
func checkSlowTable(s *suite) {
	n := s.start(gateway.Options{})
	c, _ := s.subscriber(n, protocol.SubscribeRequest{Channel: "table:a"})
	const rows = 10
	key := func(i int) string { return fmt.Sprintf("row-%d", i%rows) }
	for i := range many {
		n.set("table:a", key(i), fill(i))
		if i%50 == 0 {
			s.network.settle()
		}
	}
	n.wantQueued(1, frame)
	newest, missing := map[string]int{}, rows
	for missing > 0 {
		p := c.publication("table:a")
		var version int
		if _, err := fmt.Sscanf(string(p.Data), `"%d`, &version); err != nil || string(p.Data) != fill(version) || key(version) != p.Key {
			s.Fatalf("no version of a row: %s", describe(&p))
		}
		if last, ok := newest[p.Key]; ok && version <= last {
			s.Fatalf("row %s went from version %d to %d", p.Key, last, version)
		}
		newest[p.Key] = version
		if version >= many-rows {
			missing--
		}
	}
	const published = many * filler
	if got := c.wires.received.Load(); got > published/2 {
		s.Errorf("%d bytes were received of %d: nothing was conflated", got, published)
	}
}

// checkSlowStream: a client that does not read costs little memory, and misses nothing of what is kept.
func checkSlowStream(s *suite) {
	n := s.start(gateway.Options{})
	c, _ := s.subscriber(n, protocol.SubscribeRequest{Channel: "a"})
	for i := range many {
		n.publish("a", fill(i))
	}
	n.wantQueued(1, frame)
	for i := range many {
		c.wantPublication("a", push.Publication{Data: []byte(fill(i)), Offset: uint64(i + 1)})
	}
}

// checkSlowPolicies: a client that does not read for longer than its channel remembers is told so, as the namespace says.
func checkSlowPolicies(s *suite) {
	n := s.start(gateway.Options{})
	policies := map[string]struct {
		unsubscribe push.Unsubscribe
		disconnect  push.Disconnect // of a client that could not subscribe again, or by policy
	}{
		"short:a": {push.UnsubscribeInsufficientState, push.DisconnectInsufficientState},
		"ends:a":  {push.UnsubscribeSlow, push.DisconnectSlow},
		"cuts:a":  {push.Unsubscribe{}, push.DisconnectSlow},
	}
	clients := map[string]*client{}
	for channel := range policies {
		clients[channel], _ = s.subscriber(n, protocol.SubscribeRequest{Channel: channel})
	}
	for i := range few {
		for channel := range policies {
			n.publish(channel, fillTo(i, large))
		}
	}
	n.wantQueued(len(policies), large+1000)
	for channel, want := range policies {
		at, told := clients[channel].readUntilTold(channel)
		wanted := error(want.disconnect)
		if want.unsubscribe.Code != 0 && s.harness.sends() {
			wanted = unsubscribed(want.unsubscribe)
		}
		if told == nil || told.Error() != wanted.Error() {
			s.Errorf("%s: after %d publications the client was told %v, want %v", channel, at, told, wanted)
		}
	}
}

// unsubscribed is the end of a subscription as an error.
type unsubscribed push.Unsubscribe

func (u unsubscribed) Error() string { return fmt.Sprintf("unsubscribe %d: %s", u.Code, u.Reason) }

// readUntilTold reads large publications until the subscription or the connection ends, and returns how much that was, and why. Nothing may be missing.
func (c *client) readUntilTold(channel string) (at int, why error) {
	c.suite.Helper()
	for ; at < few; at++ {
		r, err := c.receive()
		if err != nil {
			return at, err
		}
		if r.Push.Kind == protocol.PushUnsubscribe && r.Push.Channel == channel {
			return at, unsubscribed(r.Push.Unsubscribe)
		}
		if p := &r.Push.Publication; p.Offset != uint64(at+1) || r.Push.Channel != channel || string(p.Data) != fillTo(at, large) {
			c.suite.Fatalf("%s: publication %d is %s", channel, at+1, describe(p))
		}
	}
	return at, nil
}

// checkSlowReplies: a client that sends commands and does not read the answers costs little memory and disturbs no other client. Once it reads, it
// gets all its answers in order.
func checkSlowReplies(s *suite) {
	n := s.start(gateway.Options{})
	for i := range 50 {
		n.publish("a", fill(i))
	}
	slow := s.client(n)
	other, _ := s.subscriber(n, protocol.SubscribeRequest{Channel: "b"})
	const count = 60 // 3 MB of answers
	sent := s.background(func() {
		for i := range count {
			ask := protocol.HistoryRequest{Channel: "a", Limit: -1}
			if err := slow.send(&protocol.Command{ID: uint32(i + 2), Kind: protocol.KindHistory, History: ask}); err != nil {
				s.Errorf("the slow client may not send: %v", err)
				return
			}
		}
	})
	for i := range 50 {
		p := push.Publication{Data: fmt.Append(nil, i)}
		p.Offset = n.put("b", p).Offset
		other.wantPublication("b", p)
		other.ping()
	}
	n.wantQueued(2, large)
	for i := range count {
		if r := slow.next(); r.ID != uint32(i+2) || r.Error != nil || len(r.History.Publications) != 50 {
			s.Fatalf("answer %d: id %d, error %v, %d publications", i, r.ID, r.Error, len(r.History.Publications))
		}
	}
	s.within("send", sent)
	slow.ping()
}

// checkWriteTimeout: a client that takes nothing any more is given up, and counted as that.
func checkWriteTimeout(s *suite) {
	n := s.start(gateway.Options{WriteTimeout: 3 * time.Second, PingInterval: -1})
	s.subscriber(n, protocol.SubscribeRequest{Channel: "a"})
	for i := range many / 5 {
		n.publish("a", fill(i))
	}
	n.waitLen(0)
	n.wantSum()
	if got := n.stats(); got.TimedOut != 1 {
		s.Errorf("counted: %+v", got)
	}
}
