// Package link is the hub's side of links between gateways and hubs: it serves a broker to other processes. Package push/broker/link is the gateway's
// side. docs/link.md specifies what travels.
//
//	broker ──► attachment ──► queue ──► Follow stream ──► gateway
//	  ▲            ▲                                         │
//	  └── Publish, Load, Head, control messages, leases ◄────┤
//	               └── Want, Unwant ◄── Interest ◄───────────┘
//
// Each Follow stream has a queue, which holds the messages that wait for the gateway, of the channels that it wants. The queue is bounded, and the
// partition never waits for it: if the gateway reads too slowly, the queue is emptied, and the gateway loads what it has missed. What it loads are the
// newest rows of tables and the history of streams, so that a slow link is conflated as a slow client is. After a reconnect a gateway does the
// same.
//
// The handler of a stream has a goroutine while the stream lasts. It ends when the gateway ends the stream, the connection ends, or the server shuts
// down.
package link
