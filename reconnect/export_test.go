package reconnect

import "time"

// This file exports the functions without clock and goroutine for tests.

// Bounds returns the bounds of the first n waits of a back-off, which is reset before each wait whose number is in resets.
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

// Spread exports spread.
var Spread = spread

// Defaults returns o with defaults, and the error of check.
func Defaults(o *Options) (Options, error) {
	c := o.withDefaults()
	return c, c.check()
}
