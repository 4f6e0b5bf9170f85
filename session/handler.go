package session

import "fmt"

// Codec cuts the bytes of a connection into messages and puts messages into the form they have on the wire. Stateless codecs
// (package codec) may be shared by all sessions; one with state (websocket) belongs to one session, which takes it in Open with
// [Session.SetCodec].
//
// A session calls Decode from one goroutine, and AppendEncode under its write lock, one call at a time and in the order of the
// bytes. The two may run at the same time. Neither may call the session.
type Codec interface {
	Encoder
	// Decode looks at in, the unread bytes of the connection, and returns the next message.
	//
	//	n > 0, msg != nil  one message (possibly empty); n bytes were used
	//	n > 0, msg == nil  n bytes were used and gave no message
	//	n == 0             more bytes are needed, nobody knows how many
	//	n < 0              at least −n more bytes are needed before calling again makes sense
	//	err != nil         nothing more can be read; an error that is io.EOF says that the peer ended the stream in order
	//
	// msg is valid until the next Decode. It may point into in, which the codec may modify in place up to n.
	Decode(in []byte) (msg []byte, n int, err error)
}

// Encoder is the writing half of a [Codec], or what stands in for it in one call: see [Session.SendAs].
type Encoder interface {
	// AppendEncode appends msg to dst as it goes over the wire.
	AppendEncode(dst, msg []byte) ([]byte, error)
}

// Replier is implemented by codecs of protocols that answer by themselves: a pong, a closing handshake, a refusal.
type Replier interface {
	// AppendReplies appends what the codec has to say, and forgets it. It is called after every Decode, also after one that
	// failed, by the same goroutine, and before the message is handed to the handler.
	AppendReplies(dst []byte) []byte
}

// Prefixer is implemented by codecs, and other Encoders, whose frames are a header and then the message as it is. Large messages are then written from
// where they lie, without being copied.
type Prefixer interface {
	// AppendHeader appends what AppendEncode would append before msg. It has the same errors.
	AppendHeader(dst, msg []byte) ([]byte, error)
}

// Handler is what a server calls. Any function may be nil. For one session, Open, Message, Tick and Close are called one after the
// other: Open at most once and first, Close exactly once if Open was called, and last. None of the others begins before Open
// returned. A panic in a function is reported to Options.Logger, counted, and ends that session only.
//
// All functions may call any method of the session. One that blocks holds up its own session and no other. One that calls
// runtime.LockOSThread calls UnlockOSThread as often: its goroutine is used again.
type Handler struct {
	// Open is called before anything is read, after the TLS handshake if there is one. An error refuses the connection: what
	// Open sent is written, the socket is closed, and Close is called with ByRefusal.
	Open func(*Session) error

	// Pull makes messages wait until they are received: see [Session.Receive]. Message must be nil then.
	Pull bool

	// Message is called with each message. The bytes are borrowed until it returns, and may be changed until then.
	Message func(s *Session, msg []byte)

	// Tick is called each Options.TickInterval, between messages, like Message. A call that is due while another function runs
	// comes after it, once.
	Tick func(*Session)

	// Writable is called when there is room again after TryWrite took fewer frames than it was offered: once for any number
	// of such calls before it. It runs on a goroutine of its own, so possibly during Message, but never twice at a time.
	// It is not called any more when the session is ending.
	Writable func(*Session)

	// Drain is called for every session when the server begins to shut down: at once for a session that has nothing to do, and otherwise
	// when Open, or the handling of the messages of one read, has ended; for a session whose messages are received, when the receiver asks
	// for the next. So answers to what is being handled are sent. It should say goodbye with [Session.End], now or soon, and may run on the
	// goroutine that called Shutdown, so possibly during Close. If it is nil, sessions are ended gently: what waits is written first.
	Drain func(*Session)

	// Close is called when the session has ended and none of its other functions is running. Nothing can be sent any more.
	Close func(*Session, *CloseInfo)
}

// By says who or what ended a session.
type By uint8

// The ways in which a session ends. The first one counts.
const (
	ByLocal   By = iota + 1 // Close, Abort or End was called, or the server closed
	ByPeer                  // the peer ended it in order
	ByTimeout               // handshake, idle or write timeout
	ByError                 // the connection failed, or the codec found the stream broken
	ByPanic                 // a handler or the codec panicked
	ByRefusal               // Open returned an error
	BySlow                  // the outgoing queue was full and the policy is CloseSlow
)

var byNames = [...]string{
	ByLocal: "local", ByPeer: "peer", ByTimeout: "timeout", ByError: "error", ByPanic: "panic", ByRefusal: "refusal", BySlow: "slow",
}

// String returns a word for logs.
func (b By) String() string {
	if int(b) < len(byNames) && b > 0 {
		return byNames[b]
	}
	return fmt.Sprintf("by(%d)", uint8(b))
}

// CloseInfo says how a session ended.
type CloseInfo struct {
	// By is who ended it.
	By By
	// Err is why; never nil. For ByLocal it is what Abort or End was given, or [ErrClosed]; for ByPeer it is io.EOF or
	// the codec's error; a handshake, idle or write timeout is [ErrTimeout]; a panic is a *[PanicError].
	Err error
	// Undelivered is how many bytes had been accepted and were not given to the connection any more. What the connection
	// took, the peer may still not have read. Over TLS a record that was sent in part counts as far as it was not sent. What was left
	// of large frames does not count: who offered them is told.
	Undelivered int
}

// PanicError is the cause of a session that ended because a handler or the codec panicked.
type PanicError struct {
	Value any    // what the function panicked with; nil when it called runtime.Goexit
	Stack []byte // where
}

// Error returns the panic's value.
func (e *PanicError) Error() string { return fmt.Sprintf("session: panic: %v", e.Value) }
