// Package gateway is where clients connect: it speaks the client protocol over WebSocket and, one way, over server-sent events, and is
// the carrier of the hub's frames.
//
//	/connection/websocket   RFC 6455; package protocol's JSON, several commands and replies in a message
//	/connection/uni_sse     text/event-stream; what to subscribe to comes in the query parameter cf_connect
//
// # Life of a WebSocket client
//
// The request is taken over from net/http, whose memory is let go, and becomes a session of package session, on Linux without a
// goroutine of its own. Its handler decodes commands and answers them in order; replies of one read leave in one write. The hub's frames
// come from wherever the hub serves them and go straight to the socket; what the socket does not take stays in the hub's log. When a
// client does not read its replies its commands are not read either, and after the write time-out it is disconnected. An answer to a
// history command ends at 64 KiB, or 1,024 publications, whatever limit was asked for: its last publication then has the tag sluice.more, and the
// client asks for what is behind that.
//
// # Map subscriptions
//
// A WebSocket client that keeps the rows of a table asks for them in steps, of which each is a read of the table and leaves nothing behind;
// with the last page it is subscribed (mapsub.go). A page has up to 512 rows, or up to 4,096 as the client asks for, and about 64 KiB; what
// has changed meanwhile comes with the last page, up to 256 KiB, and what is beyond that follows.
//
// # Life of an SSE client
//
// The net/http goroutine of the request owns the connection. Frames are put into a buffer, which that goroutine writes out; while 64 KiB
// wait or are being written nothing is taken. A client that takes less than 16 KiB in ten seconds while there is more is given up. Each
// event's id is the position in all the client's channels, so that an EventSource that connects again goes on where it was. A position of more than
// 128 bytes, which takes some 40 channels, comes when as much has been said without one, or with a ping: after a cut the client is told again
// what came since, which its offsets show. One that does not fit 1 KiB cannot be told, and the id says so: the client then begins afresh
// and is told that it was recovering and is not recovered.
//
// # Goroutines
//
// One per client, which ends with its connection, and one heartbeat for all, which pings, and disconnects who does not answer or
// never said who it is. [Gateway.Shutdown] ends all of them and waits.
package gateway
