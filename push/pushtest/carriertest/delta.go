package carriertest

import (
	"fmt"

	"github.com/sluice-push/sluice/push"
	"github.com/sluice-push/sluice/push/delta"
	"github.com/sluice-push/sluice/push/gateway"
	"github.com/sluice-push/sluice/push/hub"
	"github.com/sluice-push/sluice/push/protocol"
)

// document is a value of which each version differs little from the one before.
func document(i int) []byte {
	return fmt.Appendf(nil, `{"pair":"ABCUSD","bid":"25.%04d","ask":"25.3652","venue":"north <&>","status":"open","note":"é😀"}`, i)
}

// deltaReader applies what a subscription with Fossil deltas gets.
type deltaReader struct {
	suite  *suite
	last   []byte
	deltas int // how many publications were deltas
}

// value returns the whole value of a publication.
func (r *deltaReader) value(p *push.Publication) []byte {
	r.suite.Helper()
	data, err := r.suite.harness.Form.unquoted(p.Data)
	r.suite.must("read data", err)
	if p.Delta {
		r.deltas++
		data, err = delta.ApplyFossil(nil, r.last, data, maxMessage)
		r.suite.must("apply a delta", err)
	}
	r.last = data
	return data
}

// checkDelta: a client that asks for Fossil deltas gets some, and has each version of the value.
func checkDelta(s *suite) {
	n := s.start(gateway.Options{})
	plain, _ := s.subscriber(n, protocol.SubscribeRequest{Channel: "value:a"})
	n.set("value:a", "", string(document(0)))
	plain.publication("value:a")
	c, result := s.subscriber(n, protocol.SubscribeRequest{Channel: "value:a", Delta: push.Fossil.String()})
	if !result.Delta {
		s.Fatalf("deltas are not agreed to: %+v", result)
	}
	r := &deltaReader{suite: s}
	if len(result.Publications) != 1 || string(r.value(&result.Publications[0])) != string(document(0)) {
		s.Errorf("the value in the answer is %+v", result.Publications)
	}
	const versions = 10
	for i := 1; i <= versions; i++ {
		at := n.set("value:a", "", string(document(i)))
		p := c.publication("value:a")
		if got := r.value(&p); string(got) != string(document(i)) || p.Offset != at.Offset {
			s.Errorf("version %d at %d is %s, want %s", p.Offset, at.Offset, got, document(i))
		}
		plain.wantPublication("value:a", push.Publication{Data: document(i), Offset: at.Offset})
	}
	if r.deltas < versions-1 {
		s.Errorf("%d of %d versions came as deltas", r.deltas, versions)
	}
}

// checkMapDelta: in a map subscription deltas are to the row that they replace.
func checkMapDelta(s *suite) {
	n := s.start(gateway.Options{})
	n.set("table:a", "x", string(document(0)))
	n.set("table:a", "y", string(document(1000)))
	c := s.client(n)
	result := c.subscribe(protocol.SubscribeRequest{
		Channel: "table:a", Type: protocol.SubscriptionMap, Phase: protocol.PhaseState, Delta: push.Fossil.String(),
	})
	if !result.Delta || result.Phase != protocol.PhaseLive || len(result.State) != 2 {
		s.Fatalf("subscribe was answered %+v", result)
	}
	rows := map[string]*deltaReader{"x": {suite: s}, "y": {suite: s}}
	for i := range result.State {
		rows[result.State[i].Key].value(&result.State[i])
	}
	const versions = 10
	for i := 1; i <= versions; i++ {
		for j, key := range []string{"x", "y"} {
			want := document(1000*j + i)
			n.set("table:a", key, string(want))
			p := c.publication("table:a")
			if got := rows[key].value(&p); p.Key != key || string(got) != string(want) {
				s.Errorf("row %s is %s, want row %s as %s", p.Key, got, key, want)
			}
		}
	}
	if got := rows["x"].deltas + rows["y"].deltas; got < versions {
		s.Errorf("%d of %d changes came as deltas", got, 2*versions)
	}
}

// checkNumbers: a client that offers it is told a number, by which publications go; the end of a subscription goes by the channel. In the Protobuf
// form the offer of a published SDK alone does not count. Other clients of the channel get its name.
func checkNumbers(s *suite) {
	n := s.start(gateway.Options{})
	plain, _ := s.subscriber(n, protocol.SubscribeRequest{Channel: "a"})
	offer := uint64(protocol.SubscribeFlagCompaction)
	if s.harness.Form == Protobuf {
		sdk, result := s.subscriber(n, protocol.SubscribeRequest{Channel: "a", Flag: offer})
		p := push.Publication{Data: []byte("0")}
		p.Offset = n.put("a", p).Offset
		sdk.wantPublication("a", p)
		plain.wantPublication("a", p)
		if result.ID != 0 {
			s.Errorf("a client that cannot read numbers is told %d", result.ID)
		}
		offer |= protocol.SubscribeFlagNumbers
	}
	c := s.client(n)
	numbers := map[string]uint64{}
	for _, channel := range []string{"a", "table:a"} {
		numbers[channel] = c.subscribe(protocol.SubscribeRequest{Channel: channel, Flag: offer}).ID
	}
	if numbers["a"] == 0 || numbers["table:a"] == 0 || numbers["a"] == numbers["table:a"] {
		s.Fatalf("the numbers are %v", numbers)
	}
	for channel, number := range numbers {
		p := push.Publication{Key: "k", Data: []byte("1")}
		p.Offset = n.put(channel, p).Offset
		got := c.push()
		if got.Kind != protocol.PushPublication || got.ID != number || got.Channel != "" || !same(&got.Publication, &p) {
			s.Errorf("instead of a publication in %d: %+v", number, got)
		}
		if channel == "a" {
			plain.wantPublication("a", p)
		}
	}
	s.must("unsubscribe", n.hub.Unsubscribe(s.ctx, hub.Target{Client: c.told.Client}, "a", push.UnsubscribeServer))
	if got := c.push(); got.Kind != protocol.PushUnsubscribe || got.Channel != "a" || got.ID != 0 {
		s.Errorf("instead of the end of a subscription: %+v", got)
	}
}
