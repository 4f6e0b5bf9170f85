package carriertest

import (
	"cmp"
	"fmt"
	"slices"

	"github.com/sluice-push/sluice/push"
	"github.com/sluice-push/sluice/push/gateway"
	"github.com/sluice-push/sluice/push/protocol"
)

// checkRecover: a client whose connection breaks, and that comes back to the same node or to another one, gets what it missed, and what follows.
func checkRecover(s *suite, other bool) {
	n := s.start(gateway.Options{})
	back := n
	if other {
		back = s.start(gateway.Options{})
	}
	c, result := s.subscriber(n, protocol.SubscribeRequest{Channel: "a"})
	at := result.Position
	for round := range 3 {
		for i := range 5 {
			p := push.Publication{Data: fmt.Appendf(nil, "[%d,%d]", round, i)}
			p.Offset = n.put("a", p).Offset
			c.wantPublication("a", p)
			at.Offset = p.Offset
		}
		c.wires.cut()
		n.waitLen(0)
		var missed []push.Publication
		for i := range 5 {
			p := push.Publication{Data: fmt.Appendf(nil, `"missed %d"`, i)}
			p.Offset = n.put("a", p).Offset
			missed = append(missed, p)
		}
		c, result = s.subscriber(back, protocol.SubscribeRequest{Channel: "a", Recover: true, Position: at})
		if !result.Recovered || !result.WasRecovering || result.Position != at {
			s.Fatalf("the client that was at %v came back to %+v", at, result)
		}
		c.wantMissed("a", result.Publications, missed)
		n, back = back, n
	}
	p := push.Publication{Data: []byte(`"after"`)}
	p.Offset = n.put("a", p).Offset
	c.wantPublication("a", p)
}

// wantMissed fails the check unless a client that came back gets what it missed in the answer, and what had not arrived at its node right after it.
func (c *client) wantMissed(channel string, answered, want []push.Publication) {
	s := c.suite
	s.Helper()
	for i := range want {
		if i >= len(answered) {
			c.wantPublication(channel, want[i])
		} else if !same(&answered[i], &want[i]) {
			s.Errorf("missed %s, want %s", describe(&answered[i]), describe(&want[i]))
		}
	}
	if len(answered) > len(want) {
		s.Errorf("%d publications were answered, %d were missed", len(answered), len(want))
	}
}

// checkRecoverTable: a client that comes back to a table gets the rows that have changed, once, and the removed ones, but not the rows that it has.
// When the table is cleared, it is told that it has to begin anew.
func checkRecoverTable(s *suite) {
	n := s.start(gateway.Options{})
	rows := n.rows("table:a", 20, 10)
	c, result := s.subscriber(n, protocol.SubscribeRequest{Channel: "table:a"})
	at := result.Position
	for missing := len(rows) - len(result.Publications); missing > 0; missing-- {
		at.Offset = c.publication("table:a").Offset
	}
	if last := len(result.Publications); last > 0 {
		at.Offset = max(at.Offset, result.Publications[last-1].Offset)
	}
	c.wires.cut()
	n.waitLen(0)
	n.set("table:a", "row-1", "1")
	missed := []push.Publication{{Key: "row-1", Data: []byte("2")}, {Key: "row-2", Op: push.Remove}, {Key: "new", Data: []byte("3")}}
	for i := range missed {
		missed[i].Offset = n.put("table:a", missed[i]).Offset
	}
	c, result = s.subscriber(n, protocol.SubscribeRequest{Channel: "table:a", Recover: true, Position: at})
	if !result.Recovered || !result.WasRecovering {
		s.Fatalf("the client that was at %v came back to %+v", at, result)
	}
	slices.SortFunc(result.Publications, func(a, b push.Publication) int { return cmp.Compare(a.Offset, b.Offset) })
	c.wantMissed("table:a", result.Publications, missed)
	n.put("table:a", push.Publication{Op: push.Clear})
	if !s.harness.sends() {
		c.wantEnd(push.DisconnectInsufficientState)
	} else if p := c.push(); p.Kind != protocol.PushUnsubscribe || p.Unsubscribe.Code != push.UnsubscribeInsufficientState.Code {
		s.Errorf("after the table was cleared: %+v", p)
	}
}

// checkRecoverTooLate: a client that missed more than is kept learns that it has not recovered, and begins at the head.
func checkRecoverTooLate(s *suite) {
	n := s.start(gateway.Options{})
	at := n.publish("short:a", "0")
	var head push.Position
	for i := range 30 {
		head = n.publish("short:a", fmt.Sprint(i))
	}
	for name, from := range map[string]push.Position{"too old": at, "another epoch": {Epoch: "other", Offset: head.Offset}} {
		again := protocol.SubscribeRequest{Channel: "short:a", Recover: true, Position: from}
		c, got := s.subscriber(n, again)
		if got.Recovered || !got.WasRecovering || got.Position != head || len(got.Publications) != 0 {
			s.Errorf("%s: the client came back to %+v, want the head %v", name, got, head)
		}
		p := push.Publication{Data: []byte(`"after"`)}
		head = n.put("short:a", p)
		p.Offset = head.Offset
		c.wantPublication("short:a", p)
		if s.harness.sends() {
			again.Flag = protocol.SubscribeFlagRejectUnrecovered
			s.client(n).wantError(protocol.Command{Kind: protocol.KindSubscribe, Subscribe: again}, push.ErrUnrecoverablePosition)
		}
	}
}

// checkRecoverByID: a client of a carrier that tells positions by itself gets what it missed with its last id alone.
func checkRecoverByID(s *suite) {
	n := s.start(gateway.Options{})
	subs := map[string]protocol.SubscribeRequest{"a": {}, "table:a": {}}
	c := s.dial(n)
	_, err := c.connect(protocol.ConnectRequest{Subs: subs})
	s.must("connect", err)
	r, ok := c.conn.(Resumer)
	if !ok || r.LastID() == "" {
		return // the carrier has no ids
	}
	p := push.Publication{Data: []byte("1")}
	p.Offset = n.put("a", p).Offset
	c.wantPublication("a", p)
	id := r.LastID()
	c.wires.cut()
	n.waitLen(0)
	missed := []push.Publication{{Data: []byte("2")}, {Data: []byte("3")}}
	for i := range missed {
		missed[i].Offset = n.put("a", missed[i]).Offset
	}
	row := push.Publication{Key: "k", Data: []byte("4")}
	row.Offset = n.put("table:a", row).Offset
	c = s.dialVia(n, n, id)
	told, err := c.connect(protocol.ConnectRequest{Subs: subs})
	s.must("connect again", err)
	for channel, want := range map[string][]push.Publication{"a": missed, "table:a": {row}} {
		got := told.Subs[channel]
		if !got.Recovered || !got.WasRecovering || len(got.Publications) != len(want) {
			s.Fatalf("with id %q the client came back to %s at %+v", id, channel, got)
		}
		for i := range want {
			if !same(&got.Publications[i], &want[i]) {
				s.Errorf("missed %s, want %s", describe(&got.Publications[i]), describe(&want[i]))
			}
		}
	}
}

// checkOtherNode: an emulated client may send its commands to any node. Their order is kept, and the replies come on its connection.
func checkOtherNode(s *suite) {
	n, via := s.start(gateway.Options{}), s.start(gateway.Options{})
	c := s.dialVia(n, via, "")
	_, err := c.connect(protocol.ConnectRequest{})
	s.must("connect", err)
	for i := range 20 {
		channel := fmt.Sprintf("c%d", i)
		c.subscribe(protocol.SubscribeRequest{Channel: channel})
		r := protocol.PublishRequest{Channel: channel, Data: fmt.Append(nil, i)}
		s.must("send", c.send(&protocol.Command{ID: 1000, Kind: protocol.KindPublish, Publish: r}))
		answered, pushed := false, false
		for !answered || !pushed {
			switch r := c.next(); {
			case r.ID == 1000 && r.Kind == protocol.KindPublish && !answered:
				answered = true
			case r.Push.Kind == protocol.PushPublication && r.Push.Channel == channel && !pushed:
				pushed = true
			default:
				s.Fatalf("instead of the answer and the publication: %+v", r)
			}
		}
		c.ping()
	}
	if a, b := n.gateway.Len(), via.gateway.Len(); a != 1 || b != 0 {
		s.Errorf("the client is on %d and %d nodes", a, b)
	}
	c.conn.Close()
	n.waitLen(0)
}
