// Package protocol has the messages of the client protocol, between clients and the server, as Go values. A form of the protocol is a package of its
// own: json (the texts of all messages are in its documentation) and protobuf. They do no I/O: bytes in, values out.
//
// The protocol is version 2 of the Centrifuge client protocol (https://centrifugal.dev/docs/transports/client_protocol), so its SDKs connect
// without changes. A client sends commands ([Command]), each with a number. The server answers with replies ([Reply]), which repeat the number,
// and sends pushes ([Push]) on its own. A command without a request and without a number is a pong, a reply without a result a ping.
//
// Members that are zero are left out. A publication's key, removed and cleared, and a publish request's key, tags and removed, are additions
// of this server; SDKs ignore what they do not know. A publication without offset is a row of a table that is sent in full; the last one of
// them has the offset.
//
// Data, the info of clients and filters are JSON values in every form, because clients of all forms share the channels. They pass through
// unchanged, and without line breaks: json.CompactData makes them so.
//
// # Numbers in place of channels
//
// A push names its subscription by a number instead of the channel if the client offered that with bit 1 of the flag of its subscribe request,
// and the answer has a number. The number is valid until the subscription ends. SDKs call this channel compaction (subscriptionFlags of
// centrifuge-js 5.8, fields id of SubscribeResult and Push in its client protocol).
//
// # Deltas
//
// A client that asked for deltas, and was told that it gets them, has to check whether a publication is a delta. With Fossil deltas the JSON
// form has the data of all publications of the subscription, in pushes and in the answer, as strings; the Protobuf form has the bytes.
//
// # Maps
//
// A client that keeps the rows of a table subscribes with type 1, in steps. It requests the state, phase 2, page by page. Each answer has rows
// and the beginning of the next page; the first answer also has the position to which all pages belong. Then it requests the stream, phase 1,
// from that position: the changes made meanwhile. The answer without a phase confirms the subscription; a server may send it with the last page.
// Then the rows are State, the changes after them are Publications, and unlike elsewhere the position is the one after these. A client that
// reconnects requests the stream at once, with recover. If its position is not usable, it gets error 112 and starts again. The fields are those
// of centrifuge-js 5.8, which works like this (_mapSubscribe in its source).
package protocol

// Version is the version of the Centrifuge client protocol that this package implements.
const Version = 2
