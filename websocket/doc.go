// Package websocket runs WebSocket servers and clients (RFC 6455), with compression (permessage-deflate, RFC 7692). Each [Conn] is a connection
// on a session of package session, and has that package's engines, queues and limits. An idle connection costs less than a kilobyte, and on
// Linux no goroutine. Two lines make a server:
//
//	srv := websocket.NewServer(&websocket.Handler{Message: echo}, nil)
//	err := srv.Serve(ln)
//
// One line adds a server to other paths of a net/http server:
//
//	mux.Handle("/live", srv)
//
// Two lines make a client:
//
//	c, err := websocket.Dial(ctx, "wss://example.com/live", nil)
//	for m := range c.Messages(ctx, &err) { … }
//
// # Two ways to get messages
//
// Events: the connection calls the functions of a [Handler], one after the other. A function that blocks delays its own connection only: the
// connection is not read meanwhile, so that the peer's sends back up. The arguments of a handler function are borrowed until it returns.
//
// Pull: with Handler.Pull, and on connections of [Dial], messages wait until the caller fetches them. [Conn.Receive] and [Conn.Messages] return
// whole messages, and [Conn.NextReader] reads messages that are larger than memory. Before the first such call nothing is read. After it, the
// connection reads no further than one message that has not been fetched. Until the caller fetches that message, pings are not answered, and the
// end of the connection is not noticed.
//
// Everything else is the same for both ways, and for servers and clients.
//
// # The life of a connection
//
//	accepted ─► request ─► response ─► Open ─► Message … Message ─► Close
//	               │                     └─ an error closes the connection: no Message, but Close
//	               refused by the checks of the handshake, a limit, or the time: no function is called
//
// Serve accepts connections and reads the requests itself, on any path, so that no memory of net/http is kept. ServeHTTP and Upgrade take
// connections over from a net/http server, and release the handler's goroutine and buffers. All three make the same checks: the web page's
// origin (by default only the same host may connect), the subprotocol, and Options.Accept.
//
// [Conn.Close] begins the closing handshake: it sends a close frame after everything that was sent before. The connection ends when the peer has
// answered the frame, or when Options.Session.Linger is over. A close frame of the peer is answered automatically and ends the connection. The
// handler's Close gets the cause, and [CodeOf] returns the close code. [Conn.CloseNow] ends a connection without a close frame.
//
// # Sending
//
// Any goroutine may send; the order of the calls is the order of the messages. The caller writes from its own stack, without waiting for the
// peer. Bytes that the socket does not take are queued, within bounds. At the bound session.Policy decides: wait, refuse, drop or end the
// connection. DropOldest must not be used with Compression.Takeover, or with [Conn.NextWriter]. Frames that a handler sends while the messages
// of one read are handled are corked, and leave in one write.
//
// [Prepare] makes a message for many connections. Its frame is built once for each form, plain and compressed, however many connections get it:
//
//	p := websocket.Prepare(websocket.OpText, news)
//	websocket.Broadcast(p, srv.Conns(), nil)
//
// [Conn.NextWriter] writes a message piece by piece. [Conn.Session] returns the session under the connection. Its TryWrite is for programs that
// keep the frames elsewhere, such as in a log, and want nothing queued.
//
// # Compression
//
// Compression is off by default. With [Compression] it is used with peers that support it, for messages from a given size on. By default each
// message is compressed on its own: that costs no memory between messages, and a broadcast is compressed once. With a context (Takeover) similar
// messages become very small. Then each connection keeps what it has sent and the encoder's tables: some ten kilobytes with the default window,
// a hundred with the largest. Options.MaxMessage bounds a received message after inflating.
//
// Do not compress secrets together with text that an attacker can choose: the compressed size can reveal the secret (CRIME).
//
// # Limits
//
// These limits are on by default. A message has at most 64 KiB and 1,024 fragments, and one more fragment for each 16 bytes of it. A handshake
// has at most 8 KiB and 100 lines, and takes at most ten seconds. At most 64 KiB wait to be sent. Options.Session bounds the number of
// connections. Each ping is answered, and a peer that does not read the answers is not read any more. Memory is allocated for bytes that have
// arrived, never for an announced length.
//
// # Below
//
// Package wire, in this folder, is the protocol as a state machine without I/O, for programs that own their connections themselves.
package websocket
