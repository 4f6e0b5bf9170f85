// Package descriptors has listeners that know what to do when the process has few file descriptors left, or none: [Scarce] leaves the last ones to
// others, and [Spare] accepts one connection at a time even then.
package descriptors

// Reserved descriptors are left for the store, the API, health checks, connections that are being made, and those of commands of clients that have a
// stream. A client with a stream counts as one descriptor: idle connections are closed before the reserve is used up, see [Scarce]. Streams that share
// a connection of HTTP/2 need fewer.
const Reserved = 256
