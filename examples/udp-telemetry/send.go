package main

import (
	"context"
	"errors"
	"fmt"
	"math"
	"sync"
	"sync/atomic"
	"time"

	"github.com/sluice-push/sluice/codec"
	"github.com/sluice-push/sluice/examples/internal/run"
	"github.com/sluice-push/sluice/session"
)

// settings are the flags for playing devices.
type settings struct {
	to       string
	devices  int
	count    uint64 // 0 is without end
	interval time.Duration
}

// player plays devices: a session each, whose Tick sends. There is no goroutine for a device.
type player struct {
	settings
	sent    atomic.Uint64
	waiting atomic.Int64  // devices that are not done
	done    chan struct{} // closed when none is

	once   sync.Once
	failed chan struct{} // closed when err is set
	err    error
}

// played is one device, and the state of its session.
type played struct {
	next     measurement
	datagram []byte
}

// play sends until all is sent, ctx is done, or something fails, which it returns.
func play(ctx context.Context, s settings) error {
	p := &player{settings: s, done: make(chan struct{}), failed: make(chan struct{})}
	p.waiting.Store(int64(s.devices))
	h := session.Typed[*played]{
		Tick:  p.tick,
		Drain: func(s *session.Session, _ *played) { s.End(nil, nil) },
		Close: p.closed,
	}
	client := session.NewClient(codec.Raw{}, h.Handler(), &session.Options{TickInterval: s.interval, IdleTimeout: -1})
	run.Say("%d devices send to %s", s.devices, s.to)
	for i := range s.devices {
		d := &played{next: measurement{Name: fmt.Sprintf("device-%d", i), Number: 1}}
		if _, err := client.DialWith(ctx, "udp", s.to, &session.Attach{Value: d}); err != nil && ctx.Err() == nil {
			p.fail(d, err)
			break
		}
	}
	select {
	case <-ctx.Done():
	case <-p.done:
	case <-p.failed:
	}
	// Gently, so that the last datagrams go out as well; nobody is waited for.
	late, cancel := context.WithTimeout(context.Background(), time.Second)
	defer cancel()
	_ = client.Shutdown(late)
	run.Say("%d datagrams sent", p.sent.Load())
	select {
	case <-p.failed:
		return p.err
	default:
		return nil
	}
}

// tick sends the next measurement of a device.
func (p *player) tick(s *session.Session, d *played) {
	if p.count > 0 && d.next.Number > p.count {
		return
	}
	d.next.Degrees = 20 + 5*math.Sin(float64(d.next.Number)/10)
	d.datagram = d.next.appendTo(d.datagram[:0])
	if err := s.Send(d.datagram); err != nil {
		if !errors.Is(err, session.ErrClosed) { // Close knows why
			p.fail(d, err)
		}
		return
	}
	p.sent.Add(1)
	d.next.Number++
	if d.next.Number > p.count && p.count > 0 && p.waiting.Add(-1) == 0 {
		close(p.done)
	}
}

// closed is called when the session of a device has ended: nobody receives what it sends, or all is over.
func (p *player) closed(_ *session.Session, d *played, info *session.CloseInfo) {
	if info.By != session.ByLocal {
		p.fail(d, info.Err)
	}
}

// fail takes note of what went wrong. The first counts.
func (p *player) fail(d *played, err error) {
	p.once.Do(func() {
		p.err = fmt.Errorf("%s: %w", d.next.Name, err)
		close(p.failed)
	})
}
