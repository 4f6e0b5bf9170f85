package load

import "sync"

// reasons counts why things went wrong, in words. All methods may be called concurrently.
type reasons struct {
	mu     sync.Mutex
	counts map[string]int
}

const (
	maxReasons   = 50 // different ones; further ones are counted together
	maxReason    = 200
	otherReasons = "other reasons"
)

func (r *reasons) note(why string) { r.add(why, 1) }

func (r *reasons) add(why string, n int) {
	if len(why) > maxReason {
		why = why[:maxReason]
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.counts == nil {
		r.counts = map[string]int{}
	}
	if _, known := r.counts[why]; !known && len(r.counts) >= maxReasons {
		why = otherReasons
	}
	r.counts[why] += n
}

// all returns the counts, nil when there are none. They belong to the caller.
func (r *reasons) all() map[string]int {
	r.mu.Lock()
	defer r.mu.Unlock()
	var out map[string]int
	for why, n := range r.counts {
		if out == nil {
			out = map[string]int{}
		}
		out[why] = n
	}
	return out
}
