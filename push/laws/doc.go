// Package laws is a test: of the laws that the platform keeps, through all of it. Clients that speak the protocol are connected by
// pipes and by sockets to the gateways of two nodes on one broker. They read as it pleases them, ask for intervals, bandwidths and deltas,
// are cut, and come back to the other node with the position that they have, while publishers set, remove and clear, nodes are lost and the
// broker is troubled. Whenever all has come to rest each of them is asked for what it has.
//
//   - Order: the positions that a client is told of a channel rise, over all its connections; a row never goes back.
//   - No silent loss: of a stream everything comes that was published behind the position where the client began, once and in order, unless
//     it is told that it begins anew, or how many are missing.
//   - Convergence: what a client has of a table or a value is what was published, byte for byte, deltas or not.
//   - Bounded: what waits to be written for a client does not depend on how slow it is.
//   - Acknowledged means kept: what was acknowledged is there when the node that did it has gone.
//
// Everything that is random comes from a seed, though what happens at the same time is in no fixed order. go test runs it for some seconds,
// make laws for as long as one likes. docs/laws.md says more, and which planted bugs it finds.
package laws
