package json

import (
	"maps"
	"slices"
	"strconv"

	"github.com/sluice-push/sluice/push"
	"github.com/sluice-push/sluice/push/protocol"
)

// AppendReply appends the JSON encoding of a reply: one object, without a line end. The zero Reply is the server's ping. The raw values in it
// must be results of [CompactData]. A result of a kind that has no reply (KindSend, KindUnknown) is left out. AppendReply only reads r and the
// values that r refers to, so it may be called concurrently for the same reply.
func AppendReply(dst []byte, r *protocol.Reply) []byte {
	dst = append(dst, '{')
	dst = appendUintMember(dst, "id", uint64(r.ID))
	if r.Error != nil {
		dst = appendError(appendName(dst, "error"), r.Error)
		return append(dst, '}')
	}
	switch r.Kind {
	case protocol.KindConnect:
		dst = appendConnectResult(appendName(dst, "connect"), &r.Connect)
	case protocol.KindSubscribe:
		dst = appendSubscribeResult(appendName(dst, "subscribe"), &r.Subscribe)
	case protocol.KindUnsubscribe, protocol.KindPublish, protocol.KindPing:
		dst = append(appendName(dst, r.Kind.String()), '{', '}')
	case protocol.KindPresence:
		dst = appendPresenceResult(appendName(dst, "presence"), &r.Presence)
	case protocol.KindPresenceStats:
		dst = appendPresenceStatsResult(appendName(dst, "presence_stats"), &r.PresenceStats)
	case protocol.KindHistory:
		dst = appendHistoryResult(appendName(dst, "history"), &r.History)
	case protocol.KindRPC:
		dst = append(appendName(dst, "rpc"), '{')
		dst = append(appendRawMember(dst, "data", r.RPC.Data), '}')
	case protocol.KindRefresh:
		dst = appendRefreshResult(appendName(dst, "refresh"), &r.Refresh)
	case protocol.KindSubRefresh:
		dst = append(appendName(dst, "sub_refresh"), '{')
		dst = append(appendExpiry(dst, r.SubRefresh.Expires, r.SubRefresh.TTL), '}')
	case protocol.KindPush:
		dst = appendPush(appendName(dst, "push"), &r.Push)
	case protocol.KindNone, protocol.KindUnknown, protocol.KindSend:
	}
	return append(dst, '}')
}

// AppendErrorReply appends the reply that refuses command id, like AppendReply for a Reply with that ID and Error.
func AppendErrorReply(dst []byte, id uint32, e *push.Error) []byte {
	return AppendReply(dst, &protocol.Reply{ID: id, Error: e})
}

func appendError(dst []byte, e *push.Error) []byte {
	dst = append(dst, `{"code":`...)
	dst = strconv.AppendUint(dst, uint64(e.Code), 10)
	dst = appendString(appendName(dst, "message"), e.Message)
	dst = appendBoolMember(dst, "temporary", e.Temporary)
	return append(dst, '}')
}

func appendConnectResult(dst []byte, r *protocol.ConnectResult) []byte {
	dst = append(dst, '{')
	dst = appendString(appendName(dst, "client"), r.Client)
	dst = appendStringMember(dst, "version", r.Version)
	dst = appendExpiry(dst, r.Expires, r.TTL)
	dst = appendRawMember(dst, "data", r.Data)
	if len(r.Subs) > 0 {
		dst = append(appendName(dst, "subs"), '{')
		for i, channel := range slices.Sorted(maps.Keys(r.Subs)) {
			if i > 0 {
				dst = append(dst, ',')
			}
			dst = append(appendString(dst, channel), ':')
			sub := r.Subs[channel]
			dst = appendSubscribeResult(dst, &sub)
		}
		dst = append(dst, '}')
	}
	dst = appendUintMember(dst, "ping", uint64(r.Ping))
	dst = appendBoolMember(dst, "pong", r.Pong)
	dst = appendStringMember(dst, "session", r.Session)
	dst = appendStringMember(dst, "node", r.Node)
	return append(dst, '}')
}

func appendSubscribeResult(dst []byte, r *protocol.SubscribeResult) []byte {
	dst = append(dst, '{')
	dst = appendExpiry(dst, r.Expires, r.TTL)
	dst = appendBoolMember(dst, "recoverable", r.Recoverable)
	dst = appendStringMember(dst, "epoch", r.Position.Epoch)
	dst = appendPublications(dst, "publications", r.Publications, r.Quoted)
	dst = appendBoolMember(dst, "recovered", r.Recovered)
	dst = appendUintMember(dst, "offset", r.Position.Offset)
	dst = appendBoolMember(dst, "positioned", r.Positioned)
	dst = appendRawMember(dst, "data", r.Data)
	dst = appendBoolMember(dst, "was_recovering", r.WasRecovering)
	dst = appendBoolMember(dst, "delta", r.Delta)
	dst = appendUintMember(dst, "id", r.ID)
	dst = appendUintMember(dst, "phase", uint64(r.Phase))
	dst = appendPublications(dst, "state", r.State, r.Quoted)
	dst = appendStringMember(dst, "cursor", r.Cursor)
	return append(dst, '}')
}

// appendExpiry appends the members expires and ttl.
func appendExpiry(dst []byte, expires bool, ttl uint32) []byte {
	dst = appendBoolMember(dst, "expires", expires)
	return appendUintMember(dst, "ttl", uint64(ttl))
}

// appendPresenceResult appends a presence result. It always writes the object of clients, because SDKs iterate over it without a check.
func appendPresenceResult(dst []byte, r *protocol.PresenceResult) []byte {
	dst = append(dst, `{"presence":{`...)
	for i := range r.Clients {
		if i > 0 {
			dst = append(dst, ',')
		}
		dst = append(appendString(dst, r.Clients[i].Client), ':')
		dst = appendClientInfo(dst, &r.Clients[i])
	}
	return append(dst, '}', '}')
}

// appendPresenceStatsResult appends a result with both numbers, even if they are 0, because SDKs pass them on to the application.
func appendPresenceStatsResult(dst []byte, r *protocol.PresenceStatsResult) []byte {
	dst = append(dst, `{"num_clients":`...)
	dst = strconv.AppendUint(dst, uint64(r.Clients), 10)
	dst = strconv.AppendUint(appendName(dst, "num_users"), uint64(r.Users), 10)
	return append(dst, '}')
}

func appendHistoryResult(dst []byte, r *protocol.HistoryResult) []byte {
	dst = append(dst, '{')
	dst = appendPublications(dst, "publications", r.Publications, false)
	dst = appendStringMember(dst, "epoch", r.Position.Epoch)
	dst = appendUintMember(dst, "offset", r.Position.Offset)
	return append(dst, '}')
}

func appendRefreshResult(dst []byte, r *protocol.RefreshResult) []byte {
	dst = append(dst, '{')
	dst = appendStringMember(dst, "client", r.Client)
	dst = appendStringMember(dst, "version", r.Version)
	dst = appendExpiry(dst, r.Expires, r.TTL)
	return append(dst, '}')
}

func appendPublications(dst []byte, name string, pubs []push.Publication, quoted bool) []byte {
	if len(pubs) == 0 {
		return dst
	}
	dst = append(appendName(dst, name), '[')
	for i := range pubs {
		if i > 0 {
			dst = append(dst, ',')
		}
		dst = appendPublication(dst, &pubs[i], quoted)
	}
	return append(dst, ']')
}
