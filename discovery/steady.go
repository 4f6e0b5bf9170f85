package discovery

import (
	"context"
	"sync"
	"time"
)

// SteadyOptions are the settings of a [Steady]. For every field zero is the default; nil is all defaults.
type SteadyOptions struct {
	// Flaps is how often an endpoint may leave in a short time before it is left out; default 3. Negative leaves none out.
	Flaps int
	// HalfLife is the time in which half of that is forgotten; default 15 s. An endpoint that has left Flaps times at once is left out for twice as
	// long, if it stays.
	HalfLife time.Duration
	// Empty lets an empty set pass. Otherwise the last endpoints stay when a registry has none any more: it has more often been wiped, or is looked
	// at from the wrong side of a cut, than all servers have gone, and calling one that has gone is an error that callers handle anyway.
	Empty bool
}

// Steady is a [Resolver] that reports what another does, but is not misled by its registry: it does not believe an empty set, unless that is the
// first one, and leaves out endpoints that come and go, as long as others are left. An endpoint that leaves is left out at once.
type Steady struct {
	resolver Resolver
	options  SteadyOptions
}

// NewSteady makes a Steady.
func NewSteady(r Resolver, o *SteadyOptions) *Steady {
	s := &Steady{resolver: r}
	if o != nil {
		s.options = *o
	}
	if s.options.Flaps == 0 {
		s.options.Flaps = 3
	}
	if s.options.HalfLife <= 0 {
		s.options.HalfLife = 15 * time.Second
	}
	return s
}

// Watch implements [Resolver].
func (s *Steady) Watch(ctx context.Context, service string, update func([]Endpoint)) error {
	w := &steadyWatch{flaps: newFlaps(&s.options), update: update}
	defer w.stop()
	return s.resolver.Watch(ctx, service, w.observe)
}

// steadyWatch is one call of Watch. update is called by the resolver's goroutine and, when endpoints that were left out come back, by that of
// a timer; mu keeps the calls apart.
type steadyWatch struct {
	update func([]Endpoint)

	mu      sync.Mutex // guards what follows, and is held during update
	flaps   *flaps
	told    []Endpoint // by the last call of update
	telling bool       // there was one
	timer   *time.Timer
	stopped bool
}

func (w *steadyWatch) observe(set []Endpoint) {
	w.mu.Lock()
	defer w.mu.Unlock()
	now := time.Now()
	w.flaps.observe(now, set)
	w.tell(now)
}

// tell calls update if the set is another one, and sets the timer for the next time that it may be.
func (w *steadyWatch) tell(now time.Time) {
	set, again := w.flaps.set(now)
	if !w.telling || !Same(w.told, set) {
		w.telling, w.told = true, set
		w.update(append([]Endpoint(nil), set...))
	}
	if w.timer != nil {
		w.timer.Stop()
		w.timer = nil
	}
	if again > 0 {
		w.timer = time.AfterFunc(again, func() {
			w.mu.Lock()
			defer w.mu.Unlock()
			if !w.stopped {
				w.tell(time.Now())
			}
		})
	}
}

func (w *steadyWatch) stop() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.stopped = true
	if w.timer != nil {
		w.timer.Stop()
	}
}
