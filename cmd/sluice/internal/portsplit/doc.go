// Package portsplit lets HTTP and native gRPC share one port.
//
// A listener is split in two: one that net/http serves, and one that a gRPC server serves. Without TLS the first bytes of a connection decide: the
// preface of HTTP/2 (RFC 9113 §3.4) begins with "PRI", and nothing that net/http should get does. With TLS the client's offer decides: a
// client that offers h2 and nothing else (ALPN, RFC 7301) is one of gRPC, and browsers and HTTP libraries offer http/1.1 as well.
//
// Accepting never waits for a peer. A connection whose first bytes have arrived, which is the rule where the kernel defers accepting, is told at once
// and untouched. Every other connection has a goroutine, which waits for its bytes or does its handshake, at most for Options.Timeout.
//
// Connections of a listener of package transport that reads headers of the PROXY protocol have theirs read first, in the same time, so that both
// sides see the client's address.
package portsplit
