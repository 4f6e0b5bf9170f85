// Package compression compresses what a node sends to its clients, and inflates what they send: gzip (RFC 1952), and messages of WebSocket
// (RFC 7692).
//
// There are two ways to compress. [AppendGzip] and [AppendDeflated] compress a message on its own, so that one result can be sent to any number
// of clients: compression is paid once for each message, and no client holds memory for it. A [Stream] compresses the body of a response that does
// not end, batch by batch, with the batches before as its context. It holds 24 KiB for each client and compresses for this client alone, but
// messages that resemble earlier ones become much smaller. The body of an HTTP response is one gzip stream, with one checksum, so that its parts
// cannot be shared.
//
// What comes from clients is inflated up to a limit, whatever it claims to be: [ReadAll] and [Decompressor].
//
// All functions may be called concurrently.
package compression
