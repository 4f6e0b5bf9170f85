package hub

import (
	"github.com/sluice-push/sluice/push"
	"github.com/sluice-push/sluice/push/channel"
)

// Frame is one encoded message on its way to a carrier. Bytes is immutable and may be kept.
type Frame struct {
	Bytes   []byte
	Channel string
	// At is the subscriber's position once it has the frame; no epoch when the position stays as it was.
	At push.Position
}

// Carrier is a client's connection. Its methods must neither block nor call back into the session.
type Carrier interface {
	// TryWrite offers frames in order and returns how many were taken. A frame is taken when the client will get it unless the
	// connection fails; the others are forgotten, and the carrier calls [Session.Flush] once when it can take more. It returns
	// 0 when the connection has failed. The slice is borrowed until TryWrite returns. It is called with the session's lock held,
	// so never concurrently.
	TryWrite(frames []Frame) (taken int)
	// Disconnect ends the connection, telling the client why where it can. It may be called by several goroutines, at any time, also
	// while an answer to the client is being written: that is what frees a session whose client does not read its answers.
	Disconnect(d push.Disconnect)
}

// Encoder builds the frames of one wire format. Sessions with equal encoders share frames, so an Encoder must be comparable, and the
// same value for all sessions of a format. The methods are called concurrently.
type Encoder interface {
	// AppendPublication appends the frame of a delivery of kind Put or Gone.
	AppendPublication(dst []byte, channel string, d *channel.Delivery) []byte
	// AppendUnsubscribe appends the frame that tells a client that the server ended its subscription.
	AppendUnsubscribe(dst []byte, channel string, u push.Unsubscribe) []byte
}
