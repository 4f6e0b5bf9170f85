//go:build !proof

package websocket_test

// opens is how many connections TestOpensAndCloses makes in each way.
const opens = 600
