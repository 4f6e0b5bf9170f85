package gateway

import (
	"github.com/sluice-push/sluice/push"
	"github.com/sluice-push/sluice/push/channel"
	"github.com/sluice-push/sluice/push/hub"
	"github.com/sluice-push/sluice/push/protocol"
	"github.com/sluice-push/sluice/websocket/wire"
)

// publicationOf returns what a delivery says to the client: the entry with the client's position, and as a removal when the row is
// gone for it.
func publicationOf(d *channel.Delivery) push.Publication {
	p := d.Entry.Publication
	p.Offset = d.Offset
	if d.Kind == channel.Gone {
		p.Op, p.Data = push.Remove, nil
	}
	return p
}

// jsonFrames is the hub.Encoder of WebSocket clients. Several publications are lines of one message.
type jsonFrames struct{}

// messageBytes is up to about how large messages with several publications are: more bytes do not make them cheaper to send, and clients
// have limits.
const messageBytes = 32 << 10

func (jsonFrames) FrameBytes() int { return messageBytes }

func (jsonFrames) AppendPublications(dst []byte, to hub.Address, deliveries []channel.Delivery) []byte {
	return appendFrame(dst, func(dst []byte) []byte {
		for i := range deliveries {
			if i > 0 {
				dst = append(dst, '\n')
			}
			p := publicationOf(&deliveries[i])
			dst = protocol.AppendPublicationPush(dst, to.Channel, &p, protocol.PushOptions{ID: uint64(to.Number)})
		}
		return dst
	})
}

func (jsonFrames) AppendUnsubscribe(dst []byte, name string, u push.Unsubscribe) []byte {
	return appendFrame(dst, func(dst []byte) []byte {
		return protocol.AppendPush(dst, &protocol.Push{Kind: protocol.PushUnsubscribe, Channel: name, Unsubscribe: u}, protocol.PushOptions{})
	})
}

// appendFrame appends a text frame around what payload appends.
func appendFrame(dst []byte, payload func([]byte) []byte) []byte {
	start := len(dst)
	dst = payload(append(dst, make([]byte, wire.HeaderSpace)...))
	frame := wire.FrameInPlace(dst[start:], wire.OpText)
	if start == 0 {
		return frame
	}
	return append(dst[:start], frame...)
}

// jsonEvents is the hub.Encoder of SSE clients. What it makes is the data line; the id before it differs from client to client.
type jsonEvents struct{}

// FrameBytes is 0: each event has an id of its own.
func (jsonEvents) FrameBytes() int { return 0 }

func (jsonEvents) AppendPublications(dst []byte, to hub.Address, deliveries []channel.Delivery) []byte {
	p := publicationOf(&deliveries[0])
	return protocol.AppendPublicationPush(dst, to.Channel, &p, protocol.PushOptions{Bare: true})
}

func (jsonEvents) AppendUnsubscribe(dst []byte, name string, u push.Unsubscribe) []byte {
	return protocol.AppendPush(dst, &protocol.Push{Kind: protocol.PushUnsubscribe, Channel: name, Unsubscribe: u}, protocol.PushOptions{Bare: true})
}
