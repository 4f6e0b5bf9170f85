// Package wire is the WebSocket protocol (RFC 6455, RFC 7692) as a state machine without I/O. It includes the opening handshake, on a bare
// connection or under net/http.
//
// Package session reads, writes and keeps time. Together with it, an [AppendPing] in Tick is a heartbeat, for servers that end silent sessions.
// A [Codec.AppendClose] in Drain begins a clean shutdown: see the example Session. The handler's Open makes the codec:
//
//	srv := session.NewServer(nil, &session.Handler{
//		Open:    func(s *session.Session) error { s.SetCodec(wire.NewHandshake(nil)); return nil },
//		Message: func(s *session.Session, msg []byte) { _ = s.Send(msg) },
//	}, nil)
//
// The rest of this comment is for programs that own the connection themselves.
//
// # The codec
//
// A [Codec] belongs to one connection. The owner of the connection reads, gives the unread bytes to Decode, handles the messages that Decode
// returns, and sends the bytes that AppendReplies and AppendEncode append:
//
//	NewHandshake ──► waiting for the request ──── refused ────┐
//	                            │ accepted                    │
//	                            ▼                             ▼
//	New, Upgrade ──► between two messages ── broken rule ──► over
//	                    │           ▲          or close       ▲
//	     first fragment │           │ last fragment           │
//	                    ▼           │                         │
//	                 inside a message ── broken rule or close ┘
//
// A message of one frame does not leave the state "between two messages". Pings and pongs change no state. In the state "over", Decode repeats
// its error.
//
// Each Decode takes one step and returns the number of bytes that it used. Fetch the replies after each Decode:
//
//	for {
//		msg, n, err := c.Decode(in)
//		out = c.AppendReplies(out)
//		if err != nil { … send out, close … }
//		if msg != nil { … handle it, append the answer to out … }
//		if n <= 0 { break } // read more behind in
//		in = in[n:]
//	}
//
// The results do not depend on how the bytes were split on their way. Every rule is enforced at the byte that breaks it: a text that is not
// UTF-8 is refused at its first bad byte, a message that is too large at its header.
//
// # The end
//
// The last error of Decode is a *[CloseError]. If its Remote is set, the peer sent a close frame, which is a clean end and wraps [io.EOF].
// Otherwise the peer broke a rule. In both cases AppendReplies returns the close frame to send. To end a connection from this side, send the
// bytes of [Codec.AppendClose], and go on decoding until the peer's close frame arrives or a time limit is over.
//
// # The handshake
//
// A codec of [NewHandshake] reads the HTTP request itself, strictly: HTTP/1.1, lines that end in CRLF, no folding, one Host, no body. [Upgrade]
// takes over a request to a net/http server. Both apply the same checks and the same [Options]. Origins decides which pages may connect (by
// default those of the same host), Subprotocols which subprotocol is chosen, and the function Accept sees the [Request] and may refuse it. A
// refusal is a complete HTTP response for the client, and a *[Refusal] for the log.
//
// A client begins with [NewClientHandshake]. It reads the server's response as strictly, within the limits of [ClientOptions]. The server may
// choose only from the offer. Any other answer is a *[HandshakeError] with the status and the fields, so that the caller can follow a redirect
// or send credentials; this package does neither.
//
// # Frames for many
//
// A frame from a server is the same for every client. [AppendFrame] makes it once, and its bytes may be written to any number of connections.
// [AppendHeader] and [FrameInPlace] make frames around payloads that are encoded in place.
//
// # Limits
//
// These limits are on by default, each with its field in [Options]. A message has at most 64 KiB and 1,024 fragments, and one more fragment for
// each 16 bytes of it. A request has at most 8 KiB and 100 lines. The announced length of a frame is checked as a 64-bit number. Memory is
// allocated for bytes that have arrived, never for an announced length.
//
// At most one pong waits for AppendReplies, however many pings came in. The owner of the connection has the clock, and limits the time of a
// request or a message.
//
// # Whose bytes
//
// Decode unmasks in place, and changes only bytes that it reports as used. A message is valid until the next Decode. All Append functions copy
// their arguments and keep nothing.
//
// # Compression
//
// With [Options.Compression] the handshake agrees on permessage-deflate (RFC 7692) if the peer supports it. Decode then returns messages
// inflated, and AppendMessage compresses messages from a given size on. By default there is no context: connections hold no memory for
// compression, and one compressed frame can go to many. [Codec.Variant] says which connections can share it.
package wire
