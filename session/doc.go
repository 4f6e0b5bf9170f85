// Package session runs servers and clients of framed connections. A live connection is a [Session]: it has an identity, a [Codec] that cuts its
// bytes into messages, and a [Handler] that is called with each message. Two lines make a server:
//
//	srv := session.NewServer(codec.Length{}, &session.Handler{Message: echo}, nil)
//	err := srv.Serve(ln)
//
// Two lines also make a client, which asks for its messages:
//
//	s, err := session.Dial(ctx, "tcp", address, codec.Length{}, nil)
//	for msg := range s.Messages(ctx, &err) { … }
//
// A session runs over any net.Conn: TCP, TLS, Unix sockets, net.Pipe. [Server.ServeConn] runs a session on a connection that was accepted
// elsewhere, or was upgraded by another protocol. A [Client] makes many connections. Behind a proxy that sends PROXY headers, Serve takes a
// [transport.Listener] that reads these headers, and each session has the address of its client.
//
// # The life of a session
//
//	accepted ─► PROXY header ─► TLS handshake ─► Open ─► Message … Message ─► Close
//	   │             │               │             │
//	   refused by a limit, a bad header, or a failed handshake: no function is called
//	                                               └─ an error refuses the connection: no Message, but Close
//
// Three laws hold, whatever ends the session and when. Open is called at most once, and first: no other function begins before Open has
// returned. Close is called exactly once if Open was called, and last: no Message and no Writable follows. [Session.Close] and [Server.Close]
// wait for all that, except when a handler calls them.
//
// A session ends in one of two ways. It ends at once after [Session.Close], [Session.Abort], a time-out, a panic, or an error of the connection:
// bytes that are not written are dropped, and [CloseInfo] counts them. It ends gently after [Session.End], the peer's end, or an error of the
// codec: queued frames and a last frame are written first, then the connection is half-closed, and the peer has Options.Linger to end its side.
// If a protocol has a closing handshake, as WebSocket has, [Session.EndWait] half-closes only after the peer has answered. A peer that
// half-closes its side has left: it still gets the frames that were sent so far, and nothing more can be sent.
//
// # Handlers
//
// Open, Message, Tick and Close of one session run one after the other, in the order of the messages. A handler may block: it delays only its
// own session. That session stops reading, and TCP slows its peer down. Bytes that a handler gets are borrowed until it returns. A panic ends
// only its own session.
//
// [Typed] is a handler whose functions get the state of their session. [Chain] puts [Middleware] around a handler.
//
// A connection may change its protocol, as HTTP does when it is upgraded to WebSocket. Then Open, Message or Tick gives the session another
// codec, handler and limits: [Session.SetCodec], [Session.SetHandler], [Session.SetLimits]. Bytes that have arrived and are not decoded yet go
// to the new codec.
//
// # Asking for messages
//
// If a handler says Pull, or a client has no handler, the caller gets the messages from [Session.Receive] or [Session.Messages], one at a time.
// The session reads no further than one buffer ahead of the caller. Some goroutine has to ask, though: without reading, a session does not learn
// that its peer has left.
//
// # Writing
//
// [Session.Send] encodes a message and writes it. [Session.SendAs] uses another encoder than the codec. [Session.Write] writes a frame that is
// already encoded, and [Session.WriteShared] one that never changes any more. Any goroutine may call them; the order of the bytes is the order
// of the calls. If no other goroutine is writing, the caller writes, on its own stack and without blocking. Otherwise the frame is queued, and
// the writing goroutine writes it too. A session has no writer goroutine of its own, unless the connection has no room: then one goroutine waits
// for room, and ends when the queue is empty.
//
// The queue is bounded, in bytes, frames and age; [Policy] says what happens when it is full. The default is to wait: a handler that sends more
// than its peer reads stops reading itself, and fails after Options.WriteTimeout.
//
// While the messages of one read are handled, frames for that session are corked, and leave in one write. There is no timer that delays other
// frames. If a handler blocks for more than a millisecond or two, or computes for 10 ms, the cork is pulled: neither its replies nor frames of other
// goroutines wait longer.
//
// Large frames need not be copied: [Session.WriteLarge] and [Session.WriteFile] write memory and files in place, and return when that is done.
//
// # Fan-out
//
// [Session.TryWrite] is for callers that send the same frames to very many sessions and keep these frames in a log. It writes as many bytes as
// the socket takes. Frames that find no room are not queued: when Writable is called, the caller reads them from its log again. However slow a
// peer is, its session holds at most the tail of one frame, and over TLS one record of 16 KiB. Set Options.NotSentLowat or SendBuffer as well,
// so that the kernel does not hold megabytes for each peer.
//
// [SendAll] sends a message to each of many sessions, as [Session.SendAs] does, in less time than a call for each takes. [TryWriteAll] does so
// for TryWrite.
//
// # Engines
//
// On Linux, a few event loops run the sessions over plain TCP and Unix sockets, and their threads call the handlers. If a handler blocks for a
// millisecond or two, or is about to wait for its peer, the loop is handed off to another thread, and the handler finishes on its own. For the
// next five seconds that session is offloaded: a goroutine of its own runs its handlers, where they delay no other session. If the handlers of
// two sessions block within a second, all sessions of the loop that are not idle are offloaded. So blocking is safe, and a server whose handlers
// all block costs about as much as one with a goroutine for each connection. An idle session has no goroutine and no buffer.
//
// With Options.TLS, event loops also run sessions over TLS. A goroutine makes the handshake, and then crypto/tls works in memory. The first such
// session tests whether this version of crypto/tls can do so. If the test fails, the log says so, and sessions over TLS get goroutines. ServeConn
// gives connections to loops that [transport.ServerTLS] has made, after their handshake; other connections that speak TLS already get goroutines.
//
// Other connections have a goroutine each, and so have all connections with EngineGoroutine. It is parked while the peer is silent. It holds no
// buffer then over plain sockets, and 4 KiB otherwise. Sessions borrow their buffers while bytes are there. An incomplete message takes as much
// memory as has arrived of it: codecs never make the session allocate what a peer merely declares. If the peer has been silent for ten to twenty
// seconds, a new goroutine with a small stack replaces one that has handled messages.
//
// # Datagrams
//
// [Server.ServePacket] runs a session for each address that sends datagrams to a socket. [Client.Dial] runs one over a socket of its own, for
// the networks "udp", "udp4" and "udp6". Handlers, limits and everything else are the same, with the differences that follow.
//
// A datagram holds whole messages: Decode is called until the datagram is used up. If a message is incomplete or wrong, the rest of that
// datagram is dropped and counted (Stats.BadDatagrams), and the session lives: any host can send a datagram under another host's address. Only a
// codec that returns io.EOF ends the session. The network may lose, duplicate and reorder datagrams, so a codec should keep no state from one to
// the next. An empty datagram only shows that the peer is alive.
//
// Each Send, Write, WriteShared, WriteLarge or WriteFile sends one datagram, and so do the replies of a codec. There is no queue. While the
// datagrams of one batch are handled, datagrams that are sent over the socket are collected, and leave in one system call; an error of the
// system about one of them is counted as a drop. When the kernel has no room, the policy Wait waits for at most Options.WriteTimeout. After
// that, and with all other policies at once, the datagram is dropped and counted, and the call returns [ErrTimeout] or [ErrQueueFull]. The
// session does not end, because the kernel's buffer is not the peer's. A datagram that is too large is an [ErrTooLarge] of that call. TryWrite
// sends as many datagrams as the kernel takes, and holds one more, with which it finds out when there is room again. Sockets other than a
// *udp.Conn cannot write without blocking: there every call may block, for at most Options.WriteTimeout.
//
// A session ends when nothing was received for Options.IdleTimeout, by default a minute, or for the reasons that end other sessions. End sends
// the last frame and does not wait for the peer, which gets no other notice. The next datagram of that peer makes a new session, after Close of
// the handler has returned. Datagrams that arrive before that are lost. Datagrams are also lost while 64 of them, or Options.QueueBytes, wait
// for a session whose handler is busy (Stats.LostDatagrams). A dialed session ends, ByError, when the system reports that no socket is bound to
// the peer's port (ECONNREFUSED): the peer has lost its state.
//
// Each socket has one goroutine, the reader, that reads and calls handlers. If a handler blocks, another reader takes its place, as with an
// event loop, so the handler delays only its own session; on a dialed socket, that is the only one. An idle session needs neither a goroutine
// nor a buffer. The number of sessions is bounded by default, because addresses are easily forged: beyond the bound, a datagram of a new peer
// costs one look-up and is counted.
//
// # Executors
//
// Options.Executor, for example one of package workerpool, bounds how many handlers run at a time, for all sessions of one server or of several.
// It then runs Open, Message and Tick of all sessions. While the executor has no room for a session, the session is not read, and TCP slows its
// peer down.
//
// # Monitoring
//
// [Server.Stats] counts events. An [Observer] is told which session an event belongs to, and why it happened. Options.Logger gets panics and
// trouble with accepting.
//
// # Time
//
// A message that arrives moves no timer: when a timer fires, the session checks whether its peer was silent for that long. A session owns no
// timer: its event loop or datagram socket has one for all its sessions, and a goroutine uses the deadlines of its connection.
package session
