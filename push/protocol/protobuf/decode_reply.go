package protobuf

import (
	"cmp"
	"slices"

	"github.com/sluice-push/sluice/push"
	"github.com/sluice-push/sluice/push/protocol"
)

// DecodeReply decodes one reply into r and overwrites all of it. It is for clients and tests. Slices of bytes in r share the memory of message,
// and strings are copies. Data is not checked: it may be a delta. The error is a *[SyntaxError], wrapped, also if a value is not allowed.
func DecodeReply(message []byte, r *protocol.Reply) error {
	*r = protocol.Reply{}
	d := newDecoder(message)
	for d.next() {
		d.where = ""
		kind := resultKind(d.tag)
		switch {
		case d.tag == replyID:
			r.ID = d.uint32("id")
		case d.tag == replyError:
			d.where = "error"
			if r.Error == nil {
				r.Error = &push.Error{}
			}
			d.errorMessage(r.Error)
		case kind == protocol.KindUnknown:
			d.skip()
		case r.Kind > protocol.KindUnknown && r.Kind != kind:
			d.result(kind, new(protocol.Reply)) // another result counts
		default:
			r.Kind = kind
			d.result(kind, r)
		}
		r.Kind = max(r.Kind, protocol.KindUnknown)
	}
	if r.Error != nil {
		r.Kind = protocol.KindNone
	}
	return d.finish("reply")
}

// resultTags are the tags of the results in a reply, by kind. Kinds without a result have 0.
var resultTags = [...]uint64{
	protocol.KindConnect: replyConnect, protocol.KindSubscribe: replySubscribe, protocol.KindUnsubscribe: replyUnsubscribe,
	protocol.KindPublish: replyPublish, protocol.KindPresence: replyPresence, protocol.KindPresenceStats: replyPresenceStats,
	protocol.KindHistory: replyHistory, protocol.KindPing: replyPing, protocol.KindSend: 0, protocol.KindRPC: replyRPC,
	protocol.KindRefresh: replyRefresh, protocol.KindSubRefresh: replySubRefresh, protocol.KindPush: replyPush,
}

// resultKind returns the kind of result for a tag, KindUnknown if it is none.
func resultKind(tag uint64) protocol.Kind {
	for kind, t := range resultTags {
		if t == tag {
			return protocol.Kind(kind)
		}
	}
	return protocol.KindUnknown
}

// result decodes a result.
func (d *decoder) result(kind protocol.Kind, r *protocol.Reply) {
	d.where = kind.String()
	outer := d.enter()
	switch kind {
	case protocol.KindConnect:
		d.connectResult(&r.Connect, &connectResultTags)
	case protocol.KindSubscribe:
		d.subscribeResult(&r.Subscribe)
	case protocol.KindPresence:
		d.presenceResult(&r.Presence)
	case protocol.KindPresenceStats:
		d.presenceStatsResult(&r.PresenceStats)
	case protocol.KindHistory:
		d.historyResult(&r.History)
	case protocol.KindRPC:
		r.RPC.Data = d.dataMessage(r.RPC.Data, false)
	case protocol.KindRefresh:
		d.refreshResult(&r.Refresh)
	case protocol.KindSubRefresh:
		d.expiry(&r.SubRefresh.Expires, &r.SubRefresh.TTL)
	case protocol.KindPush:
		d.push(&r.Push)
	default: // unsubscribe, publish, ping
		d.emptyMessage()
	}
	d.leave(outer)
}

func (d *decoder) errorMessage(e *push.Error) {
	outer := d.enter()
	for d.next() {
		switch d.tag {
		case errorCode:
			e.Code = d.uint32("code")
		case errorMessage:
			e.Message = d.str("message")
		case errorTemporary:
			e.Temporary = d.boolean()
		default:
			d.skip()
		}
	}
	d.leave(outer)
}

// connectTags are the tags of a connect result, which is ConnectResult in replies and Connect in pushes.
type connectTags struct {
	client, version, expires, ttl, data, subs, ping, pong, session, node uint64
}

var (
	connectResultTags = connectTags{
		connectResultClient, connectResultVersion, connectResultExpires, connectResultTTL, connectResultData,
		connectResultSubs, connectResultPing, connectResultPong, connectResultSession, connectResultNode,
	}
	connectPushTags = connectTags{
		connectClient, connectVersion, connectExpires, connectTTL, connectData,
		connectSubs, connectPing, connectPong, connectSession, connectNode,
	}
)

func (d *decoder) connectResult(r *protocol.ConnectResult, tags *connectTags) {
	for d.next() {
		switch d.tag {
		case tags.client:
			r.Client = d.str("client")
		case tags.version:
			r.Version = d.str("version")
		case tags.expires:
			r.Expires = d.boolean()
		case tags.ttl:
			r.TTL = d.uint32("ttl")
		case tags.data:
			r.Data = d.bytes()
		case tags.subs:
			r.Subs = d.subscribeResultEntry(r.Subs)
		case tags.ping:
			r.Ping = d.uint32("ping")
		case tags.pong:
			r.Pong = d.boolean()
		case tags.session:
			r.Session = d.str("session")
		case tags.node:
			r.Node = d.str("node")
		default:
			d.skip()
		}
	}
}

// subscribeResultEntry adds an entry to the subscriptions of a connect result.
func (d *decoder) subscribeResultEntry(subs map[string]protocol.SubscribeResult) map[string]protocol.SubscribeResult {
	var channel string
	var r protocol.SubscribeResult
	outer := d.enter()
	for d.next() {
		switch d.tag {
		case entryKey:
			channel = d.str("subs")
		case entryValue:
			entry := d.enter()
			d.subscribeResult(&r)
			d.leave(entry)
		default:
			d.skip()
		}
	}
	d.leave(outer)
	if subs == nil {
		subs = make(map[string]protocol.SubscribeResult)
	}
	subs[channel] = r
	return subs
}

func (d *decoder) subscribeResult(r *protocol.SubscribeResult) {
	for d.next() {
		switch d.tag {
		case subscribeResultExpires:
			r.Expires = d.boolean()
		case subscribeResultTTL:
			r.TTL = d.uint32("ttl")
		case subscribeResultRecoverable:
			r.Recoverable = d.boolean()
		case subscribeResultEpoch:
			r.Position.Epoch = d.str("epoch")
		case subscribeResultPublications:
			r.Publications = d.appendPublication(r.Publications)
		case subscribeResultRecovered:
			r.Recovered = d.boolean()
		case subscribeResultOffset:
			r.Position.Offset = d.offset("offset")
		case subscribeResultPositioned:
			r.Positioned = d.boolean()
		case subscribeResultData:
			r.Data = d.bytes()
		case subscribeResultWasRecovering:
			r.WasRecovering = d.boolean()
		case subscribeResultDelta:
			r.Delta = d.boolean()
		case subscribeResultID:
			r.ID = d.offset("id")
		case subscribeResultPhase:
			r.Phase = d.natural("phase")
		case subscribeResultState:
			r.State = d.appendPublication(r.State)
		case subscribeResultCursor:
			r.Cursor = d.str("cursor")
		default:
			d.skip()
		}
	}
}

func (d *decoder) presenceResult(r *protocol.PresenceResult) {
	for d.next() {
		if d.tag == presenceResultPresence {
			r.Clients = append(r.Clients, d.presenceEntry())
		} else {
			d.skip()
		}
	}
	// As in every map, of several entries with the same key the last counts.
	slices.SortStableFunc(r.Clients, func(a, b push.ClientInfo) int { return cmp.Compare(a.Client, b.Client) })
	last := r.Clients[:0]
	for i := range r.Clients {
		if i+1 == len(r.Clients) || r.Clients[i].Client != r.Clients[i+1].Client {
			last = append(last, r.Clients[i])
		}
	}
	r.Clients = last
}

// presenceEntry decodes one client of a presence result.
func (d *decoder) presenceEntry() push.ClientInfo {
	var id string
	var info push.ClientInfo
	outer := d.enter()
	for d.next() {
		switch d.tag {
		case entryKey:
			id = d.str("presence")
		case entryValue:
			d.clientInfo(&info)
		default:
			d.skip()
		}
	}
	d.leave(outer)
	info.Client = id
	return info
}

func (d *decoder) presenceStatsResult(r *protocol.PresenceStatsResult) {
	for d.next() {
		switch d.tag {
		case presenceStatsResultNumClients:
			r.Clients = d.uint32("num_clients")
		case presenceStatsResultNumUsers:
			r.Users = d.uint32("num_users")
		default:
			d.skip()
		}
	}
}

func (d *decoder) historyResult(r *protocol.HistoryResult) {
	for d.next() {
		switch d.tag {
		case historyResultPublications:
			r.Publications = d.appendPublication(r.Publications)
		case historyResultEpoch:
			r.Position.Epoch = d.str("epoch")
		case historyResultOffset:
			r.Position.Offset = d.offset("offset")
		default:
			d.skip()
		}
	}
}

func (d *decoder) refreshResult(r *protocol.RefreshResult) {
	for d.next() {
		switch d.tag {
		case refreshResultClient:
			r.Client = d.str("client")
		case refreshResultVersion:
			r.Version = d.str("version")
		case refreshResultExpires:
			r.Expires = d.boolean()
		case refreshResultTTL:
			r.TTL = d.uint32("ttl")
		default:
			d.skip()
		}
	}
}

// expiry decodes the fields of SubRefreshResult and of Refresh, which have the same numbers.
func (d *decoder) expiry(expires *bool, ttl *uint32) {
	for d.next() {
		switch d.tag {
		case refreshExpires:
			*expires = d.boolean()
		case refreshTTL:
			*ttl = d.uint32("ttl")
		default:
			d.skip()
		}
	}
}
