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
	keyPeer   = "sluice"
	keyCancel = "sluice.cancel" // the caller has no use for the answer to the call with this sequence id
	keyPing   = "sluice.ping"   // is answered with a control frame with the same pair
	// keyTimeout is how many milliseconds a call may take, in THeader; fbthrift has the same key.
	keyTimeout = "client_timeout"
	// intTimeout is the same in TTHeader: the key RPCTimeout of Kitex.
	intTimeout uint16 = 12
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

// cancelOf returns the sequence id of the call that a control frame cancels, 0 if it cancels none.
func cancelOf(f *frame.Frame) int32 {
	id, err := strconv.ParseInt(string(f.Value(keyCancel)), 10, 32)
	if err != nil {
		return 0
	}
	return int32(id)
}
