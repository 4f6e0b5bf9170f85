package eventloop_test

import (
	"runtime"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/sluice-push/sluice/internal/buffer"
	"github.com/sluice-push/sluice/internal/eventloop"
	"github.com/sluice-push/sluice/internal/testwait"
)

// member is a socket whose bytes are read and discarded, or given to handle.
type member struct {
	sync.Mutex
	reg    eventloop.Registration[*member]
	loop   *eventloop.Loop[*member]
	fd     int32
	handle func(events eventloop.Events) // called in Dispatch; may block

	handedOff atomic.Int32 // calls of HandedOff
	ended     chan bool    // a value for each call of DispatchEnded
	returned  chan bool    // a value when Dispatch returns after it has lost the loop
}

func (m *member) Registration() *eventloop.Registration[*member] { return &m.reg }

func (m *member) Dispatch(_ *eventloop.Thread[*member], events eventloop.Events) {
	m.Lock()
	if m.reg.Offloaded || events&eventloop.PeerEnd != 0 { // the test is over
		m.Unlock()
		return
	}
	m.reg.OnLoop = true
	m.Unlock()
	for p := make([]byte, 100); ; {
		if n, _ := syscall.Read(int(m.fd), p); n <= 0 {
			break
		}
	}
	m.handle(events)
	m.Lock()
	lost := m.reg.Offloaded
	m.reg.OnLoop, m.reg.Offloaded = false, false
	m.Unlock()
	if lost {
		m.returned <- true
	}
}

func (m *member) HandedOff()      { m.handedOff.Add(1) }
func (m *member) UpdateInterest() {}

func (m *member) DispatchEnded() {
	m.Lock()
	m.reg.OnLoop, m.reg.Offloaded = false, false
	m.Unlock()
	m.ended <- true
}

// place is a loop with a goroutine that calls CheckStall.
type place struct {
	t       *testing.T
	loop    *eventloop.Loop[*member]
	members []*member
	began   time.Time
}

func newPlace(t *testing.T) *place {
	p := &place{t: t, began: time.Now()}
	ticker := eventloop.NewTicker(eventloop.StallTick, func() bool { return p.loop.CheckStall() }, func() bool { return !p.loop.Fired() })
	var err error
	p.loop, err = eventloop.New[*member](&eventloop.Config{
		Clock: p.clock, Pools: buffer.NewPools(0), OnStall: ticker.Start,
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		for _, m := range p.members {
			m.Lock()
			p.loop.Remove(&m.reg, m.fd)
			_ = syscall.Close(int(m.fd))
			p.loop.Unregister(&m.reg)
			m.Unlock()
		}
		p.loop.Stop()
		testwait.Return(t, p.loop.Wait)
		ticker.Stop()
		testwait.Return(t, ticker.Wait)
	})
	return p
}

func (p *place) clock() int64 { return int64(time.Since(p.began)) + 1 }

// add adds a member, and returns it with a function that sends it a byte.
func (p *place) add(handle func(m *member, events eventloop.Events)) (m *member, send func()) {
	p.t.Helper()
	a, b := pair(p.t)
	fd, err := syscall.Dup(a)
	if err != nil {
		p.t.Fatal(err)
	}
	m = &member{loop: p.loop, fd: int32(fd), ended: make(chan bool, 10), returned: make(chan bool, 10)}
	m.handle = func(events eventloop.Events) { handle(m, events) }
	p.members = append(p.members, m)
	p.loop.Register(m)
	m.Lock()
	defer m.Unlock()
	if err := p.loop.Add(&m.reg, m.fd, eventloop.In|eventloop.PeerEnd|eventloop.Edge); err != nil {
		p.t.Fatal(err)
	}
	return m, func() { write(p.t, b, "x") }
}

// Members are dispatched for bytes, posts and timers.
func TestLoopDispatches(t *testing.T) {
	p := newPlace(t)
	got := make(chan eventloop.Events, 10)
	m, send := p.add(func(_ *member, events eventloop.Events) { got <- events })
	for range 3 {
		send()
		if e := testwait.Receive(t, got); e&eventloop.In == 0 {
			t.Errorf("events %#x after a byte", e)
		}
		p.loop.Post(&m.reg)
		if e := testwait.Receive(t, got); e != eventloop.Posted {
			t.Errorf("events %#x after a post", e)
		}
		due := p.clock() + int64(30*time.Millisecond)
		p.loop.SetTimer(&m.reg, due+int64(time.Hour))
		p.loop.SetTimer(&m.reg, due) // an earlier one replaces it
		if e := testwait.Receive(t, got); e != eventloop.TimerFired || p.clock() < due {
			t.Errorf("events %#x from a timer", e)
		}
	}
}

// A member that blocks loses the loop, and the others are dispatched meanwhile. It does not block others again until it has returned.
func TestLoopIsHandedOff(t *testing.T) {
	p := newPlace(t)
	blocked, release, served := make(chan bool), make(chan bool), make(chan bool, 1)
	m, block := p.add(func(*member, eventloop.Events) {
		blocked <- true
		testwait.Hold(t, release)
	})
	_, send := p.add(func(*member, eventloop.Events) { served <- true })
	for range 3 {
		before := m.handedOff.Load()
		block()
		testwait.Receive(t, blocked)
		for range 5 {
			send()
			testwait.Receive(t, served)
		}
		for m.handedOff.Load() == before { // it is called after the hand-off
			runtime.Gosched()
		}
		if m.handedOff.Load() != before+1 {
			t.Errorf("handed off %d times", m.handedOff.Load()-before)
		}
		m.Lock()
		if !m.reg.Offloaded || !m.reg.Offload.Offloaded(p.loop.Offload(), p.clock()) {
			t.Error("the member is not offloaded")
		}
		m.Unlock()
		release <- true
		testwait.Receive(t, m.returned)
	}
}

// Two members that block within a second offload all members.
func TestLoopOffloadsAll(t *testing.T) {
	p := newPlace(t)
	blocked, release := make(chan bool, 2), make(chan bool)
	for range 2 {
		m, block := p.add(func(*member, eventloop.Events) {
			blocked <- true
			testwait.Hold(t, release)
		})
		block()
		testwait.Receive(t, blocked)
		for m.handedOff.Load() == 0 {
			runtime.Gosched()
		}
	}
	close(release)
	if m, _ := p.add(func(*member, eventloop.Events) {}); !m.reg.Offload.Offloaded(p.loop.Offload(), p.clock()) {
		t.Error("another member is not offloaded")
	}
}

// A member that hands the loop off before it waits does not wait for the watchdog, and keeps no thread.
func TestRelease(t *testing.T) {
	p := newPlace(t)
	released, served, release := make(chan bool), make(chan bool, 1), make(chan bool)
	m, block := p.add(func(m *member, _ eventloop.Events) {
		m.Lock()
		first, second := m.loop.Release(m), m.loop.Release(m)
		m.Unlock()
		released <- first && !second
		testwait.Hold(t, release)
	})
	_, send := p.add(func(*member, eventloop.Events) { served <- true })
	block()
	if !testwait.Receive(t, released) {
		t.Error("not released, or twice")
	}
	send()
	testwait.Receive(t, served)
	if n := m.handedOff.Load(); n != 0 {
		t.Errorf("HandedOff was called %d times", n)
	}
	release <- true
}

// A loop goes on when a member ends the goroutine, before and after it has lost the loop.
func TestDispatchEnds(t *testing.T) {
	p := newPlace(t)
	served := make(chan bool, 1)
	_, send := p.add(func(*member, eventloop.Events) { served <- true })
	for _, releases := range []bool{false, true, false} {
		m, end := p.add(func(m *member, _ eventloop.Events) {
			if releases {
				m.Lock()
				m.loop.Release(m)
				m.Unlock()
			}
			runtime.Goexit()
		})
		end()
		testwait.Receive(t, m.ended)
		send()
		testwait.Receive(t, served)
	}
}
