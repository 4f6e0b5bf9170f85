package protobuf

import (
	"github.com/sluice-push/sluice/push"
	"github.com/sluice-push/sluice/push/protocol"
)

// AppendReply appends a reply, with its length before it. The zero Reply is the server's ping, one byte. Data in it must be JSON, unless it is a
// delta; Quoted of a result has no effect, because bytes are sent as they are. A result of a kind that has no reply (KindSend, KindUnknown) is
// left out. AppendReply only reads r and the values that r refers to, so it may be called concurrently for the same reply. It allocates nothing
// but room in dst, except for connect results with many subscriptions.
func AppendReply(dst []byte, r *protocol.Reply) []byte {
	dst, whole := begin(dst, 0)
	dst = appendUint(dst, replyID, uint64(r.ID))
	switch {
	case r.Error != nil:
		dst = appendError(dst, r.Error)
	case int(r.Kind) < len(resultTags) && resultTags[r.Kind] != 0:
		var m mark
		dst, m = open(dst, resultTags[r.Kind], 0)
		dst = m.close(appendResult(dst, r))
	}
	return whole.close(dst)
}

// AppendErrorReply appends the reply that refuses command id, like AppendReply for a Reply with that ID and Error.
func AppendErrorReply(dst []byte, id uint32, e *push.Error) []byte {
	dst, whole := begin(dst, 0)
	return whole.close(appendError(appendUint(dst, replyID, uint64(id)), e))
}

func appendError(dst []byte, e *push.Error) []byte {
	dst, m := open(dst, replyError, 0)
	dst = appendUint(dst, errorCode, uint64(e.Code))
	dst = appendString(dst, errorMessage, e.Message)
	return m.close(appendBool(dst, errorTemporary, e.Temporary))
}

// appendResult appends the fields of the result.
func appendResult(dst []byte, r *protocol.Reply) []byte {
	switch r.Kind {
	case protocol.KindConnect:
		dst = appendConnectResult(dst, &r.Connect, &connectResultTags)
	case protocol.KindSubscribe:
		dst = appendSubscribeResult(dst, &r.Subscribe)
	case protocol.KindPresence:
		dst = appendPresenceResult(dst, &r.Presence)
	case protocol.KindPresenceStats:
		dst = appendUint(dst, presenceStatsResultNumClients, uint64(r.PresenceStats.Clients))
		dst = appendUint(dst, presenceStatsResultNumUsers, uint64(r.PresenceStats.Users))
	case protocol.KindHistory:
		dst = appendPublications(dst, historyResultPublications, r.History.Publications)
		dst = appendString(dst, historyResultEpoch, r.History.Position.Epoch)
		dst = appendUint(dst, historyResultOffset, r.History.Position.Offset)
	case protocol.KindRPC:
		dst = appendBytes(dst, rpcResultData, r.RPC.Data)
	case protocol.KindRefresh:
		dst = appendString(dst, refreshResultClient, r.Refresh.Client)
		dst = appendString(dst, refreshResultVersion, r.Refresh.Version)
		dst = appendBool(dst, refreshResultExpires, r.Refresh.Expires)
		dst = appendUint(dst, refreshResultTTL, uint64(r.Refresh.TTL))
	case protocol.KindSubRefresh:
		dst = appendBool(dst, subRefreshResultExpires, r.SubRefresh.Expires)
		dst = appendUint(dst, subRefreshResultTTL, uint64(r.SubRefresh.TTL))
	case protocol.KindPush:
		dst = appendPush(dst, &r.Push)
	default: // unsubscribe, publish and ping have no fields
	}
	return dst
}

// appendConnectResult appends the fields of a connect result, in the order of their numbers in ConnectResult.
func appendConnectResult(dst []byte, r *protocol.ConnectResult, tags *connectTags) []byte {
	dst = appendString(dst, tags.client, r.Client)
	dst = appendString(dst, tags.version, r.Version)
	dst = appendBool(dst, tags.expires, r.Expires)
	dst = appendUint(dst, tags.ttl, uint64(r.TTL))
	dst = appendBytes(dst, tags.data, r.Data)
	var few [fewNames]string
	for _, channel := range appendNames(few[:0], r.Subs) {
		sub := r.Subs[channel]
		var entry, m mark
		dst, entry = open(dst, tags.subs, 0)
		dst = appendStringAlways(dst, entryKey, channel)
		dst, m = open(dst, entryValue, 0)
		dst = m.close(appendSubscribeResult(dst, &sub))
		dst = entry.close(dst)
	}
	dst = appendUint(dst, tags.ping, uint64(r.Ping))
	dst = appendBool(dst, tags.pong, r.Pong)
	dst = appendString(dst, tags.session, r.Session)
	return appendString(dst, tags.node, r.Node)
}

func appendSubscribeResult(dst []byte, r *protocol.SubscribeResult) []byte {
	dst = appendBool(dst, subscribeResultExpires, r.Expires)
	dst = appendUint(dst, subscribeResultTTL, uint64(r.TTL))
	dst = appendBool(dst, subscribeResultRecoverable, r.Recoverable)
	dst = appendString(dst, subscribeResultEpoch, r.Position.Epoch)
	dst = appendPublications(dst, subscribeResultPublications, r.Publications)
	dst = appendBool(dst, subscribeResultRecovered, r.Recovered)
	dst = appendUint(dst, subscribeResultOffset, r.Position.Offset)
	dst = appendBool(dst, subscribeResultPositioned, r.Positioned)
	dst = appendBytes(dst, subscribeResultData, r.Data)
	dst = appendBool(dst, subscribeResultWasRecovering, r.WasRecovering)
	dst = appendBool(dst, subscribeResultDelta, r.Delta)
	dst = appendUint(dst, subscribeResultID, r.ID)
	dst = appendUint(dst, subscribeResultPhase, uint64(r.Phase))
	dst = appendString(dst, subscribeResultCursor, r.Cursor)
	return appendPublications(dst, subscribeResultState, r.State)
}

func appendPresenceResult(dst []byte, r *protocol.PresenceResult) []byte {
	for i := range r.Clients {
		c := &r.Clients[i]
		var entry mark
		dst, entry = open(dst, presenceResultPresence, 0)
		dst = appendStringAlways(dst, entryKey, c.Client)
		dst = entry.close(appendClientInfo(dst, entryValue, c))
	}
	return dst
}
