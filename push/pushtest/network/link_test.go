package network_test

import (
	"bytes"
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/sluice-push/sluice/push/pushtest/network"
)

// chunk is how many bytes a model takes at once.
const chunk = 4 << 10

// model is a link with its history.
type model struct {
	t    *rapid.T
	link *network.Link
	way  network.Way
	now  time.Duration

	sent, got []byte
	arrived   []time.Duration // by byte
	outgoing  int             // taken and not delivered
	left      []departure
	era       int  // how often the way has changed
	resized   bool // the way has changed, and more bytes may be under way than the buffer holds
}

// departure is a number of bytes that left at once.
type departure struct {
	at  time.Duration
	n   int
	era int
}

func drawWay(t *rapid.T) network.Way {
	return network.Way{
		Delay:     time.Duration(rapid.Int64Range(0, int64(200*time.Millisecond)).Draw(t, "delay")),
		Jitter:    time.Duration(rapid.Int64Range(0, int64(100*time.Millisecond)).Draw(t, "jitter")),
		Bandwidth: rapid.OneOf(rapid.Just(int64(0)), rapid.Int64Range(1, 1_000_000), rapid.Int64Range(1, 10_000_000_000)).Draw(t, "bandwidth"),
		Buffer:    rapid.IntRange(0, 20_000).Draw(t, "buffer"),
	}
}

func (m *model) put() {
	n := min(m.link.Room(), rapid.IntRange(0, 3000).Draw(m.t, "bytes"))
	p := make([]byte, n)
	for i := range p {
		at := len(m.sent)
		p[i] = byte(at*7 + at>>8)
		m.sent, m.arrived = append(m.sent, p[i]), append(m.arrived, m.now)
	}
	m.link.Put(m.now, p)
	clear(p) // it was copied
	if under := len(m.sent) - len(m.got) + m.outgoing; !m.resized && under > m.way.MaxBytes() {
		m.t.Fatalf("%d bytes are under way, %d may be", under, m.way.MaxBytes())
	}
}

// take takes the bytes that may leave now, up to a number. If there are none, it returns the time at which that changes.
func (m *model) take(most int) (next time.Duration) {
	buf := make([]byte, most)
	n, next := m.link.Take(m.now, buf)
	if n == 0 {
		if next <= m.now {
			m.t.Fatalf("at %v it says to ask again at %v", m.now, next)
		}
		return next
	}
	at := len(m.got)
	m.got = append(m.got, buf[:n]...)
	m.outgoing += n
	m.left = append(m.left, departure{m.now, n, m.era})
	for i := at; m.era == 0 && i < at+n && i < len(m.arrived); i++ {
		if m.now < m.arrived[i]+m.way.Delay {
			m.t.Fatalf("byte %d arrived at %v and left at %v, with a delay of %v", i, m.arrived[i], m.now, m.way.Delay)
		}
	}
	return 0
}

// wait advances the time until bytes leave: to the time that the link returned, or, if more bytes are due by then, up to the time for half a
// burst later.
func (m *model) wait(next time.Duration, most int) {
	if next == 0 || next == network.Never {
		return
	}
	latest := next
	if b := m.way.Bandwidth; b > 0 {
		latest += time.Duration(float64(network.Burst(b))/2/float64(b)*1e9) + 2
	}
	for next > 0 {
		m.now = next
		if next = m.take(most); next > latest {
			m.t.Fatalf("nothing left at %v, when something was to; the next time is %v", m.now, next)
		}
	}
}

func (m *model) delivered() {
	m.link.Delivered(m.outgoing)
	m.outgoing = 0
}

// check checks all bytes that have left.
func (m *model) check() {
	if !bytes.Equal(m.got, m.sent) {
		m.t.Fatalf("%d bytes were put in, %d came out, or others", len(m.sent), len(m.got))
	}
	if m.way.Bandwidth == 0 {
		return
	}
	burst := float64(network.Burst(m.way.Bandwidth))
	for i, first := range m.left {
		sum := 0.0
		for _, d := range m.left[i:] {
			if first.era != m.era {
				break // another bandwidth
			}
			sum += float64(d.n)
			if most := float64(m.way.Bandwidth)*(d.at-first.at).Seconds() + burst; sum > most+0.001 {
				m.t.Fatalf("%v bytes left from %v to %v, at most %v may", sum, first.at, d.at, most)
			}
		}
	}
}

// Every byte comes out once and in order, and not before its delay is over. No more bytes are under way than the buffer holds. In no interval
// more bytes leave than the bandwidth carries and one burst. Bytes leave at the time that the link returned. The end comes last.
func TestLink(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		m := &model{t: t, way: drawWay(t)}
		m.link = network.NewLink(m.way, rapid.Uint64().Draw(t, "seed"))
		changes := rapid.Bool().Draw(t, "changes")
		for range rapid.IntRange(1, 80).Draw(t, "steps") {
			switch rapid.IntRange(0, 5).Draw(t, "step") {
			case 0, 1:
				m.put()
			case 2:
				m.now += time.Duration(rapid.Int64Range(0, int64(50*time.Millisecond)).Draw(t, "pause"))
			case 3:
				most := rapid.IntRange(1, chunk).Draw(t, "most")
				m.wait(m.take(most), most)
			case 4:
				m.delivered()
			case 5:
				if changes {
					m.way, m.era, m.resized = drawWay(t), m.era+1, true
					m.link.Change(m.now, m.way)
				}
			}
		}
		m.link.End(m.now, network.Ended)
		for len(m.got) < len(m.sent) {
			if how, _ := m.link.Over(m.now); how != network.Going {
				t.Fatalf("the end came when %d of %d bytes had", len(m.got), len(m.sent))
			}
			next := m.take(chunk)
			if next == network.Never {
				t.Fatalf("%d of %d bytes do not come", len(m.sent)-len(m.got), len(m.sent))
			}
			m.wait(next, chunk)
		}
		if how, _ := m.link.Over(m.now); m.outgoing > 0 && how != network.Going {
			t.Fatal("the end came while bytes were being delivered")
		}
		m.delivered()
		how, next := m.link.Over(m.now)
		if how == network.Going && next != network.Never {
			how, _ = m.link.Over(next)
		}
		if how != network.Ended {
			t.Fatal("the end does not come")
		}
		m.check()
	})
}

// A link that is asked at the times it returns keeps up with its bandwidth.
func TestLinkKeepsUp(t *testing.T) {
	for _, bandwidth := range []int64{1000, 6250, 200_000, 10_000_000} {
		l := network.NewLink(network.Way{Bandwidth: bandwidth, Buffer: 1 << 20}, 1)
		now, left, buf := time.Duration(0), int64(0), make([]byte, chunk)
		for now < 10*time.Second {
			l.Put(now, make([]byte, min(l.Room(), 1<<20)))
			n, next := l.Take(now, buf)
			if l.Delivered(n); n == 0 {
				now = next
			}
			left += int64(n)
		}
		if want := 10 * bandwidth; left < want*99/100 || left > want+int64(network.Burst(bandwidth)) {
			t.Errorf("%d bytes a second: %d in 10 s", bandwidth, left)
		}
	}
}

// Jitter adds to the delay, up to its maximum, and differs each time.
func TestLinkJitter(t *testing.T) {
	const delay, jitter = 30 * time.Millisecond, 40 * time.Millisecond
	var all []time.Duration
	l := network.NewLink(network.Way{Delay: delay, Jitter: jitter}, 1)
	for i := range 1000 {
		now := time.Duration(i) * time.Second
		l.Put(now, []byte{1})
		_, next := l.Take(now, make([]byte, 1))
		if n, _ := l.Take(next, make([]byte, 1)); n != 1 {
			t.Fatal("nothing left")
		}
		l.Delivered(1)
		all = append(all, next-now)
	}
	least, most := slices.Min(all), slices.Max(all)
	if least < delay || least > delay+jitter/10 || most > delay+jitter+time.Millisecond || most < delay+jitter*9/10 {
		t.Errorf("delays of %v to %v", least, most)
	}
}

// Bytes under way do not wait for a delay that was removed.
func TestLinkChange(t *testing.T) {
	l := network.NewLink(network.Way{Delay: time.Hour}, 1)
	l.Put(0, []byte("first"))
	l.End(0, network.Ended)
	l.Change(time.Second, network.Way{Delay: 10 * time.Millisecond})
	buf := make([]byte, 10)
	if n, next := l.Take(time.Second, buf); n != 0 || next != time.Second+10*time.Millisecond {
		t.Fatalf("took %d, next %v", n, next)
	}
	n, _ := l.Take(time.Second+10*time.Millisecond, buf)
	if l.Delivered(n); string(buf[:n]) != "first" {
		t.Fatalf("took %q", buf[:n])
	}
	if how, _ := l.Over(time.Second + 10*time.Millisecond); how != network.Ended {
		t.Error("the end is late")
	}
}

// A reset may follow the end of a stream, and nothing follows a reset.
func TestLinkEnds(t *testing.T) {
	l := network.NewLink(network.Way{}, 1)
	for _, step := range []struct{ end, want network.Ending }{
		{network.Ended, network.Ended}, {network.Broken, network.Broken}, {network.Ended, network.Broken},
	} {
		l.End(0, step.end)
		if how, _ := l.Over(0); how != step.want {
			t.Fatalf("it ends by %d, want %d", how, step.want)
		}
	}
}

// Discarded bytes are gone, and large memory is freed when no bytes are under way.
func TestLinkDiscard(t *testing.T) {
	l := network.NewLink(network.Way{Delay: time.Second}, 1)
	l.Put(0, make([]byte, 100_000))
	if n := l.Discard(); n != 100_000 || l.Memory() > 4<<10 {
		t.Errorf("discarded %d, keeps %d", n, l.Memory())
	}
	if n, next := l.Take(time.Hour, make([]byte, 1)); n != 0 || next != network.Never {
		t.Errorf("took %d, next %v", n, next)
	}
	if n := l.Discard(); n != 0 {
		t.Errorf("discarded %d again", n)
	}
}

// A link through which bytes pass without pause keeps memory for the bytes under way only.
func TestLinkMemory(t *testing.T) {
	l := network.NewLink(network.Way{Delay: 20 * time.Millisecond}, 1)
	buf := make([]byte, chunk)
	for i := range 10_000 {
		now := time.Duration(i) * time.Millisecond
		l.Put(now, make([]byte, 100))
		n, _ := l.Take(now, buf)
		l.Delivered(n)
	}
	if l.Memory() > 16<<10 {
		t.Errorf("%d bytes for 2,000 that are under way", l.Memory())
	}
}
