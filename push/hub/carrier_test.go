package hub_test

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/sluice-push/sluice/internal/testwait"
	"github.com/sluice-push/sluice/push"
	"github.com/sluice-push/sluice/push/channel"
	"github.com/sluice-push/sluice/push/hub"
	"github.com/sluice-push/sluice/push/presence"
)

// text is the encoder of the tests: "put CHANNEL OFFSET POSITION KEY DATA", "gone CHANNEL OFFSET POSITION KEY", "end CHANNEL CODE", and
// "fossil CHANNEL OFFSET POSITION KEY DIFFERENCE" or "merge …". Differences are quoted. Several
// publications in a frame, where it has room for them, are lines. A put that tells of a loss is a put+5, or a put-1.
type text struct{ room int }

// roomy is the encoder of most tests; text{} gives each publication a frame.
var roomy = text{300}

func (t text) FrameBytes() int { return t.room }

func (t text) AppendPublications(dst []byte, to hub.Address, deliveries []channel.Delivery) []byte {
	if len(deliveries) == 0 || t.room == 0 && len(deliveries) > 1 {
		panic(fmt.Sprintf("%d publications in a frame of %s", len(deliveries), to.Channel))
	}
	name := to.Channel
	if to.Number != 0 {
		name = fmt.Sprintf("#%d", to.Number)
	}
	for i := range deliveries {
		if i > 0 {
			dst = append(dst, '\n')
		}
		d := &deliveries[i]
		if to.IsJoins {
			event := presence.EventOf(to.Channel, &d.Entry.Publication)
			kind := "join"
			if event.Left {
				kind = "leave"
			}
			dst = fmt.Appendf(dst, "%s %s %d 0 %q %s", kind, name, d.Entry.Offset, event.Client.Client, event.Client.ChanInfo)
			continue
		}
		if d.Kind == channel.Gone {
			dst = fmt.Appendf(dst, "gone %s %d %d %q", name, d.Entry.Offset, d.Offset, d.Entry.Key)
			continue
		}
		if diff := d.Change.Diff(to.Delta); diff != nil {
			dst = fmt.Appendf(dst, "%v %s %d %d %q %q", to.Delta, name, d.Entry.Offset, d.Offset, d.Entry.Key, diff)
			continue
		}
		kind := "put"
		if d.Lost != 0 {
			kind = fmt.Sprintf("put%+d", d.Lost)
		}
		dst = fmt.Appendf(dst, "%s %s %d %d %q %s", kind, name, d.Entry.Offset, d.Offset, d.Entry.Key, d.Entry.Data)
	}
	return dst
}

func (text) AppendUnsubscribe(dst []byte, name string, u push.Unsubscribe) []byte {
	return fmt.Appendf(dst, "end %s %d", name, u.Code)
}

// frame is what text wrote, read back.
type frame struct {
	kind    string
	channel string
	offset  uint64 // of the entry; the code of an end
	key     string
	data    string
	form    push.Delta // in which data is the difference to what was there before
	lost    int64      // how many are lost before it
	at      push.Position
}

func parse(f hub.Frame) ([]frame, error) {
	var out []frame
	for line := range strings.SplitSeq(string(f.Bytes), "\n") {
		fields := strings.SplitN(line, " ", 6)
		if len(fields) < 3 || fields[1] != f.Channel {
			return nil, fmt.Errorf("frame %q of channel %q", f.Bytes, f.Channel)
		}
		one := frame{kind: fields[0], channel: fields[1]}
		var err, err2, err3, err4 error
		one.offset, err = strconv.ParseUint(fields[2], 10, 64)
		if lost := strings.TrimPrefix(one.kind, "put"); lost != one.kind && lost != "" {
			one.kind = "put"
			one.lost, err4 = strconv.ParseInt(lost, 10, 64)
		}
		if len(fields) > 4 {
			one.at.Offset, err2 = strconv.ParseUint(fields[3], 10, 64)
			one.key, err3 = strconv.Unquote(fields[4])
		}
		if err := errors.Join(err, err2, err3, err4); err != nil {
			return nil, err
		}
		if one.at.Offset != 0 {
			one.at.Epoch = f.At.Epoch
		}
		if len(fields) > 5 {
			one.data = fields[5]
		}
		if form, ok := push.ParseDelta(one.kind); ok {
			one.kind, one.form = "put", form
			if one.data, err = strconv.Unquote(one.data); err != nil {
				return nil, err
			}
		}
		out = append(out, one)
	}
	publications := len(out)
	last := out[publications-1]
	if last.kind == "end" {
		publications = 0
	}
	if last.at != f.At || publications != f.Publications {
		return nil, fmt.Errorf("frame %q of %d publications at %v", f.Bytes, f.Publications, f.At)
	}
	return out, nil
}

// carrier is a connection with a gate. It takes as many of the frames offered as its gate says, and calls Flush once, from another
// goroutine, when it opens again after a refusal, as a socket does.
type carrier struct {
	t       testing.TB
	session atomic.Pointer[hub.Session]
	inside  atomic.Int32
	batches atomic.Int32  // calls of TryWriteAll
	reopen  chan struct{} // a refusal of a gate that opens by itself
	encoder text          // set before it connects, as is alone
	alone   bool          // it is no BatchWriter

	mu      sync.Mutex
	gate    gate
	broken  bool // taking nothing any more, and never saying that there is room
	refused bool
	asked   int // calls of TryWrite
	frames  []frame
	ends    []push.Disconnect
	sink    func(frame) // called with each frame taken, under mu; nil: frames are kept
}

// gate says how many of the frames offered are taken.
type gate func(offered int) int

func open(offered int) int { return offered }

func shut(int) int { return 0 }

// dribble takes a random number of frames each time.
func dribble(rng *rand.Rand) gate {
	return func(offered int) int { return min(rng.IntN(8), offered) }
}

// newCarrier returns a carrier whose gate opens by itself some time after each refusal when itself is set; otherwise the test does it.
func newCarrier(t testing.TB, g gate, itself bool) *carrier {
	c := &carrier{t: t, gate: g, encoder: roomy}
	if itself {
		c.reopen = make(chan struct{}, 1)
		done, ended := make(chan struct{}), make(chan struct{})
		go func() {
			defer close(ended)
			for {
				select {
				case <-c.reopen:
					c.room()
				case <-done:
					return
				}
			}
		}()
		t.Cleanup(func() {
			close(done)
			testwait.Receive(t, ended)
		})
	}
	return c
}

func (c *carrier) TryWrite(frames []hub.Frame) int {
	if c.inside.Add(1) != 1 {
		c.t.Error("TryWrite was called while it was running")
	}
	defer c.inside.Add(-1)
	c.mu.Lock()
	defer c.mu.Unlock()
	c.asked++
	if c.broken {
		return 0
	}
	n := c.gate(len(frames))
	for _, raw := range frames[:n] {
		pubs, err := parse(raw)
		if err != nil {
			c.t.Error(err)
		}
		for _, f := range pubs {
			if c.sink != nil {
				c.sink(f)
				continue
			}
			c.frames = append(c.frames, f)
		}
	}
	if n < len(frames) && !c.refused {
		c.refused = true
		select {
		case c.reopen <- struct{}{}:
		default: // nil: the test opens it
		}
	}
	return n
}

// TryWriteAll offers each its frame, from the last to the first.
func (c *carrier) TryWriteAll(offers []hub.Offer) {
	c.batches.Add(1)
	if len(offers) > hub.Chunk {
		c.t.Errorf("a batched write of %d", len(offers))
	}
	for i := range slices.Backward(offers) {
		offers[i].Taken = offers[i].Carrier.TryWrite([]hub.Frame{*offers[i].Frame}) == 1
	}
}

// loner hides that its carrier can be served together with others.
type loner struct{ hub.Carrier }

func (c *carrier) Disconnect(d push.Disconnect) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.ends = append(c.ends, d)
}

// shut has the carrier take nothing from now on.
func (c *carrier) shut() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.gate = shut
}

// open changes the gate. A carrier that refused says that it can take more.
func (c *carrier) open(g gate) {
	c.mu.Lock()
	c.gate = g
	c.mu.Unlock()
	c.room()
}

// room calls Flush if there was a refusal since it was last called.
func (c *carrier) room() {
	c.mu.Lock()
	refused := c.refused
	c.refused = false
	c.mu.Unlock()
	if s := c.session.Load(); refused && s != nil {
		s.Flush()
	}
}

func (c *carrier) taken() []frame {
	c.mu.Lock()
	defer c.mu.Unlock()
	return append([]frame(nil), c.frames...)
}

func (c *carrier) disconnects() []push.Disconnect {
	c.mu.Lock()
	defer c.mu.Unlock()
	return append([]push.Disconnect(nil), c.ends...)
}

func (c *carrier) calls() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.asked
}

// connect makes a session of a carrier, which is closed at the end of the test.
func (c *carrier) connect(h *hub.Hub, o hub.SessionOptions) *hub.Session {
	c.t.Helper()
	var as hub.Carrier = c
	if c.alone {
		as = loner{c}
	}
	s, err := h.Connect(as, c.encoder, o)
	must(c.t, err)
	c.session.Store(s)
	c.t.Cleanup(s.Close)
	return s
}

// client names a client.
func client(name string) hub.SessionOptions {
	return hub.SessionOptions{Info: push.ClientInfo{Client: name, User: "user of " + name}}
}

// subscribe subscribes and returns the answer.
func subscribe(t testing.TB, s *hub.Session, r hub.SubscribeRequest) hub.Subscribed {
	t.Helper()
	var got hub.Subscribed
	must(t, s.Subscribe(testwait.Context(t), r, func(a hub.Subscribed) error { got = a; return nil }))
	return got
}

// contents returns the data of deliveries and frames one after the other.
func contents(deliveries []channel.Delivery, frames []frame) []string {
	var out []string
	for _, d := range deliveries {
		out = append(out, string(d.Entry.Data))
	}
	for _, f := range frames {
		out = append(out, f.data)
	}
	return out
}

// numbers returns n numbers from first on, as publishN publishes them.
func numbers(first, n int) []string {
	var out []string
	for i := range n {
		out = append(out, strconv.Itoa(first+i))
	}
	return out
}
