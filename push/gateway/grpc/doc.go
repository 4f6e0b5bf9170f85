// Package grpc has the transport of clients that speak gRPC, by grpc-go's own implementation of HTTP/2. Its services are
//
//	sluice.client.v1.Client    Connect: commands and replies in both directions
//	                           Consume: replies only; more commands are sent by Send
//	centrifugal.centrifugo.unistream.CentrifugoUniStream
//	                           Consume: pushes to a client that only listens, as Centrifugo has it
//
// and those of health checks and reflection. clientv1/client.proto and unistream/unistream.proto define them.
//
// # A call
//
// A call of Connect or Consume is a client, and its call object is the client's carrier. What the hub and the replies have for the client waits
// in the call's outbox, encoded. Nothing is encoded twice: a codec passes messages to and from grpc-go as bytes.
//
// The goroutine of the call owns the sending side. It takes what waits, sends all of it, and waits for more. A second goroutine owns the receiving
// side of Connect and Consume: it receives commands and passes them on. When the goroutine of the call returns, with the status, grpc-go ends the
// receive of the other one. The last of the two ends the client.
//
// A send that waits too long, and a call that is aborted, are ended by canceling the context of the call, which a tap handle has made for that.
// grpc-go has no other way to interrupt a send. The status of such a call is codes.Canceled.
//
// # A client that does not read
//
// 64 KiB wait in the outbox, and grpc-go takes 64 KiB and a message. Then a send waits, at most for Options.WriteTimeout, and the client is
// disconnected. Messages that were taken together share memory, which is free when the last one is written. grpc-go keeps what it has taken of a
// call that has ended, until the client takes it or resets the stream, and no function of it resets a stream. So each call counts what grpc-go has
// not written (package rawstream). If the count is not 0 some seconds after the call has ended, the connection is closed, with all its calls.
//
// # No compression
//
// Nothing is compressed. grpc-go compresses each message for each call anew, and the result is its own memory, which the count would miss. A client that
// sends compressed messages is refused, unless something in the process has registered the compression with grpc-go; Options.FrameBytes bounds what
// such messages inflate to. Package connect has gRPC with compression.
//
// # Bounds of a connection
//
// 100 calls at a time; messages of Options.FrameBytes; 64 KiB of headers; 64 KiB of received data that is not read yet, in each call; a ping
// every 10 seconds. A connection without calls is closed after two minutes, and one that takes no byte after Options.WriteTimeout.
package grpc
