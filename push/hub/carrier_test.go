package hub_test

import (
	"fmt"
	"math/rand/v2"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/sluice-push/sluice/push"
	"github.com/sluice-push/sluice/push/channel"
	"github.com/sluice-push/sluice/push/hub"
)

// text is the encoder of the tests: "put CHANNEL OFFSET KEY DATA", "gone CHANNEL OFFSET KEY", "end CHANNEL CODE".
type text struct{}

func (text) AppendPublication(dst []byte, name string, d *channel.Delivery) []byte {
	if d.Kind == channel.Gone {
		return fmt.Appendf(dst, "gone %s %d %q", name, d.Entry.Offset, d.Entry.Key)
	}
	return fmt.Appendf(dst, "put %s %d %q %s", name, d.Entry.Offset, d.Entry.Key, d.Entry.Data)
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
	at      push.Position
}

func parse(f hub.Frame) (frame, error) {
	fields := strings.SplitN(string(f.Bytes), " ", 5)
	if len(fields) < 3 || fields[1] != f.Channel {
		return frame{}, fmt.Errorf("frame %q of channel %q", f.Bytes, f.Channel)
	}
	out := frame{kind: fields[0], channel: fields[1], at: f.At}
	var err error
	out.offset, err = strconv.ParseUint(fields[2], 10, 64)
	if len(fields) > 3 && err == nil {
		out.key, err = strconv.Unquote(fields[3])
	}
	if len(fields) > 4 {
		out.data = fields[4]
	}
	return out, err
}

// carrier is a connection with a gate. It takes as many of the frames offered as its gate says, and calls Flush once, from another
// goroutine, when it opens again after a refusal, as a socket does.
type carrier struct {
	t       testing.TB
	session atomic.Pointer[hub.Session]
	inside  atomic.Int32
	reopen  chan struct{} // a refusal of a gate that opens by itself

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
	c := &carrier{t: t, gate: g}
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
			<-ended
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
		f, err := parse(raw)
		if err != nil {
			c.t.Error(err)
		}
		if c.sink != nil {
			c.sink(f)
			continue
		}
		c.frames = append(c.frames, f)
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
	s, err := h.Connect(c, text{}, o)
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
	must(t, s.Subscribe(testContext(t), r, func(a hub.Subscribed) error { got = a; return nil }))
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
