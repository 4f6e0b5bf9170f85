package main

import (
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/sluice-push/sluice/codec"
	"github.com/sluice-push/sluice/examples/internal/run"
	"github.com/sluice-push/sluice/session"
)

// receiver is the server. What it knows of devices is the state of their sessions.
type receiver struct {
	srv      *session.Server
	received atomic.Uint64 // measurements that were the latest
	old      atomic.Uint64 // measurements that were not
	bad      atomic.Uint64 // datagrams that were no measurement
}

// device is the state of a session. What was measured is written by Message and read by who prints.
type device struct {
	mu     sync.Mutex
	latest measurement // Name is empty before the first
}

// newReceiver makes a receiver.
func newReceiver(o *session.Options) *receiver {
	r := new(receiver)
	h := session.Typed[*device]{
		Open:    func(*session.Session) (*device, error) { return new(device), nil },
		Message: r.message,
		Drain:   func(s *session.Session, _ *device) { s.End(nil, nil) },
	}
	r.srv = session.NewServer(codec.Raw{}, h.Handler(), o)
	return r
}

// message handles a datagram.
func (r *receiver) message(_ *session.Session, d *device, datagram []byte) {
	m, ok := parse(datagram)
	if !ok {
		r.bad.Add(1)
		return
	}
	d.mu.Lock()
	newer := d.latest.Name == "" || m.Number > d.latest.Number
	if newer {
		d.latest = m
	}
	d.mu.Unlock()
	if newer {
		r.received.Add(1)
	} else {
		r.old.Add(1)
	}
}

// print prints a line at an interval, and a last one when stop is closed.
func (r *receiver) print(interval time.Duration, stop <-chan struct{}) {
	ticker := time.NewTicker(interval)
	defer ticker.Stop()
	for {
		select {
		case <-stop:
			run.Say("in all %s", r.counts())
			return
		case <-ticker.C:
			run.Say("%s; %s", r.devices(), r.counts())
		}
	}
}

// devices says how the devices do now.
func (r *receiver) devices() string {
	var n int
	var sum float64
	var hottest measurement
	for s := range r.srv.Sessions() {
		d, ok := s.Value().(*device)
		if !ok {
			continue // is being opened
		}
		d.mu.Lock()
		m := d.latest
		d.mu.Unlock()
		if m.Name == "" {
			continue // has sent no measurement
		}
		if n == 0 || m.Degrees > hottest.Degrees {
			hottest = m
		}
		n++
		sum += m.Degrees
	}
	if n == 0 {
		return "0 devices"
	}
	return fmt.Sprintf("%d devices, %.1f degrees on average, %.1f at %s", n, sum/float64(n), hottest.Degrees, hottest.Name)
}

// counts says what was received.
func (r *receiver) counts() string {
	return fmt.Sprintf("%d received, %d old, %d bad", r.received.Load(), r.old.Load(), r.bad.Load())
}
