// Package protobuf implements the Protobuf form of the client protocol: the encoding of the values of package protocol, without reflection and
// without generated code. It does no I/O: bytes in, values out. All functions may be called concurrently, as long as the caller does not change
// their arguments meanwhile.
//
// The messages are those of clientv1/client.proto, which has the numbers and types of the published Centrifuge client protocol, so its SDKs
// connect without changes. Package protocol says what the messages mean; here is what differs from JSON.
//
// # Frames
//
// Each message has its length before it, as a varint. A frame (a WebSocket message, the body of a request, a piece of a TCP stream) holds one or
// more of them. [Next] splits a frame, and the encoders write the length. A stream of gRPC has lengths of its own: there, the caller removes
// ours with Next. A ping, and the answer to it, is an empty message: the single byte 0.
//
// # Data
//
// Bytes have no quotes and no escapes, but the data of requests has to be one JSON value, because clients of both forms share channels.
// [DecodeCommand] makes it compact where JSON has to be. An empty field is an absent value; null is a value. A delta is sent as it is, so there
// are no quoted variants.
//
// # Numbers of subscriptions
//
// A server gives numbers to clients of this form only if they also set [protocol.SubscribeFlagNumbers]. The SDK centrifuge-js 5.8 offers to accept
// numbers, but decodes them as objects that never equal each other, and drops the publications.
//
// # What is accepted
//
// Everything that generated code accepts, with the same result: unknown fields and fields of another wire type are skipped, of a field that
// occurs twice the last counts, and messages that occur twice are merged. These rules are stricter:
//
//   - There are no groups, not even unknown ones.
//   - Integers have to be in the range that JSON has, and to fit into their type; generated code would cut them.
//   - The data of requests is JSON, nested no deeper than JSON is allowed to be.
//   - A subscribe request has one filter, nested no deeper than 64 levels.
//   - Of several requests in a command, the first on the wire counts, and so it is with the results in a reply and the contents of a push. The
//     others are checked and ignored.
package protobuf

//go:generate ../../../tools/generate-protobuf
