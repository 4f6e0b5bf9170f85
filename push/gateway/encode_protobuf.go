package gateway

import (
	"github.com/sluice-push/sluice/push/channel"
	"github.com/sluice-push/sluice/push/hub"
	"github.com/sluice-push/sluice/push/protocol"
	"github.com/sluice-push/sluice/push/protocol/protobuf"
)

// Protobuf is the Protobuf form: messages with their length before them.
type Protobuf struct {
	Bare bool // pushes go without the reply around them, as one-way clients expect
}

// Next implements Form.
func (Protobuf) Next(frame []byte) (message, rest []byte, err error) { return protobuf.Next(frame) }

// Decode implements Form.
func (Protobuf) Decode(message []byte, cmd *protocol.Command) error {
	err := protobuf.DecodeCommand(message, cmd)
	if flag := &cmd.Subscribe.Flag; *flag&protocol.SubscribeFlagNumbers == 0 {
		*flag &^= protocol.SubscribeFlagCompaction
	}
	return err
}

// AppendReply implements Form.
func (Protobuf) AppendReply(dst []byte, r *protocol.Reply) []byte {
	return protobuf.AppendReply(dst, r)
}

// AppendPush implements Form.
func (f Protobuf) AppendPush(dst []byte, p *protocol.Push) []byte {
	return protobuf.AppendPush(dst, p, protobuf.PushOptions{Bare: f.Bare})
}

// AppendPublications implements Form.
func (f Protobuf) AppendPublications(dst []byte, to hub.Address, deliveries []channel.Delivery) []byte {
	o := protobuf.PushOptions{Bare: f.Bare, ID: uint64(to.Number)}
	for i := range deliveries {
		if to.IsJoins {
			dst = f.AppendPush(dst, joinOf(&to, &deliveries[i]))
			continue
		}
		p := publicationOf(&deliveries[i], to.Delta)
		dst = protobuf.AppendPublicationPush(dst, to.Channel, &p, o)
	}
	return dst
}
