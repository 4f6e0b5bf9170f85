// Package rawstream sends and receives the messages of calls of grpc-go as bytes, so that nothing is encoded twice, and bounds what a client that does
// not read makes grpc-go hold.
//
// grpc-go keeps what it has taken of a call that has ended until the client takes it or resets the stream, and no function of it resets a stream. So a
// [Sender] counts what grpc-go has not written yet, and closes the connection if that is not 0 some time after the end of the call.
package rawstream
