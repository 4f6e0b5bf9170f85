package hub

import (
	"github.com/sluice-push/sluice/push"
	"github.com/sluice-push/sluice/push/channel"
)

// Frame is one encoded message on its way to a carrier. Bytes is immutable and may be kept.
type Frame struct {
	Bytes   []byte
	Channel string
	// At is the subscriber's position once it has the frame. It has no epoch if the position stays as it was.
	At push.Position
	// Publications is the number of publications in the frame; 0 if the frame tells of the end of a subscription.
	Publications int

	accepted int64 // when the broker accepted the first publication, in Unix milliseconds
	lost     int64 // how many lost publications the frame tells of; −1: their number is not known
}

// Address says how a frame names its channel, and in what form its publications may go.
type Address struct {
	Channel string
	// Number, if it is not 0, is the channel's number on this node. The client was told the number with the answer to its subscribe command,
	// and wants frames of publications to have the number in place of the name; see [SubscribeRequest].
	Number uint32
	// Delta is the form in which publications may go as differences: those of deliveries whose Change has one. The frame has to mark the
	// differences, so that the client can tell them from full publications.
	Delta push.Delta
	// IsJoins says that the deliveries are no publications of the channel: each carries a join or a leave, see [presence.EventOf].
	IsJoins bool
}

// Carrier is a client's connection, to which a session writes its frames. Its methods must neither block nor call back into the session.
type Carrier interface {
	// TryWrite offers frames in order and returns how many the carrier takes. Once a frame is taken, the client gets it unless the
	// connection fails. The carrier must forget the others: the session reads its logs again when it may write. If TryWrite does not take all,
	// the carrier calls [Session.Flush] once when it can take more. TryWrite returns 0 if the connection has failed. The slice is borrowed
	// until TryWrite returns. The session's lock is held, so calls for one session are never concurrent. The frames may be of several channels.
	TryWrite(frames []Frame) (taken int)
	// Disconnect ends the connection, and tells the client why if it can. Several goroutines may call it, at any time, also while an answer to
	// the client is being written. If a client does not read its answers, only Disconnect frees its session.
	Disconnect(d push.Disconnect)
}

// Encoder builds the frames of one wire format. Sessions with equal encoders share frames, so an Encoder must be comparable, and the
// same value for all sessions of a format. Its methods are called concurrently.
type Encoder interface {
	// FrameBytes returns the largest size, in bytes, that a frame with several publications should have. It returns 0 if each publication has
	// to have a frame of its own. It always returns the same.
	FrameBytes() int
	// AppendPublications appends one frame of deliveries of one channel to dst. Each delivery is of kind Put or Gone. There is one delivery, or
	// more if FrameBytes allows it. If the Lost of a delivery is not 0, the frame tells the client; see [SubscribeRequest]. The deliveries
	// are borrowed until AppendPublications returns.
	AppendPublications(dst []byte, to Address, deliveries []channel.Delivery) []byte
	// AppendUnsubscribe appends the frame that tells a client that the server ended its subscription.
	AppendUnsubscribe(dst []byte, channel string, u push.Unsubscribe) []byte
}

// publicationBytes is an estimate of a publication's overhead in a frame, beyond its size and the channel's name.
const publicationBytes = 64

// together returns how many of the deliveries fit into the first frame, at least one.
func together(e Encoder, name string, deliveries []channel.Delivery) int {
	room := e.FrameBytes()
	for i := range deliveries {
		if room -= deliveries[i].Entry.Size() + len(name) + publicationBytes; room < 0 {
			return max(i, 1)
		}
	}
	return len(deliveries)
}

// frameOf returns the frame of deliveries of one channel. The last delivery gives the frame's position. Rows in the midst of a sweep have no
// position, and come before all other deliveries of a read.
func frameOf(e Encoder, to Address, epoch string, deliveries []channel.Delivery) Frame {
	size := 0
	for i := range deliveries {
		size += deliveries[i].Entry.Size() + len(to.Channel) + publicationBytes
	}
	room := make([]byte, 0, size) // about enough
	f := Frame{
		Bytes: e.AppendPublications(room, to, deliveries), Channel: to.Channel, Publications: len(deliveries), accepted: deliveries[0].Entry.Time,
		lost: deliveries[0].Lost, // only the first delivery of a read can have a loss
	}
	if at := deliveries[len(deliveries)-1].Offset; at != 0 && !to.IsJoins {
		f.At = push.Position{Epoch: epoch, Offset: at}
	}
	return f
}
