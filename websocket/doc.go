// Package websocket runs WebSocket servers and clients (RFC 6455), with compression (permessage-deflate, RFC 7692). A connection is a
// [Conn] on a session of package session, with its engines, queues and limits: an idle one costs less than a kilobyte, and on Linux
// no goroutine. Two lines make a server:
//
//	srv := websocket.NewServer(&websocket.Handler{Message: echo}, nil)
//	err := srv.Serve(ln)
//
// beside other paths of a net/http server, one:
//
//	mux.Handle("/live", srv)
//
// and as many make a client:
//
//	c, err := websocket.Dial(ctx, "wss://example.com/live", nil)
//	for m := range c.Messages(ctx, &err) { … }
//
// # Two ways to get messages
//
// Events: the functions of a [Handler] are called, one after the other for each connection. One that blocks holds up its own connection
// only, which is not read meanwhile, so that the peer feels it. What a handler is given is borrowed until it returns.
//
// Asking: with Handler.Pull, and on connections of [Dial], messages wait until somebody asks for them, with [Conn.Receive],
// [Conn.Messages], or [Conn.NextReader] for those that are larger than memory. Somebody has to ask: before the first time nothing is
// read, and then no more than a message that nobody wants, so that pings are not answered either, and nobody learns that the peer has
// left.
//
// Everything else is the same for both, and for servers and clients.
//
// # The life of a connection
//
//	accepted ─► request ─► response ─► Open ─► Message … Message ─► Close
//	               │                     └─ an error closes the connection: no Message, but Close
//	               refused by the checks of the handshake, a limit, or the time: no function is called
//
// Serve reads the requests itself, from bare connections, on any path; nothing of net/http stays behind. ServeHTTP and Upgrade take
// connections over from a net/http server, with the handler's goroutine and buffers let go. Both make the same checks: which pages
// may connect (by default those of the same host), which subprotocol is spoken, and what Options.Accept has to say.
//
// [Conn.Close] begins the closing handshake: a close frame goes behind all that was sent, and the connection ends when the peer has
// answered it, or has not within Options.Session.Linger. A close frame of the peer is answered by itself, and is the end. Close of the
// handler tells how it came, and [CodeOf] with which code. [Conn.CloseNow] does without.
//
// # Sending
//
// Any goroutine may send; the order of the calls is the order of the messages. The caller writes from its own stack, without waiting for
// the peer; what the socket does not take is queued, within bounds, and when they are reached session.Policy decides: wait, refuse, or
// end the connection. DropOldest must not be used with Compression.Takeover, or with [Conn.NextWriter]. While the messages of one read
// are handled, what they send is gathered, and leaves in one write.
//
// A message for many is made with [Prepare]. Its frame is built once, plain and compressed, whatever number of connections it goes to:
//
//	p := websocket.Prepare(websocket.OpText, news)
//	websocket.Broadcast(p, srv.Conns(), nil)
//
// [Conn.NextWriter] writes a message piece by piece. [Conn.Session] is the session under the connection, with TryWrite for those who
// keep frames elsewhere, in a log, and want nothing queued.
//
// # Compression
//
// It is off by default. With [Compression] it is used with peers that can do it, for messages from a size on. Each message by itself is
// the default: it costs no memory between messages, and a broadcast is compressed once. With a context (Takeover) messages that are alike
// get very small, but each connection keeps what it has sent, and the encoder's tables: some ten kilobytes with the default window, a
// hundred with the largest. What is received is bounded by Options.MaxMessage after inflating. Only compress what may be compressed:
// together with secrets, text that somebody else chose can give them away by its size (CRIME).
//
// # Limits
//
// On by default: 64 KiB a message and 1,024 fragments, and one more fragment for each 16 bytes of it; 8 KiB and 100 lines and ten seconds a
// handshake; 64 KiB waiting to be sent. Numbers of connections are bounded by Options.Session. Each ping is answered, and nothing more is
// read from a peer that does not take the answers. Memory is taken for what arrived, never for what was announced.
//
// # Below
//
// Package wire, in this folder, is the protocol as a state machine without I/O, for those who own their connections themselves.
package websocket
