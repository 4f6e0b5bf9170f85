package carriertest

import (
	"fmt"
	"math/rand/v2"

	"github.com/sluice-push/sluice/push"
	"github.com/sluice-push/sluice/push/gateway"
	"github.com/sluice-push/sluice/push/protocol"
)

// checkUnfinished: a frame of which only the beginning comes is not carried out. Its client goes on receiving, and others notice nothing. When the
// connection ends, that is counted as the end of a client that has left.
func checkUnfinished(s *suite) {
	n := s.start(gateway.Options{})
	w := s.witness(n)
	publish := protocol.Command{ID: 100, Kind: protocol.KindPublish}
	publish.Publish = protocol.PublishRequest{Channel: "unfinished", Data: incompressible(2000)}
	beginnings := []int64{0, 1, 20, 700} // how many bytes come: nothing, headers of the transport, and a part of the command
	for i, bytes := range beginnings {
		c, _ := s.subscriber(n, protocol.SubscribeRequest{Channel: "a"})
		c.wires.mute(bytes)
		done := s.background(func() { _ = c.send(&publish) }) // whether it fails depends on the carrier
		s.eventually("the beginning is sent", c.wires.isMute)
		s.network.settle()
		w.unharmed(n)
		p := push.Publication{Data: fmt.Append(nil, i)}
		p.Offset = n.put("a", p).Offset
		c.wantPublication("a", p)
		c.wires.cut()
		done()
		n.waitLen(1)
	}
	n.wantSum()
	if got := n.stats(); got.Left != uint64(len(beginnings)) || got.Panics != 0 {
		s.Errorf("%d clients that left are counted as %+v", len(beginnings), got)
	}
	history := w.request(protocol.Command{Kind: protocol.KindHistory, History: protocol.HistoryRequest{Channel: "unfinished", Limit: -1}}).History
	if len(history.Publications) > 0 {
		s.Errorf("%d unfinished commands were carried out", len(history.Publications))
	}
	w.unharmed(n)
}

// incompressible returns about so many bytes of JSON, of which at least half are left when they are compressed.
func incompressible(size int) []byte {
	random := rand.New(rand.NewPCG(1, 2)) //nolint:gosec // not a secret
	out := []byte{'"'}
	for len(out) < size {
		out = fmt.Appendf(out, "%016x", random.Uint64())
	}
	return append(out, '"')
}

// checkFlood: a frame with very many subscriptions, as flood says, is carried out: each is answered, those beyond the limits with an error, which is counted. Others
// are served meanwhile.
func checkFlood(s *suite) {
	n := s.start(gateway.Options{FrameBytes: 16 << 20, PingInterval: -1})
	w := s.witness(n)
	c := s.client(n)
	commands := make([]*protocol.Command, flood)
	for i := range commands {
		commands[i] = &protocol.Command{ID: uint32(2 + i), Kind: protocol.KindSubscribe} //nolint:gosec // small
		commands[i].Subscribe.Channel = fmt.Sprint("flood", i)
	}
	sent := s.background(func() {
		if err := c.send(commands...); err != nil {
			s.Errorf("the frame was refused: %v", err)
		}
	})
	errors := map[uint32]uint64{}
	for i, cmd := range commands {
		r := c.next()
		if r.ID != cmd.ID {
			s.Fatalf("instead of the answer to subscription %d: %+v", i, r)
		}
		if r.Error != nil {
			errors[r.Error.Code]++
		}
		if i%(flood/10) == 0 {
			w.unharmed(n)
		}
	}
	s.within("send", sent)
	limited, tooMany := errors[push.ErrLimitExceeded.Code], errors[push.ErrTooManyRequests.Code]
	subscribed := flood - limited - tooMany
	if got := uint64(n.hub.Stats().Subscriptions); subscribed == 0 || limited == 0 || got != subscribed+1 { //nolint:gosec // a length
		s.Errorf("the answers are %v, and there are %d subscriptions", errors, got)
	}
	counted := n.gateway.Stats().Errors
	if counted[push.ErrLimitExceeded.Code] != limited || counted[push.ErrTooManyRequests.Code] != tooMany {
		s.Errorf("the answers are %v, counted are %v", errors, counted)
	}
	w.unharmed(n)
}
