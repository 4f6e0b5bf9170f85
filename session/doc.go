// Package session runs servers and clients of framed connections. A live connection is a [Session]: it has an identity, a [Codec]
// that cuts its bytes into messages, and a [Handler] that is called with them. Two lines make a server:
//
//	srv := session.NewServer(codec.Length{}, &session.Handler{Message: echo}, nil)
//	err := srv.Serve(ln)
//
// and as many make a client, whose messages are asked for:
//
//	s, err := session.Dial(ctx, "tcp", address, codec.Length{}, nil)
//	for msg := range s.Messages(ctx, &err) { … }
//
// It runs over any net.Conn: TCP, TLS, Unix sockets, net.Pipe. Connections that were accepted elsewhere, or upgraded by another
// protocol, are given to [Server.ServeConn]. A [Client] is for many connections. Behind a proxy that sends PROXY headers, Serve is given a
// [transport.Listener] that reads them, and sessions have the address of the client.
//
// # The life of a session
//
//	accepted ─► PROXY header ─► TLS handshake ─► Open ─► Message … Message ─► Close
//	   │             │               │             │
//	   refused by a limit, a bad header, or a failed handshake: no function is called
//	                                               └─ an error refuses the connection: no Message, but Close
//
// Three laws hold, whatever ends the session and when. Open is called at most once, and first: nothing else begins before it has
// returned. Close is called exactly once if Open was, and last: no Message and no Writable after it. [Session.Close] and
// [Server.Close] wait for all that, except when they are called from a handler.
//
// A session ends in one of two ways. At once: [Session.Close], [Session.Abort], a time-out, a panic, an error of the connection; what
// is not written is dropped, and counted in [CloseInfo]. Or gently: [Session.End], the peer's end, an error of the codec; what
// waits, and a last frame, is written first, then the connection is half-closed, and the peer has Options.Linger to end as well. Where a
// peer answers a goodbye, as in WebSocket, [Session.EndWait] half-closes only when it has.
// A peer that half-closes its side has left: it still gets what was sent to it so far, and nothing more can be sent.
//
// # Handlers
//
// Open, Message, Tick and Close of one session run one after the other, in the order of the messages. A handler may block: it holds up
// its own session only, which stops reading, so that the peer feels it. Bytes given to a handler are borrowed until it returns. A panic
// ends the session, and no other.
//
// [Typed] is a handler whose functions are given the state of their session. [Chain] puts [Middleware] around a handler.
//
// A protocol that goes on as another, such as HTTP upgraded to WebSocket, gives its session another codec, handler and limits, in Open,
// Message or Tick: [Session.SetCodec], [Session.SetHandler], [Session.SetLimits]. What was received and not used yet is the new
// codec's.
//
// # Asking for messages
//
// Sessions of a handler that says Pull, and those of a client without a handler, have their messages received with [Session.Receive] or
// [Session.Messages], one at a time, whenever somebody wants the next one. What nobody asks for is not read, beyond a buffer
// full. Somebody has to ask, though: only who reads learns that the peer has left.
//
// # Writing
//
// [Session.Send] encodes a message and writes it, [Session.SendAs] with another encoder than the codec, [Session.Write] a frame that is
// already encoded, [Session.WriteShared] one that nobody changes any more. Any goroutine may call them; the order of the bytes is the order
// of the calls. The caller writes from its own stack when nobody else is writing, without blocking; otherwise the frame is queued for who
// is. There is no goroutine that writes, unless a connection has no room: then one waits for room, and ends when the queue is empty.
//
// The queue is bounded, in bytes, frames and age; [Policy] says what happens when it is full. The default is to wait: a handler that
// sends more than its peer reads stops reading itself, and gives up after Options.WriteTimeout.
//
// While the messages of one read are handled, what is sent to that session is gathered and leaves in one write. Nothing else is
// delayed: there are no timers, and a handler that takes more than a millisecond or two no longer holds anything back, its own
// replies or what others send.
//
// Large frames need not be copied: [Session.WriteLarge] and [Session.WriteFile] write memory and files from where they lie, and return when
// that is done.
//
// # Fan-out
//
// [Session.TryWrite] is for those who have the same frames for very many sessions and keep them elsewhere, in a log: it takes what
// the socket takes, and the rest is not queued but forgotten, to be read again from the log when Writable is called. However slow a
// peer is, its session then holds the tail of one frame, and over TLS at most one record of 16 KiB. Set Options.NotSentLowat, or
// SendBuffer, so that the kernel does not hold megabytes either.
//
// [SendAll] sends to many sessions what [Session.SendAs] would send to each, and takes less time.
//
// # Engines
//
// On Linux, sessions over plain TCP and Unix sockets are run by a few event loops, which call handlers themselves. A handler that has
// kept its loop for a millisecond or two, or is about to wait for its peer, loses it: another goroutine goes on with the loop, and the
// handler finishes on its own. A session whose handler blocks often, and all that are not idle when those of three have within a second,
// wait for their peers on goroutines instead, where they hold up nobody, until handlers are quick again. So blocking is safe. An idle session
// has no goroutine or buffer.
//
// With Options.TLS that holds for sessions over TLS as well: a goroutine makes the handshake, and then crypto/tls works in memory,
// which a test at the first of them has to show. Where it fails, which the log says, they have goroutines, as they have over the
// connections of a TLS listener. An idle one costs 8 KB instead of 19, the state of crypto/tls included; more after large records.
//
// Other connections, and all with EngineGoroutine, have a goroutine each, which is parked while the peer is silent; over plain
// sockets it holds no buffer then, otherwise 4 KiB. Buffers are borrowed while bytes are there, also for a message that is half
// here, which costs what has arrived of it. Codecs never make the session allocate what a peer merely declares. When the peer has
// been silent for ten to twenty seconds another goroutine takes the place of one that has handled something, with a small stack.
//
// # Datagrams
//
// [Server.ServePacket] runs a session for each address that sends datagrams to a socket, and [Client.Dial] one over a socket of its own,
// for networks "udp", "udp4" and "udp6". Handlers, limits and everything else are the same; what differs is what datagrams are.
//
// A datagram holds whole messages: Decode is called until it is used up. What is incomplete or wrong is dropped with the rest of that
// datagram, and counted (Stats.BadDatagrams), and the session lives: anybody can send a datagram under another's address. Only a codec
// that says io.EOF ends it. Datagrams are lost, doubled and swapped, so a codec with state from one to the next is its user's risk. An
// empty one is a sign of life and no more.
//
// Each Send, Write or WriteShared is one datagram, and so are WriteLarge, WriteFile and the replies of a codec. There is no queue. While
// the datagrams of one batch are handled, what is sent over the socket is gathered, and leaves in one system call; an error of the system about one of those
// is counted as a drop. When the kernel has no room, Wait waits for at most Options.WriteTimeout; then, and with all other policies at
// once, the datagram is dropped and counted, and the call returns [ErrTimeout] or [ErrQueueFull]. It is no reason to end a session,
// because the kernel's buffer is not the peer's. One that is too large is an [ErrTooLarge] of that call. TryWrite takes what the kernel
// takes, and one frame more, which finds out when there is room again. Sockets other than a *transport.PacketConn have no write that
// does not wait: there every call may, for at most Options.WriteTimeout.
//
// A session ends when nothing was received for Options.IdleTimeout, by default a minute, or as others do; End sends its last frame and
// does not wait for the peer, who hears nothing else of it. The next datagram of that peer makes a new session, when Close of the
// handler has returned. What comes until then is lost. So is what comes when 64 datagrams, or Options.QueueBytes, wait for a session
// whose handler is busy (Stats.LostDatagrams). A dialed session ends, ByError, when the system says that nobody listens at the peer's
// port (ECONNREFUSED): whatever the peer knew of it is gone.
//
// A reader, one goroutine for each socket, reads and calls handlers itself. It is replaced as the driver of an event loop is, so one that
// blocks holds up its own session only; on a dialed socket, the whole session. An idle session costs about a kilobyte. Their number
// is bounded, by default, because addresses are easily forged: beyond the bound a new peer costs a look at the table, and a count.
//
// # Executors
//
// Options.Executor, one of package workerpool for example, bounds how many handlers run at a time, for all sessions of one server or of
// several. All turns are its then, on both engines. A session without room in it is not read, so that the peer feels it.
//
// # Watching
//
// [Server.Stats] counts; an [Observer] is told whose events they were, and why. Options.Logger hears of panics and of trouble with
// accepting.
//
// # Time
//
// Clocks are not moved with each message: when one has run out, it is looked up whether the peer was silent for so long. A session
// owns no timer; its loop has one for all, or its goroutine the connection's deadlines.
package session
