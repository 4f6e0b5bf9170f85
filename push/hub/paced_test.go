package hub_test

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/sluice-push/sluice/internal/testwait"
	"github.com/sluice-push/sluice/push"
	"github.com/sluice-push/sluice/push/channel"
	"github.com/sluice-push/sluice/push/hub"
	"github.com/sluice-push/sluice/push/pace"
	"github.com/sluice-push/sluice/timingwheel"
)

// tick is more than the tick of package timers.
const tick = 5 * time.Millisecond

// pacedHub returns a hub whose time stands still.
func pacedHub(t *testing.T, o hub.Options, change func(*hub.Namespace)) (*hub.Hub, *timingwheel.FakeClock) {
	clock := timingwheel.NewFakeClock(time.Now())
	ns := spaces(push.History{Size: 1000})
	for i := range ns {
		if change != nil {
			change(&ns[i])
		}
	}
	o.Clock = clock
	return newHub(t, newBroker(t), ns, &o), clock
}

// data returns what a carrier has got of each publication.
func (c *carrier) data() []string { return contents(nil, c.taken()) }

// has waits until a carrier has got exactly this, and until the pacer has taken notice: otherwise it would do so at a later time, if the test
// moves the clock next. A timer that is set when its time has just passed fires when the clock is advanced next, by nothing if need be.
func has(t *testing.T, clock *timingwheel.FakeClock, c *carrier, want ...string) {
	t.Helper()
	testwait.True(t, fmt.Sprintf("it has %v", want), func() bool {
		clock.Advance(0)
		return len(c.data()) >= len(want)
	})
	if got := c.data(); !slices.Equal(got, want) {
		t.Fatalf("the client got %v, not %v", got, want)
	}
	c.session.Load().Waiting() // the lock is held from before a write until after the pacer has taken notice
}

// waits waits until so many subscriptions of a session wait in its pacer. That another session has got a publication does not say that the
// pacer of this one knows of it.
func waits(t *testing.T, s *hub.Session, n int) {
	t.Helper()
	testwait.True(t, fmt.Sprintf("%d subscriptions wait", n), func() bool { return s.Waiting() == n })
}

// isAt waits until the newest that a carrier has got is this.
func isAt(t *testing.T, c *carrier, want string) {
	t.Helper()
	testwait.True(t, "it has "+want, func() bool {
		got := c.data()
		return len(got) > 0 && got[len(got)-1] == want
	})
}

// A subscription with an interval is served once in it, with what is newest then; others of the channel at once.
func TestInterval(t *testing.T) {
	h, clock := pacedHub(t, hub.Options{}, nil)
	slow, quick := newCarrier(t, open, false), newCarrier(t, open, false)
	s := slow.connect(h, client("slow"))
	if told := subscribe(t, s, hub.SubscribeRequest{Channel: "value:x", Interval: time.Second}); told.Interval != time.Second {
		t.Errorf("the interval is %v", told.Interval)
	}
	subscribe(t, quick.connect(h, client("quick")), hub.SubscribeRequest{Channel: "value:x"})
	publishN(t, h, "value:x", 1, 5)
	isAt(t, quick, "5")
	waits(t, s, 1)
	has(t, clock, slow)
	clock.Advance(time.Second - tick)
	publishN(t, h, "value:x", 6, 1)
	isAt(t, quick, "6")
	has(t, clock, slow)
	clock.Advance(2 * tick)
	has(t, clock, slow, "6")
	publishN(t, h, "value:x", 7, 2)
	isAt(t, quick, "8")
	waits(t, s, 1)
	has(t, clock, slow, "6")
	clock.Advance(2 * time.Second)
	has(t, clock, slow, "6", "8")
	clock.Advance(time.Second + tick)
	publishN(t, h, "value:x", 9, 1) // longer than its interval after the last: at once
	has(t, clock, slow, "6", "8", "9")
}

// In a stream nothing is left out: what comes within an interval comes together.
func TestIntervalStream(t *testing.T) {
	h, clock := pacedHub(t, hub.Options{}, nil)
	c, other := newCarrier(t, open, false), newCarrier(t, open, false)
	s := c.connect(h, client("c"))
	subscribe(t, s, hub.SubscribeRequest{Channel: "stream:x", Interval: time.Second})
	subscribe(t, other.connect(h, client("other")), hub.SubscribeRequest{Channel: "stream:x"})
	publishN(t, h, "stream:x", 1, 20)
	testwait.True(t, "the other has all", func() bool { return len(other.data()) == 20 })
	waits(t, s, 1)
	has(t, clock, c)
	clock.Advance(time.Second + tick)
	has(t, clock, c, numbers(1, 20)...)
	if n := c.calls(); n > 2 {
		t.Errorf("20 publications came in %d writes", n)
	}
}

// What a client asks for is limited by its namespace, and can be changed while it is subscribed.
func TestSetInterval(t *testing.T) {
	h, clock := pacedHub(t, hub.Options{}, func(n *hub.Namespace) {
		n.Interval, n.MinInterval = 200*time.Millisecond, 50*time.Millisecond
	})
	c := newCarrier(t, open, false)
	s := c.connect(h, client("c"))
	for i, tt := range []struct{ asked, want time.Duration }{
		{0, 200 * time.Millisecond}, {-1, 50 * time.Millisecond}, {time.Millisecond, 50 * time.Millisecond}, {time.Minute, time.Minute},
	} {
		name := fmt.Sprintf("value:%d", i)
		if told := subscribe(t, s, hub.SubscribeRequest{Channel: name, Interval: tt.asked}); told.Interval != tt.want {
			t.Errorf("asked for %v: %v, not %v", tt.asked, told.Interval, tt.want)
		}
		if got, err := s.SetInterval(name, tt.asked); err != nil || got != tt.want {
			t.Errorf("asked for %v later: %v, %v, not %v", tt.asked, got, err, tt.want)
		}
	}
	if _, err := s.SetInterval("value:none", 0); err == nil {
		t.Error("no error for a channel that it is not subscribed to")
	}
	publishN(t, h, "value:3", 1, 3)
	settle(t, h, "value:3")
	waits(t, s, 1)
	clock.Advance(100 * time.Millisecond)
	has(t, clock, c)
	if _, err := s.SetInterval("value:3", -1); err != nil {
		t.Fatal(err)
	}
	has(t, clock, c, "3")
}

// A client gets as many bytes as its bandwidth allows in the time, whatever is published, and at last everything.
func TestBandwidth(t *testing.T) {
	const bandwidth, each = 1000, 40
	h, clock := pacedHub(t, hub.Options{Bandwidth: bandwidth}, nil)
	c, other := newCarrier(t, open, false), newCarrier(t, open, false)
	c.encoder, other.encoder = text{}, text{}
	s := c.connect(h, client("c"))
	subscribe(t, s, hub.SubscribeRequest{Channel: "stream:x"})
	o := other.connect(h, client("other"))
	if got := o.SetBandwidth(1 << 40); got != bandwidth {
		t.Fatalf("the bandwidth is %d, more than the hub allows", got)
	}
	want := []string{}
	for i := range 100 {
		want = append(want, fmt.Sprintf("%0*d", each, i))
		publish(t, h, "stream:x", push.Publication{Data: []byte(want[i])})
	}
	settle(t, h, "stream:x")
	size := len(fmt.Sprintf("put stream:x %d %d %q %s", 10, 10, "", want[0]))
	for i := range 20 {
		most := bandwidth*(i+1)/10/size + 3 // a tenth of a second's more, the last one, and shorter ones with a digit less
		if n := len(c.data()); n > most {
			t.Fatalf("after %d ms it has %d publications of %d bytes", i*100, n, size)
		}
		clock.Advance(100 * time.Millisecond)
	}
	testwait.True(t, "it has everything", func() bool {
		clock.Advance(100 * time.Millisecond)
		return len(c.data()) == len(want)
	})
	if got := c.data(); !slices.Equal(got, want) {
		t.Error("it did not get them in order")
	}
}

// When the bound is lifted what waits comes at once; and a table comes as it is then.
func TestSetBandwidth(t *testing.T) {
	h, clock := pacedHub(t, hub.Options{}, nil)
	c := newCarrier(t, open, false)
	o := client("c")
	o.Bandwidth = 1
	s := c.connect(h, o)
	subscribe(t, s, hub.SubscribeRequest{Channel: "table:x"})
	publish(t, h, "table:x", push.Publication{Key: "a", Data: []byte("0")})
	has(t, clock, c, "0") // into debt by one
	for i := range 10 {
		publish(t, h, "table:x", push.Publication{Key: fmt.Sprint("k", i%2), Data: fmt.Append(nil, i)})
	}
	settle(t, h, "table:x")
	waits(t, s, 1)
	has(t, clock, c, "0")
	if got := s.SetBandwidth(0); got != 0 {
		t.Errorf("the bandwidth is %d", got)
	}
	has(t, clock, c, "0", "8", "9")
}

// Where the bandwidth does not suffice the higher priority goes first.
func TestPriority(t *testing.T) {
	h, clock := pacedHub(t, hub.Options{}, func(n *hub.Namespace) {
		if n.Mode == push.Value {
			n.Priority = 9
		}
	})
	c := newCarrier(t, open, false)
	o := client("c")
	o.Bandwidth = 100
	s := c.connect(h, o)
	for _, name := range []string{"table:x", "value:x"} {
		subscribe(t, s, hub.SubscribeRequest{Channel: name})
	}
	publishN(t, h, "table:x", 1, 1)
	has(t, clock, c, "1") // 20 bytes: it is in debt for a fifth of a second
	publishN(t, h, "table:x", 2, 1)
	waits(t, s, 1)
	publishN(t, h, "value:x", 3, 1)
	waits(t, s, 2)
	clock.Advance(time.Second / 5)
	has(t, clock, c, "1", "3")
	clock.Advance(time.Second / 5)
	has(t, clock, c, "1", "3", "2")
}

// A stalled client with an interval gets what is newest when it reads again, and a session that ends leaves no timer.
func TestIntervalStalled(t *testing.T) {
	h, clock := pacedHub(t, hub.Options{}, nil)
	c := newCarrier(t, shut, false)
	s := c.connect(h, client("c"))
	subscribe(t, s, hub.SubscribeRequest{Channel: "value:x", Interval: time.Second})
	publishN(t, h, "value:x", 1, 3)
	testwait.True(t, "it refuses", func() bool {
		clock.Advance(time.Second / 10)
		c.mu.Lock()
		defer c.mu.Unlock()
		return c.refused
	})
	publishN(t, h, "value:x", 4, 3)
	settle(t, h, "value:x")
	clock.Advance(5 * time.Second)
	c.open(open)
	has(t, clock, c, "6")
	publishN(t, h, "value:x", 7, 1)
	settle(t, h, "value:x")
	s.Close()
	clock.Advance(5 * time.Second)
	has(t, clock, c, "6")
}

// A change of pace applies on all nodes to the clients of its target, also while another goroutine holds the session's lock.
func TestPace(t *testing.T) {
	c := newCrowd(t)
	d, bandwidth := time.Hour, int64(500)
	must(t, c.hubs[0].Pace(testwait.Context(t), hub.Target{User: "a"}, "stream:x", pace.Bounds{Interval: &d, Bandwidth: &bandwidth}))
	for name, k := range c.carriers {
		want := int64(0)
		if name[0] == 'a' {
			want = bandwidth
		}
		s := k.session.Load()
		testwait.True(t, fmt.Sprintf("%s has its bandwidth", name), func() bool { return s.Bandwidth() == want })
	}
	unbounded := int64(0)
	must(t, c.hubs[1].Pace(testwait.Context(t), hub.Target{User: "a"}, "", pace.Bounds{Bandwidth: &unbounded}))
	publishN(t, c.hubs[0], "stream:x", 1, 1)
	for _, name := range []string{"b1", "x1"} {
		k := c.carriers[name]
		testwait.True(t, name+" has it", func() bool { return len(k.data()) == 1 })
	}
	for _, name := range []string{"a1", "a2"} { // they were served when they subscribed to it
		if got := c.carriers[name].data(); len(got) > 1 {
			t.Errorf("%s got %v within its interval", name, got)
		}
	}
	if err := c.hubs[0].Pace(testwait.Context(t), hub.Target{User: "a"}, "", pace.Bounds{Interval: &d}); err == nil {
		t.Error("no error for an interval without a channel")
	}
	if err := c.hubs[0].Pace(testwait.Context(t), hub.Target{}, "", pace.Bounds{Bandwidth: &unbounded}); err == nil {
		t.Error("no error for nobody")
	}
}

// Each of many changes of pace applies to its own channel, also while the session is locked; of several for one channel the newest applies.
func TestPaceManyChannels(t *testing.T) {
	const channels = 100
	h := newHub(t, newBroker(t), spaces(push.History{Size: 10}), nil)
	entered, release := make(chan struct{}), make(chan struct{})
	c := newCarrier(t, open, false)
	s := c.connect(h, client("a"))
	name := func(i int) string { return fmt.Sprintf("stream:%d", i) }
	for i := range channels {
		subscribe(t, s, hub.SubscribeRequest{Channel: name(i)})
	}
	blocked := make(chan error, 1)
	go func() {
		blocked <- s.Subscribe(testwait.Context(t), hub.SubscribeRequest{Channel: "stream:last"}, func(hub.Subscribed) error {
			close(entered)
			testwait.Hold(t, release)
			return nil
		})
	}()
	testwait.Receive(t, entered)
	for i := range channels {
		for _, d := range []time.Duration{0, time.Hour} {
			must(t, h.Pace(testwait.Context(t), hub.Target{User: "user of a"}, name(i), pace.Bounds{Interval: &d}))
		}
	}
	last := int64(1 << 30)
	must(t, h.Pace(testwait.Context(t), hub.Target{User: "user of a"}, "", pace.Bounds{Bandwidth: &last}))
	close(release)
	must(t, testwait.Receive(t, blocked))
	testwait.True(t, "all changes are applied", func() bool { return s.Bandwidth() == last })
	for i := range channels {
		publishN(t, h, name(i), 1, 1)
		testwait.True(t, "the first comes at once", func() bool { return len(c.data()) > i })
		publishN(t, h, name(i), 2, 1) // which comes in an hour
		settle(t, h, name(i))
	}
	if got := c.data(); len(got) > channels {
		t.Errorf("of %d channels %d publications came", channels, len(got))
	}
}

// A change of pace for a session that has ended is not kept.
func TestPaceEnded(t *testing.T) {
	h := newHub(t, newBroker(t), spaces(push.History{Size: 10}), nil)
	bandwidth := int64(500)
	for i := range 100 {
		o := client(fmt.Sprint(i))
		s := newCarrier(t, open, false).connect(h, o)
		done := make(chan error, 1)
		go func() {
			done <- h.Pace(testwait.Context(t), hub.Target{User: o.Info.User}, "", pace.Bounds{Bandwidth: &bandwidth})
		}()
		s.Close()
		must(t, testwait.Receive(t, done))
	}
	must(t, h.Close())
	if n := h.Changes(); n != 0 {
		t.Errorf("%d changes are left", n)
	}
}

// What an answer has no room for follows at once: the interval begins when the client has all there was.
func TestIntervalLargeAnswer(t *testing.T) {
	h, clock := pacedHub(t, hub.Options{}, nil)
	from := publishN(t, h, "stream:x", 1, 1)
	publishN(t, h, "stream:x", 2, 700)
	publishN(t, h, "value:x", 1, 1)
	settle(t, h, "stream:x")
	settle(t, h, "value:x")
	c := newCarrier(t, open, false)
	s := c.connect(h, client("c"))
	told := subscribe(t, s, hub.SubscribeRequest{Channel: "stream:x", Since: &from, Interval: time.Minute})
	if !told.Recovered || len(told.Deliveries) == 700 {
		t.Fatalf("%d were in the answer", len(told.Deliveries))
	}
	testwait.True(t, "it has the rest", func() bool { return len(c.data()) == 700-len(told.Deliveries) })
	none := channel.Budget{Entries: -1}
	if told := subscribe(t, s, hub.SubscribeRequest{Channel: "value:x", Interval: time.Minute, Budget: none}); len(told.Deliveries) != 0 {
		t.Fatal("the answer has what nobody asked for")
	}
	testwait.True(t, "it has the value", func() bool { return len(c.data()) == 700-len(told.Deliveries)+1 })
	publishN(t, h, "value:x", 2, 1)
	settle(t, h, "value:x")
	clock.Advance(30 * time.Second)
	if n := len(c.data()); n != 700-len(told.Deliveries)+1 {
		t.Errorf("%d within the interval", n)
	}
}
