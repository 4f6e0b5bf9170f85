// Package laws tests the guarantees of the platform end to end. Clients that speak the protocol connect over pipes and sockets to the gateways
// of two nodes on one broker. They read at different speeds, ask for intervals, bandwidths and deltas, get disconnected, and resume at the other
// node from their position. Meanwhile publishers set, remove and clear rows, nodes are lost, and the broker is disturbed. Whenever the system is
// quiescent, the test compares the state of each client with what was published.
//
//   - Order: the positions that a client receives of a channel rise, over all its connections; a row never goes back.
//   - No silent loss: a client receives every publication of a stream after its starting position, once and in order, unless the node tells it
//     that the subscription starts anew, or how many publications are missing.
//   - Convergence: a client's state of a table or a value is what was published, byte for byte, with or without deltas.
//   - Bounded: the amount of data that waits to be written to a client does not depend on how slow the client is.
//   - Acknowledged means stored: an acknowledged publication survives the loss of the node that acknowledged it.
//
// All random choices come from a seed, but the order of concurrent events is not fixed. go test runs the test for some seconds, make laws for
// any length of time. docs/laws.md says more, and lists the planted bugs that the test finds.
package laws
