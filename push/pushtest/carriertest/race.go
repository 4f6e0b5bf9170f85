//go:build race

package carriertest

// flood is how many subscriptions checkFlood asks for in one frame: fewer, because the race detector makes each many times as expensive.
const flood = 20_000
