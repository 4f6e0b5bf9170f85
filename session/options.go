package session

import (
	"crypto/tls"
	"errors"
	"log/slog"
	"time"

	"github.com/sluice-push/sluice/internal/buffer"
	"github.com/sluice-push/sluice/internal/errclosed"
	"github.com/sluice-push/sluice/internal/sockopt"
	"github.com/sluice-push/sluice/internal/writer"
	"github.com/sluice-push/sluice/transport"
)

// Errors that callers branch on, with errors.Is.
var (
	// ErrClosed says that the session has ended or is ending. The error also wraps the cause. It is a net.ErrClosed.
	ErrClosed error = errclosed.Error("session: closed")
	// ErrServerClosed is what Serve and ServeConn return after Close or Shutdown. It is a net.ErrClosed.
	ErrServerClosed error = errclosed.Error("session: server closed")
	// ErrClientClosed is what Dial and ServeConn return after Close or Shutdown. It is a net.ErrClosed.
	ErrClientClosed error = errclosed.Error("session: client closed")
	// ErrQueueFull says that a frame was not taken because the outgoing queue was full.
	ErrQueueFull = writer.ErrQueueFull
	// ErrTimeout says that the peer was too slow: with its handshake, with sending anything, or with reading.
	ErrTimeout = errors.New("session: timeout")
	// ErrTooLarge says that a message is larger than Options.MaxMessage.
	ErrTooLarge = errors.New("session: message is too large")
	// ErrLimit says that a connection was refused because there are as many sessions as Options allow.
	ErrLimit = errors.New("session: too many sessions")
	// ErrNoCodec says that a session has no codec.
	ErrNoCodec = writer.ErrNoEncoder
	// ErrNoPull says that the messages of a session go to its handler, so that they cannot be received.
	ErrNoPull = errors.New("session: messages go to the handler and cannot be received")
	// ErrReceiving says that another goroutine is receiving the messages of a session.
	ErrReceiving = errors.New("session: another goroutine is receiving messages")
)

// Policy says what Send, SendAs, Write and WriteShared do when the outgoing queue is full.
type Policy uint8

// The policies. Replies of the codec are always taken. If the queue is full then, no more messages are decoded until the queued frames have been
// written. TryWrite never queues.
const (
	// Wait blocks the caller until there is room, for at most WriteTimeout; then the session ends with ErrTimeout. If the caller is the
	// session's own handler, the session stops reading meanwhile, and TCP slows the peer down. Wait tries not to block a goroutine: while a
	// quarter of the queue is full of answers, no message is handled and nothing is read. So a handler that answers a message with less than
	// half of the queue never waits. Wait is the default.
	Wait Policy = iota + 1
	// Refuse does not take the frame: the call returns ErrQueueFull.
	Refuse
	// DropOldest makes room by dropping whole frames of which nothing was written yet, oldest first. It must not be used with a codec whose
	// frames depend on earlier frames.
	DropOldest
	// CloseSlow ends the session, BySlow with ErrQueueFull.
	CloseSlow
)

// Engine selects how sessions are run: see the package comment.
type Engine uint8

// The engines.
const (
	// EngineAuto is EngineLoop where there are event loops, and EngineGoroutine otherwise.
	EngineAuto Engine = iota
	// EngineLoop runs sessions over TCP and Unix sockets on event loops, on Linux, also with Options.TLS. Other sessions get goroutines.
	EngineLoop
	// EngineGoroutine runs each session on a goroutine of its own. On Linux, bytes behind a peer's urgent data (RFC 6093 advises against urgent
	// data) may be handled late.
	EngineGoroutine
)

// Options are the settings of a server or of a client. A client does not use those for accepting and for first bytes. A nil *Options means all
// defaults. For every number and duration, zero means the default and negative means off, unless the field says something else.
type Options struct {
	// MaxMessage is the largest message in bytes, received or assembled by the codec; default 64 KiB. A codec has a limit of its own, which has
	// to be raised as well. For an incomplete message, at most MaxMessage and 16 KiB of framing are kept.
	MaxMessage int
	// ReadBuffer is the size in bytes of the pooled buffers that sessions borrow while they read; default 64 KiB, never off. An event loop has
	// one buffer for all its sessions, by default of 128 KiB. If a peer sends but does not read, up to ReadBuffer bytes of its input may be
	// kept. A datagram that is larger than ReadBuffer is bad; on a socket that is not a *udp.Conn, also one of that size. With smaller buffers a socket reads more datagrams at once: it holds up to 64
	// buffers, and 2 MiB.
	ReadBuffer int

	// QueueBytes and QueueFrames bound the frames that wait to be written for one session, defaults 64 KiB and 1,024; never off. If the queue is
	// empty, it takes a frame that is larger than QueueBytes. From 256 KiB on, QueueBytes also bounds the memory that the queued frames take.
	// Datagrams are not queued for writing: there QueueBytes bounds the datagrams that wait to be handled.
	QueueBytes  int
	QueueFrames int
	// QueueAge makes the queue count as full when its oldest frame has waited that long. Zero means that age does not matter.
	QueueAge time.Duration
	// Policy is what happens when the queue is full; default Wait.
	Policy Policy

	// WriteTimeout ends a session that has bytes to write if its peer took none for so long; default 10 s. It also bounds how long the Wait
	// policy waits. Over datagrams it only does the latter, and the session lives.
	WriteTimeout time.Duration
	// HandshakeTimeout bounds the PROXY header and then the TLS handshake; default 10 s each. For a client's Dial it bounds connecting and the
	// TLS handshake together.
	HandshakeTimeout time.Duration
	// FirstTimeout bounds the time after the handshake until the codec has used the first bytes; default HandshakeTimeout. It holds for
	// connections that Serve accepts, and for those given to ServeConn without an [Attach]. If the clients of a server only listen, it has to be
	// negative, or they are disconnected when it has passed.
	FirstTimeout time.Duration
	// IdleTimeout ends a session from which nothing was received for so long. Zero means off: a client that is only pushed to may be silent, and
	// TCP keep-alive finds peers that are gone. Datagrams have no keep-alive: there zero means one minute, and negative off.
	IdleTimeout time.Duration
	// Linger is how long a session that End was called for waits for the peer to end it too; default 5 s. Over datagrams there is no wait. An
	// ending session is closed WriteTimeout and Linger after End at the latest, even if the peer still reads queued frames.
	Linger time.Duration

	// TickInterval is how often Tick of the handler is called for each session, from its beginning; zero is never.
	TickInterval time.Duration

	// Engine is what runs the sessions.
	Engine Engine

	// Executor runs Open, Message and Tick of all sessions, except those whose messages are received. It decides how many run at a time.
	// Functions of one session still run one after the other, so the executor need not keep an order; the key that it gets is the session's ID.
	// While it has no room, sessions are not read, so that peers slow down, and nothing is dropped. Several servers may share it. It must not be
	// closed before the server is. If it drops a task, the session of that task is not read any more, and ends when it is closed. If Executor is
	// nil, functions run on event loops, or on the goroutines of sessions: see the package comment.
	Executor Executor

	// MaxSessions bounds the sessions of the server, MaxSessionsPerAddress those from one IP address (for IPv6: from one /64). A connection
	// beyond a bound is closed at once and counted as refused; a datagram beyond a bound is dropped. Zero means no bound, with one exception:
	// addresses of datagrams are easily forged, so sessions over datagrams are then bounded by 65,536. If MaxSessions is negative, they have no
	// bound either.
	MaxSessions           int
	MaxSessionsPerAddress int

	// TLS makes sessions speak TLS, as the server's end, over connections that do not speak it already. Such sessions can run on event loops,
	// which those over the connections of a TLS listener cannot: see the package comment. The Config is not copied and must not be changed
	// afterwards. A client's Dial speaks TLS as the client's end; a client's ServeConn adds no TLS.
	TLS *tls.Config

	// Delay, KeepAlive, SendBuffer and NotSentLowat are socket options. Connections of a *transport.Listener have the listener's options
	// instead.

	// Delay leaves Nagle's algorithm on. By default frames leave at once.
	Delay bool
	// KeepAlive is the interval of TCP keep-alive probes. Zero is 15 s; for a connection given to ServeConn, zero changes nothing. Negative is
	// never.
	KeepAlive time.Duration
	// SendBuffer bounds the kernel's send buffer of a TCP connection in bytes (SO_SNDBUF); zero leaves it to the system.
	SendBuffer int
	// NotSentLowat bounds the bytes that the kernel takes before it could send them (TCP_NOTSENT_LOWAT, Linux only). Then TryWrite refuses
	// early, and stale data does not wait in the kernel, where it cannot be replaced. Zero leaves it to the system.
	NotSentLowat int

	// ZeroCopy is the size in bytes from which [Session.WriteLarge] has the kernel send memory without copying it (MSG_ZEROCOPY), over plain TCP
	// on event loops; zero is never. If the kernel reports that it has copied after all, as it does on the loopback interface, zero copy is
	// given up for that connection. It needs a network card that can do it, and is for frames of more than some 10 KiB.
	ZeroCopy int

	// Observer is told of events; it is copied.
	Observer *Observer
	// Logger gets panics and trouble with accepting; nil discards.
	Logger *slog.Logger
}

// socket returns the options of sockets that the client or the server makes.
func (o *Options) socket() *transport.Options {
	return &transport.Options{
		Delay: o.Delay, KeepAlive: o.KeepAlive, SendBuffer: o.SendBuffer, NotSentLowat: o.NotSentLowat, Logger: o.Logger,
	}
}

// tcp returns the socket options of a connection that was made elsewhere.
func (o *Options) tcp() sockopt.TCP {
	return sockopt.TCP{Delay: o.Delay, KeepAlive: o.KeepAlive, Send: o.SendBuffer, NotSent: o.NotSentLowat}
}

// settings are Options after defaults have been applied, with values that are derived from them.
type settings struct {
	Options
	writer writer.Config // without its pools
	read   int           // ReadBuffer as given, or 0

	// Of sessions over datagrams.
	packetIdle     time.Duration // IdleTimeout of sessions without limits of their own; 0 is never
	packetSessions int           // how many sessions there are at most
}

// settings returns the settings that o describes.
func (o *Options) settings() settings {
	c := o.withDefaults()
	var given Options
	if o != nil {
		given = *o
	}
	return settings{
		Options: c, packetIdle: duration(given.IdleTimeout, packetIdle), packetSessions: size(given.MaxSessions, packetSessions, maxInt),
		writer: writer.Config{
			Bounds: buffer.Bounds{
				Bytes: c.QueueBytes, Frames: c.QueueFrames, Age: int64(c.QueueAge),
				Memory: max(c.QueueBytes, memoryLeast), Chunk: buffer.ChunkSize,
			},
			Policy:       writer.Policy(c.Policy), // the constants have the same order
			WriteTimeout: c.WriteTimeout, CorkBytes: writer.CorkBytes(c.QueueBytes),
		},
		read: max(given.ReadBuffer, 0),
	}
}

// memoryLeast is the least bound on the memory of a queue, for queues of few bytes.
const memoryLeast = 16 * buffer.ChunkSize

// headerSlack is how many bytes beyond MaxMessage are kept of an incomplete message, for framing or the request of an HTTP upgrade.
const headerSlack = 16 << 10

// withDefaults returns a copy of o in which every field is literal: a duration that is off is 0, and a size that is off is the largest int.
func (o *Options) withDefaults() Options {
	var c Options
	if o != nil {
		c = *o
	}
	c.MaxMessage = size(c.MaxMessage, 64<<10, maxInt-headerSlack)
	c.ReadBuffer = size(c.ReadBuffer, 64<<10, 64<<10)
	c.QueueBytes = size(c.QueueBytes, 64<<10, 64<<10)
	c.QueueFrames = size(c.QueueFrames, 1024, 1024)
	c.QueueAge = max(c.QueueAge, 0)
	if c.Policy == 0 {
		c.Policy = Wait
	}
	c.WriteTimeout = duration(c.WriteTimeout, 10*time.Second)
	c.HandshakeTimeout = duration(c.HandshakeTimeout, 10*time.Second)
	c.FirstTimeout = duration(c.FirstTimeout, c.HandshakeTimeout)
	c.IdleTimeout = max(c.IdleTimeout, 0)
	c.Linger = duration(c.Linger, 5*time.Second)
	c.TickInterval = max(c.TickInterval, 0)
	c.ZeroCopy = max(c.ZeroCopy, 0)
	c.MaxSessions = size(c.MaxSessions, maxInt, maxInt)
	c.MaxSessionsPerAddress = max(c.MaxSessionsPerAddress, 0)
	if c.Logger == nil {
		c.Logger = slog.New(slog.DiscardHandler)
	}
	return c
}

const maxInt = int(^uint(0) >> 1)

// size reads an option that is a number. It returns def if n is zero, and off if n is negative.
func size(n, def, off int) int {
	switch {
	case n == 0:
		return def
	case n < 0:
		return off
	default:
		return n
	}
}

// duration reads an option that is a time. It returns def if d is zero, and 0 if d is negative.
func duration(d, def time.Duration) time.Duration {
	if d == 0 {
		return def
	}
	return max(d, 0)
}
