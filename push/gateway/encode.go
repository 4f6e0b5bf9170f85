package gateway

import (
	"maps"
	"strconv"

	"github.com/sluice-push/sluice/push"
	"github.com/sluice-push/sluice/push/channel"
	"github.com/sluice-push/sluice/push/hub"
	"github.com/sluice-push/sluice/push/protocol"
	"github.com/sluice-push/sluice/websocket/wire"
)

// publicationOf returns what a delivery says to the client: the entry with the client's position, as a removal when the row is gone for it,
// as a difference where the client takes such, and with a tag where it is told of a loss.
func publicationOf(d *channel.Delivery, form push.Delta) push.Publication {
	p := d.Entry.Publication
	p.Offset = d.Offset
	if d.Kind == channel.Gone {
		p.Op, p.Data = push.Remove, nil
	} else if diff := d.Change.Diff(form); diff != nil {
		p.Data, p.Delta = diff, true
	}
	if d.Lost != 0 {
		p.Tags = withTag(p.Tags, push.TagLost, strconv.FormatInt(d.Lost, 10))
	}
	return p
}

// withTag returns tags with one more, or with another value.
func withTag(tags map[string]string, name, value string) map[string]string {
	out := make(map[string]string, len(tags)+1)
	maps.Copy(out, tags)
	out[name] = value
	return out
}

// appendPublication appends the push of a delivery.
func appendPublication(dst []byte, to hub.Address, d *channel.Delivery, o protocol.PushOptions) []byte {
	p := publicationOf(d, to.Delta)
	o.ID, o.Quoted = uint64(to.Number), isQuoted(to.Delta)
	return protocol.AppendPublicationPush(dst, to.Channel, &p, o)
}

// isQuoted reports whether clients that take a form of differences get all data as strings. So the SDKs have it for Fossil deltas.
func isQuoted(form push.Delta) bool { return form == push.Fossil }

// publicationsOf returns what deliveries in an answer say, in full.
func publicationsOf(deliveries []channel.Delivery) []push.Publication {
	out := make([]push.Publication, len(deliveries))
	for i := range deliveries {
		out[i] = publicationOf(&deliveries[i], push.NoDelta)
	}
	return out
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
			dst = appendPublication(dst, to, &deliveries[i], protocol.PushOptions{})
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
	return appendPublication(dst, to, &deliveries[0], protocol.PushOptions{Bare: true})
}

func (jsonEvents) AppendUnsubscribe(dst []byte, name string, u push.Unsubscribe) []byte {
	return protocol.AppendPush(dst, &protocol.Push{Kind: protocol.PushUnsubscribe, Channel: name, Unsubscribe: u}, protocol.PushOptions{Bare: true})
}
