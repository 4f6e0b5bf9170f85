package discovery

import (
	"math"
	"slices"
	"time"
)

// flaps decides which endpoints of the sets that a registry reports are used. It has no clock: the caller says what time it is, and never an
// earlier one than before.
//
// How often an endpoint has left is counted as RFC 2439 counts the flaps of a route: each time adds one, and the sum halves in every half-life. An
// endpoint is left out from when its sum has reached the limit until it has fallen to a quarter of it.
type flaps struct {
	limit    float64
	halfLife time.Duration
	empty    bool

	present []Endpoint // the last set that was believed
	history map[string]*flapHistory
}

// flapHistory is how often an endpoint has left.
type flapHistory struct {
	sum float64 // at that time
	at  time.Time
	out bool // it is left out
}

func newFlaps(o *SteadyOptions) *flaps {
	f := &flaps{limit: float64(o.Flaps), halfLife: o.HalfLife, empty: o.Empty, history: make(map[string]*flapHistory)}
	if o.Flaps < 0 {
		f.limit = math.Inf(1)
	}
	return f
}

// observe takes a set that the registry reports, sorted by address.
func (f *flaps) observe(now time.Time, set []Endpoint) {
	if len(set) == 0 && !f.empty {
		return
	}
	for i := range f.present {
		address := f.present[i].Address
		if !slices.ContainsFunc(set, func(e Endpoint) bool { return e.Address == address }) {
			f.left(now, address)
		}
	}
	f.present = set
}

func (f *flaps) left(now time.Time, address string) {
	h := f.history[address]
	if h == nil {
		h = &flapHistory{}
		f.history[address] = h
	}
	h.sum, h.at = f.sum(h, now)+1, now
	h.out = h.out || h.sum > f.limit-1e-9
}

// sum returns how often an endpoint has left, as far as it is not forgotten.
func (f *flaps) sum(h *flapHistory, now time.Time) float64 {
	return h.sum * math.Exp2(-now.Sub(h.at).Seconds()/f.halfLife.Seconds())
}

// set returns the endpoints to use, sorted, and after which time there may be more without another observe; 0 if there will not be. The slice
// must not be changed.
func (f *flaps) set(now time.Time) (set []Endpoint, again time.Duration) {
	for address, h := range f.history {
		sum := f.sum(h, now)
		if h.out && sum <= f.limit/4+1e-9 {
			h.out = false
		}
		if !h.out && sum < 1.0/16 {
			delete(f.history, address)
		}
	}
	set = make([]Endpoint, 0, len(f.present))
	for i := range f.present {
		h := f.history[f.present[i].Address]
		if h == nil || !h.out {
			set = append(set, f.present[i])
			continue
		}
		halves := math.Log2(f.sum(h, now) / (f.limit / 4))
		back := time.Duration(halves*float64(f.halfLife)) + time.Millisecond
		if again == 0 || back < again {
			again = back
		}
	}
	if len(set) == 0 {
		set = f.present // all of them come and go
	}
	return set, again
}
