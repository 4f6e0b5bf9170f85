// Package wire is the WebSocket protocol (RFC 6455, RFC 7692) as a state machine without I/O, together with the
// handshake that starts it, on a bare connection or under net/http.
//
// With package session, which reads, writes and keeps time, a codec is made in Open. A heartbeat is an [AppendPing] in Tick, for those
// that end silent sessions; the goodbye, as the example Session has it, is [Codec.AppendClose] in Drain:
//
//	srv := session.NewServer(nil, &session.Handler{
//		Open:    func(s *session.Session) error { s.SetCodec(wire.NewHandshake(nil)); return nil },
//		Message: func(s *session.Session, msg []byte) { _ = s.Send(msg) },
//	}, nil)
//
// The rest of this comment is for those who own the connection themselves.
//
// # The codec
//
// A [Codec] belongs to one connection. Whoever owns the connection reads, gives the unread bytes to Decode, handles the messages
// that come out, and sends what AppendReplies and AppendEncode append:
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
// A whole message leads from between two messages back to there. Pings and pongs change nothing, wherever they come. When it is
// over Decode repeats its error.
//
// Each Decode takes one step and says how many bytes it used; after each of them the replies are fetched:
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
// What comes out does not depend on how the bytes were cut on their way, and every rule is enforced with the byte that breaks it:
// a text that is not UTF-8 is refused at its first bad byte, a message that is too big at its header.
//
// # The end
//
// Decode ends with a *[CloseError]. Its Remote field tells a close frame of the peer, which is a clean end and an [io.EOF] too, from
// a broken rule. In both cases the close frame to be sent waits in AppendReplies. To end a connection from this side send what
// [Codec.AppendClose] appends, and go on decoding until the peer's close frame, or some time limit, comes.
//
// # The handshake
//
// [NewHandshake] reads the HTTP request itself, strictly: HTTP/1.1, lines that end in CRLF, no folding, one Host, no body. [Upgrade]
// takes over a request to a net/http server. Both apply the same checks and the same [Options]: which origins may connect (by
// default the pages of the same host), which subprotocol is chosen, and Accept, the hook that sees the [Request] and may refuse it.
// A refusal is a complete HTTP response, and a *[Refusal] for the log.
//
// A client begins with [NewClientHandshake]. What the server answers is read as strictly, within limits of [ClientOptions], and may
// choose only what was offered. Any other answer is a *[HandshakeError] with the status and the fields, so that the caller can follow
// a redirect or bring the credentials that are asked for: neither is done here.
//
// # Frames for many
//
// A frame from a server is the same for every client. [AppendFrame] makes it once; its bytes may be written to any number of
// connections. [AppendHeader] and [FrameInPlace] make frames around payloads that are encoded in place.
//
// # Limits
//
// On by default, each with its field in [Options]: 64 KiB and 1,024 fragments a message, and one more for each 16 bytes of it; 8 KiB and 100
// lines a request. The length that a frame announces is checked as the 64-bit number it is, and memory is taken for what arrived, never for what
// was announced.
// At most one pong waits for AppendReplies, however many pings came in. How long a request or a message may take is left to the
// owner of the connection, who has the clock.
//
// # Whose bytes
//
// Decode unmasks in place, and changes no byte that it does not report as used. A message is valid until the next Decode. All append
// functions copy what they are given and keep nothing.
//
// # Compression
//
// With [Options.Compression] the handshake agrees on permessage-deflate (RFC 7692) if the peer can do it too. Decode then returns
// messages inflated, and AppendMessage compresses those that are long enough. Without a context, which is the default, connections hold
// nothing for it, and one compressed frame can go to many: [Codec.Variant] tells to which.
package wire
