package session

import "fmt"

// Codec cuts the bytes of a connection into messages and puts messages into the form they have on the wire. All sessions may share a stateless
// codec (package codec). A codec with state (websocket) belongs to one session, which takes it in Open with [Session.SetCodec].
//
// A session calls Decode from one goroutine. It calls AppendEncode under its write lock, one call at a time and in the order of the bytes. The
// two may run at the same time. Neither may call the session.
type Codec interface {
	Encoder
	// Decode looks at in, the unread bytes of the connection, and returns the next message.
	//
	//	n > 0, msg != nil  one message (possibly empty); n bytes were used
	//	n > 0, msg == nil  n bytes were used and gave no message
	//	n == 0             more bytes are needed, and their number is not known
	//	n < 0              at least −n more bytes are needed before calling again makes sense
	//	err != nil         nothing more can be read; an error that is io.EOF says that the peer ended the stream in order
	//
	// msg is valid until the next Decode. It may point into in, which the codec may modify in place up to n.
	Decode(in []byte) (msg []byte, n int, err error)
}

// Encoder is the writing half of a [Codec], or replaces the codec in one call: see [Session.SendAs].
type Encoder interface {
	// AppendEncode appends msg to dst as it goes over the wire.
	AppendEncode(dst, msg []byte) ([]byte, error)
}

// Replier is implemented by codecs whose protocol answers by itself: a pong, a closing handshake, a refusal.
type Replier interface {
	// AppendReplies appends the pending replies of the codec, which are not pending afterwards. It is called after every Decode, also after one
	// that failed, by the same goroutine, and before the message is handed to the handler.
	AppendReplies(dst []byte) []byte
}

// Prefixer is implemented by codecs, and other Encoders, whose frames are a header followed by the unchanged message. Large messages are then
// written in place, without being copied.
type Prefixer interface {
	// AppendHeader appends what AppendEncode would append before msg. It has the same errors.
	AppendHeader(dst, msg []byte) ([]byte, error)
}

// Handler holds the functions that a server calls. Any of them may be nil. For one session, Open, Message, Tick and Close are called one after
// the other: Open at most once and first, Close exactly once if Open was called, and last. No other function begins before Open has returned. A
// panic in a function is logged to Options.Logger and counted, and ends only that session.
//
// All functions may call any method of the session. A function that blocks delays only its own session. A function that calls
// runtime.LockOSThread calls UnlockOSThread as often, because its goroutine is used again.
type Handler struct {
	// Open is called before anything is read, after the TLS handshake if there is one. An error refuses the connection: frames that Open has
	// sent are written, the socket is closed, and Close is called with ByRefusal.
	Open func(*Session) error

	// Pull makes messages wait until they are received: see [Session.Receive]. Message must be nil then.
	Pull bool

	// Message is called with each message. The bytes are borrowed until it returns, and may be changed until then.
	Message func(s *Session, msg []byte)

	// Tick is called once per Options.TickInterval, between messages, like Message. If a call is due while another function runs, it follows
	// that function, once.
	Tick func(*Session)

	// Writable is called when there is room again after TryWrite took fewer frames than it was offered: once for any number of such calls before
	// it. It runs on a goroutine of its own, so possibly during Message, but two calls never overlap. It is not called any more when the session
	// is ending.
	Writable func(*Session)

	// Drain is called for every session when the server begins to shut down. A session that is idle gets the call at once. If Open is running,
	// or the messages of one read are being handled, the call follows them, so that their answers are sent. If messages are received, it comes
	// when the receiver asks for the next one. Drain should end the session with [Session.End], now or soon. It may run on the goroutine that
	// called Shutdown, so possibly during Close. If Drain is nil, sessions end gently: queued frames are written first.
	Drain func(*Session)

	// Close is called when the session has ended and none of its other functions is running, except possibly Drain. Nothing can be sent any more.
	Close func(*Session, *CloseInfo)
}

// By is the kind of event that ended a session.
type By uint8

// The kinds of events that end a session. The first event counts.
const (
	ByLocal   By = iota + 1 // Close, Abort or End was called, or the server closed
	ByPeer                  // the peer ended it in order
	ByTimeout               // a handshake, first, idle or write timeout has passed
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

// CloseInfo describes how a session ended.
type CloseInfo struct {
	// By is the kind of event that ended the session.
	By By
	// Err is the cause, and never nil. For ByLocal it is the cause given to Abort or End, or [ErrClosed]. For ByPeer it is io.EOF or the codec's
	// error. For a timeout it is [ErrTimeout], and for a panic a *[PanicError].
	Err error
	// Undelivered is the number of bytes that were accepted but not given to the connection. The peer may not have read all the bytes that the
	// connection took. Of a TLS record that was sent in part, the rest counts. The rest of large frames does not count: their callers get an
	// error.
	Undelivered int
}

// PanicError is the cause of a session that ended because a handler or the codec panicked.
type PanicError struct {
	Value any    // the value of the panic; nil if the function called runtime.Goexit
	Stack []byte // the stack at that time
}

// Error returns the panic's value.
func (e *PanicError) Error() string { return fmt.Sprintf("session: panic: %v", e.Value) }
