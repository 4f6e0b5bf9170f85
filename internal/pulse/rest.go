package pulse

import "time"

// Rest is how a goroutine waits that looks at something again and again, and sometimes more often.
type Rest struct {
	long, short time.Duration
	fast        *Pulse        // while rests are short
	rested      time.Duration // by short ones
}

// NewRest makes one for rests of two kinds.
func NewRest(long, short time.Duration) *Rest { return &Rest{long: long, short: short} }

// For waits, for less than a short rest if the last one was short too and ended a while ago, and reports whether a long one is over, in one
// piece or in short ones. Where there is no descriptor for short ones all are long.
func (r *Rest) For(isShort bool) (isLong bool) {
	switch {
	case !isShort:
		r.End()
	case r.fast == nil:
		r.fast, _ = New(r.short)
	}
	if r.fast == nil || r.fast.Wait() != nil {
		time.Sleep(r.long) // which wakes fewer threads than a Ticker
		r.rested = r.long
	} else {
		r.rested += r.short
	}
	if r.rested < r.long {
		return false
	}
	r.rested = 0
	return true
}

// End gives the descriptor back that For may have taken.
func (r *Rest) End() {
	if r.fast != nil {
		_ = r.fast.Close()
		r.fast = nil
	}
}
