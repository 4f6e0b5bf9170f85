package rpc

import (
	"strconv"

	"github.com/sluice-push/sluice/rpc/frame"
	"github.com/sluice-push/sluice/session"
)

// Keys of headers.
const (
	// keyGoaway is Kitex's: its server announces that it will close the connection.
	keyGoaway = "crrst"
	// keyPeer is in the first call and the first answer of a connection, and says that the sender is of this package: that it knows all these keys.
	// It is also in each call of a stream whose caller does not know that of the server. The server answers it with a control frame with the
	// sequence id of the call, so that a caller which has given up in the meantime can cancel the call.
	keyPeer   = "sluice"
	keyCancel = "sluice.cancel" // the caller has no use for the answer to the call with this sequence id
	keyPing   = "sluice.ping"   // is answered with a control frame with the same pair
	// keyStream is, in a call, the credit for the messages of a stream: the caller accepts more than one answer. In a reply it is streamMore or
	// streamEnd; a reply without it is the last message of a stream, and its end.
	keyStream = "sluice.stream"
	keyCredit = "sluice.credit" // the caller of the stream with this sequence id has received messages, and gives credit for more: "id messages bytes"
	// keyRefused is in an error that says that the handler has not begun. It is sent to clients of this package.
	keyRefused = "sluice.refused"
	// keyTimeout is how many milliseconds a call may take, in THeader; fbthrift has the same key.
	keyTimeout = "client_timeout"
	// intTimeout is the same in TTHeader: the key RPCTimeout of Kitex.
	intTimeout uint16 = 12
)

// Values of keyStream in replies.
const (
	streamMore = "more" // the body is a message, and the stream goes on
	streamEnd  = "end"  // the stream has ended, and the body is no message
)

// controlFrame returns a frame about a connection of the framing TTHeader, in the form of Kitex's.
func controlFrame(key, value string) *frame.Frame {
	f := &frame.Frame{Dialect: frame.Dialect{Framing: frame.TTHeader, Protocol: frame.Binary}, Kind: frame.Control}
	f.SetMethod("none")
	f.Add(key, value)
	return f
}

// encoder returns what writes a frame. Large bodies are not copied, unless they are compressed.
func encoder(f *frame.Frame) session.Encoder {
	if len(f.Transforms) > 0 {
		return f
	}
	return (*frame.Plain)(f)
}

// structEnd is the body of a control frame: a struct without fields.
var structEnd = []byte{0}

// sendControl sends a control frame. An error means that the connection is ending, which its functions are told anyway.
func sendControl(s *session.Session, key, value string) {
	_ = s.SendAs(controlFrame(key, value), structEnd)
}

// idOf returns the sequence id of a call that a control frame has under a key, 0 if it has none.
func idOf(f *frame.Frame, key string) int32 {
	id, err := strconv.ParseInt(string(f.Value(key)), 10, 32)
	if err != nil {
		return 0
	}
	return int32(id)
}
