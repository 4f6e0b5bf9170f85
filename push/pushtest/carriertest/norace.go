//go:build !race

package carriertest

// flood is how many subscriptions checkFlood asks for in one frame.
const flood = 100_000
