package protobuf

import (
	"github.com/sluice-push/sluice/push/protocol"
)

// DecodeCommand decodes one command into c and overwrites all of it. Slices of bytes in c share the memory of message, unless the value is JSON
// on several lines: then they are copies on one line. A filter becomes its JSON text. Strings are copies. After an error, the error says how far
// c is valid:
//
//   - a *[push.Error] (code 107): the message is well formed and c.ID is not 0, but a value in it is not allowed. The error is the answer to the
//     command c.ID, and the connection may continue.
//   - a *[SyntaxError], wrapped: the message is not well formed, or has no ID to answer. The server has to end the connection, see there.
//
// A decoded command may still be unusable: of KindUnknown, or with the ID 0 although it needs a reply.
func DecodeCommand(message []byte, c *protocol.Command) error {
	*c = protocol.Command{}
	d := newDecoder(message)
	for d.next() {
		kind := requestKind(d.tag)
		switch {
		case d.tag == commandID:
			d.where = ""
			c.ID = d.uint32("id")
		case kind == protocol.KindUnknown:
			d.skip()
		case c.Kind > protocol.KindUnknown && c.Kind != kind:
			d.request(kind, new(protocol.Command)) // another request counts
		default:
			c.Kind = kind
			d.request(kind, c)
		}
		c.Kind = max(c.Kind, protocol.KindUnknown)
	}
	if d.ill != nil && d.err == nil && c.ID != 0 {
		return d.ill.refusal()
	}
	return d.finish("command")
}

// requestTags are the tags of the requests in a command, by kind. Kinds that are no request have 0.
var requestTags = [...]uint64{
	protocol.KindConnect: commandConnect, protocol.KindSubscribe: commandSubscribe, protocol.KindUnsubscribe: commandUnsubscribe,
	protocol.KindPublish: commandPublish, protocol.KindPresence: commandPresence, protocol.KindPresenceStats: commandPresenceStats,
	protocol.KindHistory: commandHistory, protocol.KindPing: commandPing, protocol.KindSend: commandSend, protocol.KindRPC: commandRPC,
	protocol.KindRefresh: commandRefresh, protocol.KindSubRefresh: commandSubRefresh, protocol.KindPush: 0,
}

// requestKind returns the kind of request for a tag, KindUnknown if it is none.
func requestKind(tag uint64) protocol.Kind {
	for kind, t := range requestTags {
		if t == tag {
			return protocol.Kind(kind)
		}
	}
	return protocol.KindUnknown
}

// request decodes a request.
func (d *decoder) request(kind protocol.Kind, c *protocol.Command) {
	d.where = kind.String()
	outer := d.enter()
	switch kind {
	case protocol.KindConnect:
		d.connectRequest(&c.Connect)
	case protocol.KindSubscribe:
		d.subscribeRequest(&c.Subscribe)
	case protocol.KindUnsubscribe:
		d.channelRequest(&c.Unsubscribe)
	case protocol.KindPublish:
		d.publishRequest(&c.Publish)
	case protocol.KindPresence:
		d.channelRequest(&c.Presence)
	case protocol.KindPresenceStats:
		d.channelRequest(&c.PresenceStats)
	case protocol.KindHistory:
		d.historyRequest(&c.History)
	case protocol.KindSend:
		c.Send.Data = d.dataMessage(c.Send.Data, true)
	case protocol.KindRPC:
		d.rpcRequest(&c.RPC)
	case protocol.KindRefresh:
		d.refreshRequest(&c.Refresh)
	case protocol.KindSubRefresh:
		d.subRefreshRequest(&c.SubRefresh)
	default: // ping, which has no fields
		d.emptyMessage()
	}
	d.leave(outer)
}

// emptyMessage decodes a message without known fields.
func (d *decoder) emptyMessage() {
	for d.next() {
		d.skip()
	}
}

func (d *decoder) connectRequest(r *protocol.ConnectRequest) {
	for d.next() {
		switch d.tag {
		case connectRequestToken:
			r.Token = d.str("token")
		case connectRequestData:
			r.Data = d.json("data")
		case connectRequestSubs:
			r.Subs = d.subscribeEntry(r.Subs)
		case connectRequestName:
			r.Name = d.str("name")
		case connectRequestVersion:
			r.Version = d.str("version")
		case connectRequestHeaders:
			r.Headers = d.stringEntry("headers", r.Headers)
		case connectRequestFlag:
			r.Flag = d.offset("flag")
		default:
			d.skip()
		}
	}
}

// subscribeEntry adds an entry to the subscriptions of a connect request.
func (d *decoder) subscribeEntry(subs map[string]protocol.SubscribeRequest) map[string]protocol.SubscribeRequest {
	var channel string
	var r protocol.SubscribeRequest
	outer := d.enter()
	for d.next() {
		switch d.tag {
		case entryKey:
			channel = d.str("subs")
		case entryValue:
			d.where = "connect.subs"
			entry := d.enter()
			d.subscribeRequest(&r)
			d.leave(entry)
			d.where = "connect"
		default:
			d.skip()
		}
	}
	d.leave(outer)
	if subs == nil {
		subs = make(map[string]protocol.SubscribeRequest)
	}
	r.Channel = channel
	subs[channel] = r
	return subs
}

func (d *decoder) subscribeRequest(r *protocol.SubscribeRequest) {
	for d.next() {
		switch d.tag {
		case subscribeRequestChannel:
			r.Channel = d.str("channel")
		case subscribeRequestToken:
			r.Token = d.str("token")
		case subscribeRequestRecover:
			r.Recover = d.boolean()
		case subscribeRequestEpoch:
			r.Position.Epoch = d.str("epoch")
		case subscribeRequestOffset:
			r.Position.Offset = d.offset("offset")
		case subscribeRequestData:
			r.Data = d.json("data")
		case subscribeRequestPositioned:
			r.Positioned = d.boolean()
		case subscribeRequestRecoverable:
			r.Recoverable = d.boolean()
		case subscribeRequestJoinLeave:
			r.JoinLeave = d.boolean()
		case subscribeRequestDelta:
			r.Delta = d.str("delta")
		case subscribeRequestTf:
			r.Filter = d.filter("tf", r.Filter != nil)
		case subscribeRequestFlag:
			r.Flag = d.offset("flag")
		case subscribeRequestType:
			r.Type = d.natural("type")
		case subscribeRequestPhase:
			r.Phase = d.natural("phase")
		case subscribeRequestCursor:
			r.Cursor = d.str("cursor")
		case subscribeRequestLimit:
			r.Limit = d.int32("limit")
		default:
			d.skip()
		}
	}
}

// channelRequest decodes a request with only a channel. All of them have it under the same number.
func (d *decoder) channelRequest(r *protocol.ChannelRequest) {
	for d.next() {
		if d.tag == unsubscribeRequestChannel {
			r.Channel = d.str("channel")
		} else {
			d.skip()
		}
	}
}

func (d *decoder) publishRequest(r *protocol.PublishRequest) {
	for d.next() {
		switch d.tag {
		case publishRequestChannel:
			r.Channel = d.str("channel")
		case publishRequestData:
			r.Data = d.json("data")
		case publishRequestType:
			r.Type = d.natural("type")
		case publishRequestKey:
			r.Key = d.str("key")
		case publishRequestRemoved:
			r.Removed = d.boolean()
		case publishRequestTags:
			r.Tags = d.stringEntry("tags", r.Tags)
		default:
			d.skip()
		}
	}
}

func (d *decoder) historyRequest(r *protocol.HistoryRequest) {
	for d.next() {
		switch d.tag {
		case historyRequestChannel:
			r.Channel = d.str("channel")
		case historyRequestLimit:
			r.Limit = d.int32("limit")
		case historyRequestSince:
			r.HasSince = true
			outer := d.enter()
			for d.next() {
				switch d.tag {
				case streamPositionOffset:
					r.Since.Offset = d.offset("since.offset")
				case streamPositionEpoch:
					r.Since.Epoch = d.str("since.epoch")
				default:
					d.skip()
				}
			}
			d.leave(outer)
		case historyRequestReverse:
			r.Reverse = d.boolean()
		default:
			d.skip()
		}
	}
}

// dataMessage decodes a message of which only the field data is used, and returns its value, which was before if the message has none. If
// checked, the value has to be JSON. All such messages have it under the same number.
func (d *decoder) dataMessage(before []byte, checked bool) []byte {
	data := before
	for d.next() {
		switch {
		case d.tag != sendRequestData:
			d.skip()
		case checked:
			data = d.json("data")
		default:
			data = d.bytes()
		}
	}
	return data
}

func (d *decoder) rpcRequest(r *protocol.RPCRequest) {
	for d.next() {
		switch d.tag {
		case rpcRequestData:
			r.Data = d.json("data")
		case rpcRequestMethod:
			r.Method = d.str("method")
		default:
			d.skip()
		}
	}
}

func (d *decoder) refreshRequest(r *protocol.RefreshRequest) {
	for d.next() {
		if d.tag == refreshRequestToken {
			r.Token = d.str("token")
		} else {
			d.skip()
		}
	}
}

func (d *decoder) subRefreshRequest(r *protocol.SubRefreshRequest) {
	for d.next() {
		switch d.tag {
		case subRefreshRequestChannel:
			r.Channel = d.str("channel")
		case subRefreshRequestToken:
			r.Token = d.str("token")
		default:
			d.skip()
		}
	}
}
