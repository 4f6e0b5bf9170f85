package session

import (
	"crypto/tls"
	"errors"
	"log/slog"
	"time"

	"github.com/sluice-push/sluice/internal/buffer"
	"github.com/sluice-push/sluice/internal/closed"
	"github.com/sluice-push/sluice/internal/socket"
	"github.com/sluice-push/sluice/transport"
)

// Errors that callers branch on, with errors.Is.
var (
	// ErrClosed says that the session has ended or is ending; the error also wraps the cause. It is a net.ErrClosed.
	ErrClosed error = closed.Error("session: closed")
	// ErrServerClosed is what Serve and ServeConn return after Close or Shutdown. It is a net.ErrClosed.
	ErrServerClosed error = closed.Error("session: server closed")
	// ErrClientClosed is what Dial and ServeConn return after Close or Shutdown. It is a net.ErrClosed.
	ErrClientClosed error = closed.Error("session: client closed")
	// ErrQueueFull says that a frame was not taken because the outgoing queue was full.
	ErrQueueFull = errors.New("session: outgoing queue is full")
	// ErrTimeout says that the peer was too slow: with its handshake, with a sign of life, or with reading.
	ErrTimeout = errors.New("session: timeout")
	// ErrTooLarge says that a message is larger than Options.MaxMessage.
	ErrTooLarge = errors.New("session: message is too large")
	// ErrLimit says that a connection was refused because there are as many sessions as Options allow.
	ErrLimit = errors.New("session: too many sessions")
	// ErrNoCodec says that a session has no codec.
	ErrNoCodec = errors.New("session: no codec")
	// ErrNoPull says that the messages of a session go to its handler.
	ErrNoPull = errors.New("session: messages are not received but handled")
	// ErrReceiving says that somebody else is receiving the messages of a session.
	ErrReceiving = errors.New("session: messages are being received elsewhere")
)

// Policy says what Send, Write and WriteShared do when the outgoing queue is full.
type Policy uint8

// The policies. Replies of the codec itself are always taken; where the queue is full nothing more is decoded until what waits has been written.
// TryWrite never queues.
const (
	// Wait blocks the caller until there is room, for at most WriteTimeout; then the session ends with ErrTimeout. When the
	// caller is the session's own handler, the session stops reading meanwhile, and the peer feels it. So that this seldom takes a
	// goroutine, no message is handled, and nothing read, while a quarter of the queue is full of answers: a handler that
	// answers a message with less than half of it never waits. It is the default.
	Wait Policy = iota + 1
	// Refuse returns ErrQueueFull.
	Refuse
	// DropOldest makes room by dropping whole frames of which nothing was written yet, oldest first. It must not be used with
	// a codec whose frames depend on the frames before.
	DropOldest
	// CloseSlow ends the session, BySlow with ErrQueueFull.
	CloseSlow
)

// Engine is what runs sessions: see the package comment.
type Engine uint8

// The engines.
const (
	// EngineAuto is EngineLoop where it is to be had.
	EngineAuto Engine = iota
	// EngineLoop runs sessions over TCP and Unix sockets on event loops, on Linux, also with Options.TLS. Others get goroutines.
	EngineLoop
	// EngineGoroutine runs each session on a goroutine of its own. What comes behind a peer's urgent data (RFC 6093 advises against it) may be
	// handled late on Linux.
	EngineGoroutine
)

// Options are the settings of a server, or of a client, for which those of accepting and of first bytes mean nothing. A nil *Options is
// all defaults. For every number and duration zero means the default and
// negative means off, unless it says something else.
type Options struct {
	// MaxMessage is the largest message in bytes, received or assembled by the codec; default 64 KiB. Codecs have a limit of their own,
	// which has to be raised as well. At most this and 16 KiB
	// of framing are kept for a message that is not complete.
	MaxMessage int
	// ReadBuffer is the size in bytes of the pooled buffers that sessions borrow while they read; default 64 KiB, never off; event loops
	// have one for all their sessions, 128 KiB by default. As much may be kept of what a peer has sent that does not read. A datagram
	// that is larger is bad; a smaller buffer lets a socket read more datagrams at once, of which it holds up to 64, and 2 MiB.
	ReadBuffer int

	// QueueBytes and QueueFrames bound what waits to be written for one session, defaults 64 KiB and 1,024. A frame that is
	// larger than QueueBytes is taken when nothing else waits. Never off. The memory that it takes to keep frames is bounded by
	// QueueBytes as well, if that is 256 KiB or more. Over datagrams, which are not queued for writing, QueueBytes bounds those that
	// wait to be handled.
	QueueBytes  int
	QueueFrames int
	// QueueAge makes the queue count as full when its oldest frame has waited that long; zero means it does not.
	QueueAge time.Duration
	// Policy is what happens when the queue is full; default Wait.
	Policy Policy

	// WriteTimeout ends a session that has bytes to write of which the peer's side took none for so long; default 10 s. It also
	// bounds how long the Wait policy waits. Over datagrams it only does that, and the session lives.
	WriteTimeout time.Duration
	// HandshakeTimeout bounds the TLS handshake, and before it the PROXY header; default 10 s. A client's Dial takes no longer for connecting
	// and the TLS handshake together.
	HandshakeTimeout time.Duration
	// FirstTimeout bounds the time after that until the codec has used the first bytes, for connections that Serve accepts and those
	// given to ServeConn without an [Attach]; default HandshakeTimeout. A server whose clients only listen has to set it to a negative
	// one, or they are disconnected when it has passed.
	FirstTimeout time.Duration
	// IdleTimeout ends a session from which nothing was received for so long. Zero means off: silence is normal where data is
	// pushed, and TCP keep-alive finds peers that are gone. Over datagrams, where nothing else tells, zero means one minute and negative
	// off.
	IdleTimeout time.Duration
	// Linger is how long a session that was ended waits for the peer to end it as well; default 5 s. Over datagrams none waits.
	Linger time.Duration

	// TickInterval is how often Tick of the handler is called for each session, from when it began; zero is never.
	TickInterval time.Duration

	// Engine is what runs the sessions.
	Engine Engine

	// Executor runs Open, Message and Tick of all sessions, but of those whose messages are received, if it is not nil: so many at a
	// time as it wants to. Functions of one session still run one after the other, so that it need not keep an order; the key that it
	// is given is the session's ID. While it has no
	// room sessions are not read, so that peers feel it; nothing is dropped. It is shared as its owner likes, and must not be closed
	// before the server is; a session whose turn it dropped is not read any more, and ends when it is closed.
	// Without one, functions run on event loops, or on the goroutines of sessions: see the package comment.
	Executor Executor

	// MaxSessions bounds the sessions of the server, MaxSessionsPerAddress those from one IP address (for IPv6: from one /64).
	// A connection beyond is closed at once and counted as refused. Zero means no bound; but of sessions over datagrams, whose
	// addresses are easily forged, 65,536 then, and no bound if MaxSessions is negative. A datagram beyond is dropped.
	MaxSessions           int
	MaxSessionsPerAddress int

	// TLS makes sessions speak TLS, as the server's end, over connections that do not speak it already. With it sessions over TLS
	// can run on event loops, which those over the connections of a TLS listener cannot: see the package comment. It is used as it
	// is, so it must not be changed afterwards. A client's Dial speaks it as the client's end; connections given to a client's
	// ServeConn are as they are.
	TLS *tls.Config

	// Delay, KeepAlive, SendBuffer and NotSentLowat are for sockets; those that a *transport.Listener accepts have its options instead.

	// Delay leaves Nagle's algorithm on. By default frames leave at once.
	Delay bool
	// KeepAlive is the interval of TCP keep-alive probes. Zero is 15 s, or what the connection has that is given to ServeConn;
	// negative is never.
	KeepAlive time.Duration
	// SendBuffer bounds the kernel's send buffer of a TCP connection in bytes (SO_SNDBUF); zero leaves it to the system.
	SendBuffer int
	// NotSentLowat bounds the bytes that the kernel takes before it could send them (TCP_NOTSENT_LOWAT, Linux only), so that
	// TryWrite refuses early and stale data is not queued where nobody can replace it. Zero leaves it to the system.
	NotSentLowat int

	// ZeroCopy is from how many bytes on [Session.WriteLarge] has the kernel send memory without copying it (MSG_ZEROCOPY), over plain TCP
	// on event loops; zero is never. It is given up for a connection for which the kernel reports that it has copied after
	// all, as it does on the loopback interface; it pays with network cards that can, and frames of more than some 10 KiB.
	ZeroCopy int

	// Observer is told of events; it is copied.
	Observer *Observer
	// Logger is told of panics and of trouble with accepting; nil discards.
	Logger *slog.Logger
}

// socket returns the options that are of the socket.
func (o *Options) socket() *transport.Options {
	return &transport.Options{
		Delay: o.Delay, KeepAlive: o.KeepAlive, SendBuffer: o.SendBuffer, NotSentLowat: o.NotSentLowat, Logger: o.Logger,
	}
}

// tcp returns those of a connection that was made elsewhere.
func (o *Options) tcp() socket.TCP {
	return socket.TCP{Delay: o.Delay, KeepAlive: o.KeepAlive, Send: o.SendBuffer, NotSent: o.NotSentLowat}
}

// settings are options, read, with what is derived from them.
type settings struct {
	Options
	bounds buffer.Bounds
	gather int // bytes that are gathered at most
	read   int // ReadBuffer as it was given, or 0

	// Of sessions over datagrams.
	packetIdle     time.Duration // IdleTimeout of those without limits of their own; 0 is never
	packetSessions int           // how many there are at most
}

// settings returns what o says.
func (o *Options) settings() settings {
	c := o.withDefaults()
	var given Options
	if o != nil {
		given = *o
	}
	return settings{
		Options: c, packetIdle: duration(given.IdleTimeout, packetIdle), packetSessions: size(given.MaxSessions, packetSessions, maxInt),
		bounds: buffer.Bounds{
			Bytes: c.QueueBytes, Frames: c.QueueFrames, Age: int64(c.QueueAge),
			Memory: max(c.QueueBytes, memoryLeast), Chunk: buffer.ChunkSize,
		},
		read: max(given.ReadBuffer, 0), gather: min(gatherBytes, c.QueueBytes/2),
	}
}

// memoryLeast is how much memory a queue may take at least, when its frames are fewer bytes than that.
const memoryLeast = 16 * buffer.ChunkSize

// headerSlack is how many bytes beyond MaxMessage are kept of an incomplete message: framing, or the request of an HTTP upgrade.
const headerSlack = 16 << 10

// withDefaults returns a copy of o in which every field says what it means: durations that are off are 0, sizes that are off are
// the largest int.
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

// size reads an option that counts something: def when it is zero, off when it is negative.
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

// duration reads an option of time: def when it is zero, 0 when it is off.
func duration(d, def time.Duration) time.Duration {
	if d == 0 {
		return def
	}
	return max(d, 0)
}
