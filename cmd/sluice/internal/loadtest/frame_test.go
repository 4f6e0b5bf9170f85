package loadtest

import (
	"testing"

	"github.com/sluice-push/sluice/cmd/sluice/internal/loadtest/delivery"
	"github.com/sluice-push/sluice/cmd/sluice/internal/loadtest/hostclock"
	"github.com/sluice-push/sluice/push"
	"github.com/sluice-push/sluice/push/protocol/json"
	"github.com/sluice-push/sluice/push/protocol/protobuf"
)

// frames returns frames of one publication each, as a node sends them, in the form of a protocol.
func frames(g *group, n int) [][]byte {
	out := make([][]byte, n)
	for i := range out {
		h := delivery.Header{Seq: uint32(i + 1), K: uint32(i), Due: hostclock.Now()} //nolint:gosec // small
		pub := push.Publication{Data: g.payloads.Append(nil, h), Offset: uint64(i + 1)}
		if g.plan.spec.Protocol == Protobuf {
			out[i] = protobuf.AppendPublicationPush(nil, g.plan.channelName(0), &pub, protobuf.PushOptions{})
		} else {
			out[i] = json.AppendPublicationPush(nil, g.plan.channelName(0), &pub, json.PushOptions{})
		}
	}
	return out
}

// newReader returns a group with a single client that is subscribed, to publications that count.
func newReader(tb testing.TB, protocol string) (*group, *client) {
	g := newGroup(&job{Spec: Spec{Clients: 1, Protocol: protocol}.withDefaults(), To: 1})
	tb.Cleanup(g.close)
	g.measureFrom.Store(1)
	g.measureTo.Store(1 << 62)
	g.clients[0].state = subscribed
	return g, g.clients[0]
}

// A frame of one publication is recorded without an allocation.
func TestFrameAllocations(t *testing.T) {
	for _, protocol := range []string{JSON, Protobuf} {
		g, c := newReader(t, protocol)
		all, i := frames(g, 200), 0
		n := testing.AllocsPerRun(len(all)-2, func() {
			g.recordFrame(nil, c, all[i])
			i++
		})
		if counts := c.shard.counts; n > 0 || counts.wrong() > 0 || counts.Received != uint64(i) { //nolint:gosec // a count
			t.Errorf("%s: %v allocations, %d frames, %+v", protocol, n, i, counts)
		}
	}
}

// BenchmarkFrame measures how long it takes to record a frame of one publication.
func BenchmarkFrame(b *testing.B) {
	for _, protocol := range []string{JSON, Protobuf} {
		b.Run(protocol, func(b *testing.B) {
			g, c := newReader(b, protocol)
			all, i := frames(g, 4096), 0
			b.ReportAllocs()
			for b.Loop() {
				if i == len(all) {
					i, c.shard.received = 0, delivery.NewSet(1)
				}
				g.recordFrame(nil, c, all[i])
				i++
			}
			if counts := c.shard.counts; counts.wrong() > 0 || counts.Received == 0 {
				b.Fatalf("%+v", counts)
			}
		})
	}
}
