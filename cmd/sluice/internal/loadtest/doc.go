// Package loadtest puts load on a push server and verifies that every client received each message meant for it once, in order and
// unchanged.
//
// A run follows a [Spec]. Clients connect and subscribe, and publishers send publications at times fixed by a schedule. Every client
// compares each message that it receives with the published one, byte by byte. A latency is measured from the time at which the
// publication was due, not from the time at which it was sent. A server that falls behind cannot hide its delay (coordinated omission).
package loadtest
