package gateway_test

import (
	"fmt"
	"io"
	"net"
	"testing"

	"github.com/sluice-push/sluice/internal/testwait"
	"github.com/sluice-push/sluice/push/hub"
)

// other is a carrier of another kind, which takes every second frame.
type other struct {
	hub.Carrier
	offered int
}

func (o *other) TryWrite(frames []hub.Frame) int {
	o.offered++
	return o.offered % 2 * len(frames)
}

// carriers connects n clients, and returns both ends of each when it has nothing else to write.
func (p *place) carriers(n int) (conns []net.Conn, all []hub.Carrier) {
	p.t.Helper()
	for len(all) < n {
		conns = append(conns, p.rawClient())
		c := p.gateway.Carriers()[len(all)]
		testwait.True(p.t, "a client has got its answer", func() bool { return c.TryWrite([]hub.Frame{{Bytes: []byte("a")}}) == 1 })
		skipTo(p.t, conns[len(all)], "a")
		all = append(all, c)
	}
	return conns, all
}

// Each of a batched write's carriers is offered its own frame, and is told of what became of that, whatever the carriers beside it are.
func TestTryWriteAll(t *testing.T) {
	p := newPlace(t, nil)
	const crowd, every = 70, 10 // more than go together
	conns, all := p.carriers(crowd)
	offers := make([]hub.Offer, 0, crowd+crowd/every)
	o := &other{}
	for i, c := range all {
		frame := fmt.Sprintf("frame %d;", i)
		offers = append(offers, hub.Offer{Carrier: c, Frame: &hub.Frame{Bytes: []byte(frame)}, Taken: i%3 == 0})
		if i%every == 0 {
			offers = append(offers, hub.Offer{Carrier: o, Frame: &hub.Frame{}, Taken: i%3 == 0})
		}
	}
	offers[0].Carrier.(hub.BatchWriter).TryWriteAll(offers)
	seen := 0
	for i := range offers {
		want := true
		if offers[i].Carrier == o {
			seen++
			want = seen%2 == 1
		}
		if offers[i].Taken != want {
			t.Errorf("frame %d was taken: %t", i, offers[i].Taken)
		}
	}
	for i, conn := range conns {
		want := fmt.Sprintf("frame %d;", i)
		got := make([]byte, len(want))
		if _, err := io.ReadFull(conn, got); err != nil || string(got) != want {
			t.Errorf("%q, %v, want %q", got, err, want)
		}
	}
	if o.offered != crowd/every {
		t.Errorf("the carrier of another kind was offered %d frames", o.offered)
	}
}

// A batched write allocates nothing.
func TestTryWriteAllAllocates(t *testing.T) {
	p := newPlace(t, nil)
	var offers []hub.Offer
	_, all := p.carriers(3)
	for _, c := range all {
		offers = append(offers, hub.Offer{Carrier: c, Frame: &hub.Frame{Bytes: []byte("a")}})
	}
	if n := testing.AllocsPerRun(100, func() { offers[0].Carrier.(hub.BatchWriter).TryWriteAll(offers) }); n != 0 || !offers[2].Taken {
		t.Errorf("%v allocations, the last was taken: %t", n, offers[2].Taken)
	}
}
