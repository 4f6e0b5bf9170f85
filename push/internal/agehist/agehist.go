// Package agehist is a histogram of delivery ages: how many publications that were accepted at the same time have been delivered.
//
// It keeps the time of acceptance instead of the age, so that many deliveries need the current time only once.
package agehist

// maxTimes is how many different times are counted each.
const maxTimes = 16

// Count is a number of deliveries of one time and kind.
type Count struct {
	Time    int64 // when the publications were accepted, in Unix milliseconds
	N       int
	FromLog bool // they were not delivered in the batch in which they were new
}

// Counts is a histogram. The zero Counts is empty. It belongs to one goroutine.
type Counts struct{ list []Count }

// Add counts n deliveries. If there are 16 times already, it adds them to the oldest time of their kind: an age may be reported too old, but
// never too young.
func (c *Counts) Add(time int64, n int, fromLog bool) {
	oldest := -1
	for i := len(c.list) - 1; i >= 0; i-- {
		switch a := &c.list[i]; {
		case a.FromLog != fromLog:
		case a.Time == time:
			a.N += n
			return
		case oldest < 0 || a.Time < c.list[oldest].Time:
			oldest = i
		}
	}
	if len(c.list) < maxTimes || oldest < 0 {
		c.list = append(c.list, Count{time, n, fromLog})
		return
	}
	a := &c.list[oldest]
	a.Time, a.N = min(a.Time, time), a.N+n
}

// Take returns the counts and resets the histogram. The counts are valid until the next Add.
func (c *Counts) Take() []Count {
	out := c.list
	c.list = c.list[:0]
	return out
}
