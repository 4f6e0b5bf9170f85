// Package session runs servers of framed connections. A live connection is a [Session]: it has an identity, a [Codec] that cuts its
// bytes into messages, and a [Handler] that is called with them. Two lines make a server:
//
//	srv := session.NewServer(codec.Length{}, &session.Handler{Message: echo}, nil)
//	err := srv.Serve(ln)
//
// It runs over any net.Conn: TCP, TLS, Unix sockets, net.Pipe. Connections that were accepted elsewhere, or upgraded by another
// protocol, are given to [Server.ServeConn].
//
// # The life of a session
//
//	accepted ─► TLS handshake ─► Open ─► Message … Message ─► Close
//	   │             │             │
//	   refused by a limit, or a failed handshake: no function is called
//	                               └─ an error refuses the connection: no Message, but Close
//
// Three laws hold, whatever ends the session and when. Open is called at most once, and first: nothing else before it returned. Close is called exactly once if Open
// was, and last: no Message and no Writable after it. [Session.Close] and [Server.Close] wait for all that, except when they are
// called from a handler.
//
// A session ends in one of two ways. At once: [Session.Close], [Session.Abort], a time-out, a panic, an error of the connection; what
// is not written is dropped, and counted in [CloseInfo]. Or gently: [Session.End], the peer's end, an error of the codec; what
// waits, and a last frame, is written first, then the connection is half-closed, and the peer has Options.Linger to end as well.
// A peer that half-closes its side has left: it still gets what was sent to it so far, and nothing more can be sent.
//
// # Handlers
//
// Open, Message and Close of one session run one after the other, on the session's own goroutine, in the order of the messages. A
// handler may block: it holds up its own session only, which stops reading, so that the peer feels it. Bytes given to a handler are
// borrowed until it returns. A panic ends the session, and no other.
//
// # Writing
//
// [Session.Send] encodes a message and writes it, [Session.Write] a frame that is already encoded, [Session.WriteShared] one that
// nobody changes any more. Any goroutine may call them; the order of the bytes is the order of the calls. The caller writes from its
// own stack when nobody else is writing, without blocking; otherwise the frame is queued for who is. There is no goroutine that
// writes, unless a connection has no room: then one waits for room, and ends when the queue is empty.
//
// The queue is bounded, in bytes, frames and age; [Policy] says what happens when it is full. The default is to wait: a handler that
// sends more than its peer reads stops reading itself, and gives up after Options.WriteTimeout.
//
// While the messages of one read are handled, what is sent to that session is gathered and leaves in one write. Nothing else is
// delayed: there are no timers, and a handler that takes more than a millisecond or two no longer holds anything back, its own
// replies or what others send.
//
// # Fan-out
//
// [Session.TryWrite] is for those who have the same frames for very many sessions and keep them elsewhere, in a log: it takes what
// the socket takes, and the rest is not queued but forgotten, to be read again from the log when Writable is called. However slow a
// peer is, its session then holds the tail of one frame. Set Options.NotSentLowat, or SendBuffer, so that the kernel does not hold
// megabytes either.
//
// # What a session costs
//
// On Linux, over plain TCP or Unix sockets, an idle session is one parked goroutine on its smallest stack and about half a kilobyte:
// buffers are borrowed while bytes are there, also for a message that is half here, which costs what has arrived of it. Elsewhere, and
// over TLS, a session holds 4 KiB for reading. Codecs never make the session allocate what a peer merely declares.
//
// # Time
//
// HandshakeTimeout and IdleTimeout share the connection's one read deadline, which is not moved with each message: it is looked at
// again when it has passed. WriteTimeout is the write deadline of the goroutine that waits for room. So a session owns no timer.
package session
