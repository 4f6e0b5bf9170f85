// Package ages counts what is done with things of different times, to be told later how old they were.
package ages

// most is of how many different times counts are kept apart.
const most = 16

// Count is of things of one time and kind.
type Count struct {
	Time   int64 // when they were accepted, in Unix milliseconds
	N      int
	IsLate bool // their kind: they did not come at once
}

// Counts are few counts. The zero Counts are empty. They belong to one goroutine.
type Counts struct{ list []Count }

// Add counts n things. When there are 16 times already these count for the oldest of their kind, so that nothing is told to be younger than
// it is.
func (c *Counts) Add(time int64, n int, isLate bool) {
	oldest := -1
	for i := len(c.list) - 1; i >= 0; i-- {
		switch a := &c.list[i]; {
		case a.IsLate != isLate:
		case a.Time == time:
			a.N += n
			return
		case oldest < 0 || a.Time < c.list[oldest].Time:
			oldest = i
		}
	}
	if len(c.list) < most || oldest < 0 {
		c.list = append(c.list, Count{time, n, isLate})
		return
	}
	a := &c.list[oldest]
	a.Time, a.N = min(a.Time, time), a.N+n
}

// Take returns the counts, and begins anew. They are valid until the next Add.
func (c *Counts) Take() []Count {
	out := c.list
	c.list = c.list[:0]
	return out
}
