package reconnect

import "time"

// Doors for tests of what has no clock and no goroutine.

// Bounds returns the bounds of the first n waits of a back-off, which is begun anew after the wait before each of resets.
func Bounds(base, most time.Duration, n int, resets ...int) []time.Duration {
	b := backoff{base: base, most: most}
	var out []time.Duration
	for i := range n {
		for _, r := range resets {
			if r == i {
				b.reset()
			}
		}
		out = append(out, b.next())
	}
	return out
}

// Spread is spread.
var Spread = spread

// Defaults returns o as it is read, and what is wrong with it.
func Defaults(o *Options) (Options, error) {
	c := o.withDefaults()
	return c, c.check()
}
