package gateway

import (
	"maps"
	"strconv"

	"github.com/sluice-push/sluice/push"
	"github.com/sluice-push/sluice/push/channel"
	"github.com/sluice-push/sluice/push/hub"
	"github.com/sluice-push/sluice/push/presence"
	"github.com/sluice-push/sluice/push/protocol"
	"github.com/sluice-push/sluice/push/protocol/json"
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

// joinOf returns the join or leave push that a delivery stands for.
func joinOf(to *hub.Address, d *channel.Delivery) *protocol.Push {
	event := presence.EventOf(to.Channel, &d.Entry.Publication)
	p := protocol.Push{Kind: protocol.PushJoin, Channel: to.Channel, Client: *event.Client}
	if event.Left {
		p.Kind = protocol.PushLeave
	}
	return &p
}

// withTag returns tags with one more, or with another value.
func withTag(tags map[string]string, name, value string) map[string]string {
	out := make(map[string]string, len(tags)+1)
	maps.Copy(out, tags)
	out[name] = value
	return out
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

// A Form is how the protocol spells commands, replies and pushes. A Form must be comparable. Its methods may be called concurrently.
type Form interface {
	// Next returns the first message of a frame, and the rest of the frame. The message is nil when there is none; a message without content is
	// not. An error says why the frame cannot be split.
	Next(frame []byte) (message, rest []byte, err error)
	// Decode reads a command. What it refers to is part of the message.
	Decode(message []byte, cmd *protocol.Command) error
	AppendReply(dst []byte, r *protocol.Reply) []byte
	AppendPush(dst []byte, p *protocol.Push) []byte
	// AppendPublications appends one message for each delivery, as a frame with several messages holds them.
	AppendPublications(dst []byte, to hub.Address, deliveries []channel.Delivery) []byte
}

// A Framing is how a carrier puts messages on the wire. A Framing must be comparable. Its methods may be called concurrently.
type Framing interface {
	// FrameBytes is up to how large a frame with several messages should be; 0 if each message has a frame of its own.
	FrameBytes() int
	// Begin appends room for what comes before the messages.
	Begin(dst []byte) []byte
	// Finish completes the frame whose room begins at start.
	Finish(dst []byte, start int) []byte
}

// Encoder is the [hub.Encoder] of a form in a framing. Clients with the same Encoder share their frames.
type Encoder struct {
	Form    Form
	Framing Framing
}

// AppendReply appends a frame with one reply.
func (e *Encoder) AppendReply(dst []byte, r *protocol.Reply) []byte {
	start := len(dst)
	return e.Framing.Finish(e.Form.AppendReply(e.Framing.Begin(dst), r), start)
}

// AppendPush appends a frame with one push.
func (e *Encoder) AppendPush(dst []byte, p *protocol.Push) []byte {
	start := len(dst)
	return e.Framing.Finish(e.Form.AppendPush(e.Framing.Begin(dst), p), start)
}

// FrameBytes implements hub.Encoder.
func (e *Encoder) FrameBytes() int { return e.Framing.FrameBytes() }

// AppendPublications implements hub.Encoder.
func (e *Encoder) AppendPublications(dst []byte, to hub.Address, deliveries []channel.Delivery) []byte {
	start := len(dst)
	return e.Framing.Finish(e.Form.AppendPublications(e.Framing.Begin(dst), to, deliveries), start)
}

// AppendUnsubscribe implements hub.Encoder.
func (e *Encoder) AppendUnsubscribe(dst []byte, name string, u push.Unsubscribe) []byte {
	return e.AppendPush(dst, &protocol.Push{Kind: protocol.PushUnsubscribe, Channel: name, Unsubscribe: u})
}

// Bare is the framing of a carrier that needs none: the form's messages say themselves where they end.
type Bare struct{}

// FrameBytes implements Framing.
func (Bare) FrameBytes() int { return bareBytes }

// bareBytes is up to about how large a bare frame of several publications is.
const bareBytes = 32 << 10

// Begin implements Framing.
func (Bare) Begin(dst []byte) []byte { return dst }

// Finish implements Framing.
func (Bare) Finish(dst []byte, _ int) []byte { return dst }

// JSON is the JSON form: one object on each line.
type JSON struct {
	Bare bool // pushes go without the reply around them, as one-way clients expect
}

// Next implements Form.
func (JSON) Next(frame []byte) (message, rest []byte, err error) {
	message, rest = json.NextLine(frame)
	return message, rest, nil
}

// Decode implements Form.
func (JSON) Decode(message []byte, cmd *protocol.Command) error {
	return json.DecodeCommand(message, cmd)
}

// AppendReply implements Form.
func (JSON) AppendReply(dst []byte, r *protocol.Reply) []byte {
	return json.AppendReply(dst, r)
}

// AppendPush implements Form.
func (f JSON) AppendPush(dst []byte, p *protocol.Push) []byte {
	return json.AppendPush(dst, p, json.PushOptions{Bare: f.Bare})
}

// AppendPublications implements Form.
func (f JSON) AppendPublications(dst []byte, to hub.Address, deliveries []channel.Delivery) []byte {
	o := json.PushOptions{Bare: f.Bare, ID: uint64(to.Number), Quoted: isQuoted(to.Delta)}
	for i := range deliveries {
		if i > 0 {
			dst = append(dst, '\n')
		}
		if to.IsJoins {
			dst = f.AppendPush(dst, joinOf(&to, &deliveries[i]))
			continue
		}
		p := publicationOf(&deliveries[i], to.Delta)
		dst = json.AppendPublicationPush(dst, to.Channel, &p, o)
	}
	return dst
}
