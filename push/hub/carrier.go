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
	// Publications is how many the frame holds; 0 when it tells of the end of a subscription.
	Publications int

	accepted int64 // when the broker accepted the first of them, in Unix milliseconds
	lost     int64 // how many publications it says are lost, −1 when that is not known
}

// Address is what frames call a channel.
type Address struct {
	Channel string
	// Number, if it is not 0, is the channel's number on this node, which the client was told with the answer and by which it wants
	// publications to go; see [SubscribeRequest].
	Number uint32
	// Delta is the form in which publications may go as differences: those of deliveries whose Change has one. The client has to be able to
	// tell them from others.
	Delta push.Delta
}

// Carrier is a client's connection. Its methods must neither block nor call back into the session.
type Carrier interface {
	// TryWrite offers frames in order and returns how many were taken. A frame is taken when the client will get it unless the
	// connection fails; the others are forgotten, and the carrier calls [Session.Flush] once when it can take more. It returns
	// 0 when the connection has failed. The slice is borrowed until TryWrite returns. It is called with the session's lock held,
	// so never concurrently. The frames may be of several channels.
	TryWrite(frames []Frame) (taken int)
	// Disconnect ends the connection, telling the client why where it can. It may be called by several goroutines, at any time, also
	// while an answer to the client is being written: that is what frees a session whose client does not read its answers.
	Disconnect(d push.Disconnect)
}

// Encoder builds the frames of one wire format. Sessions with equal encoders share frames, so an Encoder must be comparable, and the
// same value for all sessions of a format. The methods are called concurrently.
type Encoder interface {
	// FrameBytes is up to how large a frame with several publications should be, in bytes; 0 when each publication has to have a frame
	// of its own. It is always the same.
	FrameBytes() int
	// AppendPublications appends the frame of deliveries of one channel, each of kind Put or Gone: one, or more where FrameBytes allows
	// it. Where Lost is not 0 the client is to be told; see [SubscribeRequest]. They are borrowed until it returns.
	AppendPublications(dst []byte, to Address, deliveries []channel.Delivery) []byte
	// AppendUnsubscribe appends the frame that tells a client that the server ended its subscription.
	AppendUnsubscribe(dst []byte, channel string, u push.Unsubscribe) []byte
}

// publicationBytes is what a publication counts for in a frame besides its size and the channel's name.
const publicationBytes = 64

// together returns how many of the deliveries go into the first frame, at least one.
func together(e Encoder, name string, deliveries []channel.Delivery) int {
	room := e.FrameBytes()
	for i := range deliveries {
		if room -= deliveries[i].Entry.Size() + len(name) + publicationBytes; room < 0 {
			return max(i, 1)
		}
	}
	return len(deliveries)
}

// frameOf returns the frame of deliveries of one channel. Their last one says where the client is with it: rows in the midst of a
// sweep, which have no position, come before all others in a read.
func frameOf(e Encoder, to Address, epoch string, deliveries []channel.Delivery) Frame {
	size := 0
	for i := range deliveries {
		size += deliveries[i].Entry.Size() + len(to.Channel) + publicationBytes
	}
	room := make([]byte, 0, size) // about enough
	f := Frame{
		Bytes: e.AppendPublications(room, to, deliveries), Channel: to.Channel, Publications: len(deliveries), accepted: deliveries[0].Entry.Time,
		lost: deliveries[0].Lost, // a loss comes before everything else of a read
	}
	if at := deliveries[len(deliveries)-1].Offset; at != 0 {
		f.At = push.Position{Epoch: epoch, Offset: at}
	}
	return f
}
