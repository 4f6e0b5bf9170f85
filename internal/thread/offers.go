package thread

import "time"

const (
	offerEvery = 8 * time.Millisecond // less than the 10 after which the runtime preempts
	offerRare  = 30 * time.Second     // where each one costs a long wait
	offerQuick = 2 * time.Millisecond // that is longer than this
	offerGrows = 8
)

// Offers says when a goroutine that seldom calls the scheduler is to do so (runtime.Gosched). One that does not for 10 ms is preempted, and has
// the runtime's monitor look again every 20 µs for a while: where nobody else wants the processor that costs a thirtieth of it. Where others
// do, as goroutines that compute, it would wait for them each time, so it is offered seldom. It belongs to one goroutine. Times are nanoseconds
// of any clock that does not go back. The zero value begins with an offer.
type Offers struct {
	every time.Duration
	last  int64
}

// Due reports whether an offer is due.
func (o *Offers) Due(now int64) bool { return now-o.last >= int64(o.every) }

// Soon reports whether one is due before long: it is best made while there is nothing else to do.
func (o *Offers) Soon(now int64) bool { return now-o.last >= int64(o.every)*3/4 }

// Rested tells that the goroutine has waited in the runtime, which is as good as an offer.
func (o *Offers) Rested(now int64) { o.last = now }

// Made tells when the last offer was made, and when the processor came back.
func (o *Offers) Made(began, now int64) {
	o.last = now
	if now-began < int64(offerQuick) {
		o.every = offerEvery
	} else {
		o.every = min(max(o.every, offerEvery)*offerGrows, offerRare)
	}
}
