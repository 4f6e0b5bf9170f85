// Package load puts load on a push server and proves that every client got everything that was meant for it: once, in order and
// unchanged.
//
// A run follows a [Spec]: so many clients connect and subscribe, publications become due by a schedule that nothing delays, and what
// arrives is compared with what was published, byte by byte, for every client. Latency counts from when a publication was due, not from
// when somebody found the time to send it, so a server that is behind cannot hide it (no coordinated omission).
package load
