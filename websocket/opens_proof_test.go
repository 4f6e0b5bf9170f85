//go:build proof

package websocket_test

// opens is how many connections TestOpensAndCloses makes in each way: a million in all.
const opens = 250_000
