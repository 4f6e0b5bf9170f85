// Package gateway has the sessions of clients: it speaks the client protocol with them and connects them to a hub. It knows no wire but
// HTTP, by which clients arrive and are refused. The folders below it are the transports:
//
//	websocket    /connection/websocket, uni_websocket       RFC 6455; several commands and replies in a message
//	sse          /connection/sse, uni_sse                   text/event-stream; the query parameter cf_connect has the first commands
//	httpstream   /connection/http_stream, uni_http_stream   the body of a response
//	grpc         the services of clientv1 and unistream     gRPC, by grpc-go; not by requests of net/http
//	tcp          a port of its own                          Protobuf messages, over TCP, TLS and Unix sockets
//	connect      the same                                   gRPC-Web and Connect, by connect-go
//
// Clients of the transports with uni in their name only listen. Those of sse and http_stream send commands in requests of their own
// ([EmulationPath]), to any node. What transports with a goroutine for each client share is in folders, too: outbox is what waits for a client,
// stream a response to an HTTP request that does not end.
//
// # Client and carrier
//
// A [Client] has what all transports share: admission and limits, identity, commands, heartbeat, the session in the hub, and how its connection
// ended. A [Carrier] moves its bytes: a reply waits for room, frames and pings never wait, and a connection ends with a code. An
// [Encoder] is a [Form] of the protocol in the [Framing] of a carrier; clients with equal encoders share the hub's frames.
//
// To add a transport, write a [Transport] and a Carrier in a folder of their own and pass the constructor to [New]. Nothing here changes.
//
// # Commands
//
// A client's commands are carried out and answered in order. While a client does not read its replies, its next commands wait; after
// Options.WriteTimeout it is disconnected. An answer to a history command ends at 64 KiB, or 1,024 publications, whatever limit was
// asked for. Its last publication then has the tag sluice.more, and the client asks for what follows it.
//
// # Map subscriptions
//
// A client that keeps the rows of a table asks for them in steps. Each step is a read of the table and leaves nothing behind. With
// the last page the client is subscribed (mapsub.go). A page has up to 512 rows, or up to 4,096 if the client asks for them, and about
// 64 KiB. What has changed meanwhile comes with the last page, up to 256 KiB; the rest follows.
//
// # Goroutines
//
// One heartbeat for all clients: it pings, and it disconnects clients that do not answer or do not connect. The transports own
// the goroutines that handle messages and write. [Gateway.Shutdown] ends all of them and waits.
package gateway
