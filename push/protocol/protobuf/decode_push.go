package protobuf

import (
	"math"

	"github.com/sluice-push/sluice/push"
	"github.com/sluice-push/sluice/push/protocol"
)

// DecodePush decodes a push without the reply around it into p, and overwrites all of it. An empty message, the ping of one-way transports, is
// the zero Push. Otherwise it is like [DecodeReply].
func DecodePush(message []byte, p *protocol.Push) error {
	*p = protocol.Push{}
	d := newDecoder(message)
	d.where = "push"
	d.push(p)
	return d.finish("push")
}

// pushTags are the tags of the contents of a push, by kind.
var pushTags = [...]uint64{
	protocol.PushUnknown: 0, protocol.PushPublication: pushPub, protocol.PushJoin: pushJoin, protocol.PushLeave: pushLeave,
	protocol.PushUnsubscribe: pushUnsubscribe, protocol.PushMessage: pushMessage, protocol.PushSubscribe: pushSubscribe,
	protocol.PushConnect: pushConnect, protocol.PushDisconnect: pushDisconnect, protocol.PushRefresh: pushRefresh,
}

// pushKind returns the kind of content for a tag, PushUnknown if it is none.
func pushKind(tag uint64) protocol.PushKind {
	for kind, t := range pushTags {
		if t == tag {
			return protocol.PushKind(kind)
		}
	}
	return protocol.PushUnknown
}

// effect are the two fields that say what a publication does. They stay apart until all parts of a message are merged.
type effect struct{ removed, cleared bool }

func (e effect) op() push.Op {
	switch {
	case e.cleared:
		return push.Clear
	case e.removed:
		return push.Remove
	default:
		return push.Set
	}
}

// push decodes the fields of a push.
func (d *decoder) push(p *protocol.Push) {
	for d.next() {
		kind := pushKind(d.tag)
		switch {
		case d.tag == pushID:
			p.ID = d.offset("id")
		case d.tag == pushChannel:
			p.Channel = d.str("channel")
		case kind == protocol.PushUnknown:
			d.skip()
		case p.Kind != protocol.PushUnknown && p.Kind != kind:
			var unused effect
			d.content(kind, new(protocol.Push), &unused) // another content counts
		default:
			p.Kind = kind
			d.content(kind, p, &d.effect)
		}
	}
}

// content decodes the content of a push.
func (d *decoder) content(kind protocol.PushKind, p *protocol.Push, e *effect) {
	where := d.where
	d.where = kind.String()
	outer := d.enter()
	switch kind {
	case protocol.PushPublication:
		d.publication(&p.Publication, e)
	case protocol.PushJoin, protocol.PushLeave:
		for d.next() {
			if d.tag == joinInfo {
				d.clientInfo(&p.Client)
			} else {
				d.skip()
			}
		}
	case protocol.PushUnsubscribe:
		d.unsubscribe(&p.Unsubscribe)
	case protocol.PushMessage:
		p.Message = d.dataMessage(p.Message, false)
	case protocol.PushSubscribe:
		d.subscribePush(&p.Subscribe)
	case protocol.PushConnect:
		d.connectResult(&p.Connect, &connectPushTags)
	case protocol.PushDisconnect:
		d.disconnect(&p.Disconnect)
	case protocol.PushRefresh:
		d.expiry(&p.Refresh.Expires, &p.Refresh.TTL)
	case protocol.PushUnknown:
	}
	d.leave(outer)
	d.where = where
}

func (d *decoder) unsubscribe(u *push.Unsubscribe) {
	for d.next() {
		switch d.tag {
		case unsubscribeCode:
			u.Code = d.uint32("code")
		case unsubscribeReason:
			u.Reason = d.str("reason")
		default:
			d.skip()
		}
	}
}

func (d *decoder) disconnect(p *push.Disconnect) {
	for d.next() {
		switch d.tag {
		case disconnectCode:
			p.Code = uint16(d.unsigned("code", math.MaxUint16))
		case disconnectReason:
			p.Reason = d.str("reason")
		case disconnectReconnect:
			d.boolean() // follows from the code
		default:
			d.skip()
		}
	}
}

// subscribePush decodes the fields of Subscribe, which are some of those of SubscribeResult under other numbers.
func (d *decoder) subscribePush(r *protocol.SubscribeResult) {
	for d.next() {
		switch d.tag {
		case subscribeRecoverable:
			r.Recoverable = d.boolean()
		case subscribeEpoch:
			r.Position.Epoch = d.str("epoch")
		case subscribeOffset:
			r.Position.Offset = d.offset("offset")
		case subscribePositioned:
			r.Positioned = d.boolean()
		case subscribeData:
			r.Data = d.bytes()
		default:
			d.skip()
		}
	}
}

// appendPublication decodes one publication of a list.
func (d *decoder) appendPublication(pubs []push.Publication) []push.Publication {
	var p push.Publication
	var e effect
	outer := d.enter()
	d.publication(&p, &e)
	d.leave(outer)
	return append(pubs, p)
}

func (d *decoder) publication(p *push.Publication, e *effect) {
	for d.next() {
		switch d.tag {
		case publicationData:
			p.Data = d.bytes()
		case publicationInfo:
			if p.Info == nil {
				p.Info = &push.ClientInfo{}
			}
			d.clientInfo(p.Info)
		case publicationOffset:
			p.Offset = d.offset("offset")
		case publicationTags:
			p.Tags = d.stringEntry("tags", p.Tags)
		case publicationDelta:
			p.Delta = d.boolean()
		case publicationKey:
			p.Key = d.str("key")
		case publicationRemoved:
			e.removed = d.boolean()
		case publicationCleared:
			e.cleared = d.boolean()
		default:
			d.skip()
		}
	}
	p.Op = e.op()
}

func (d *decoder) clientInfo(c *push.ClientInfo) {
	outer := d.enter()
	for d.next() {
		switch d.tag {
		case clientInfoUser:
			c.User = d.str("user")
		case clientInfoClient:
			c.Client = d.str("client")
		case clientInfoConnInfo:
			c.ConnInfo = d.bytes()
		case clientInfoChanInfo:
			c.ChanInfo = d.bytes()
		default:
			d.skip()
		}
	}
	d.leave(outer)
}
