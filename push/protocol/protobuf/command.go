package protobuf

import "github.com/sluice-push/sluice/push/protocol"

// AppendCommand appends a command, with its length before it. The zero Command is the client's pong. A command of KindUnknown has nothing but its
// ID. Data in it must be results of CompactData of package json, and type and phase below 2^31. AppendCommand only reads c and the values that c refers
// to, and allocates nothing but room in dst, except for a filter and for connect requests with many subscriptions.
func AppendCommand(dst []byte, c *protocol.Command) []byte {
	dst, whole := begin(dst, len(c.Publish.Data))
	dst = appendUint(dst, commandID, uint64(c.ID))
	if int(c.Kind) < len(requestTags) && requestTags[c.Kind] != 0 {
		var m mark
		dst, m = open(dst, requestTags[c.Kind], len(c.Publish.Data))
		dst = m.close(appendRequest(dst, c))
	}
	return whole.close(dst)
}

// appendRequest appends the fields of the request.
func appendRequest(dst []byte, c *protocol.Command) []byte {
	switch c.Kind {
	case protocol.KindConnect:
		dst = appendConnectRequest(dst, &c.Connect)
	case protocol.KindSubscribe:
		dst = appendSubscribeRequest(dst, c.Subscribe.Channel, &c.Subscribe)
	case protocol.KindUnsubscribe:
		dst = appendString(dst, unsubscribeRequestChannel, c.Unsubscribe.Channel)
	case protocol.KindPublish:
		dst = appendPublishRequest(dst, &c.Publish)
	case protocol.KindPresence:
		dst = appendString(dst, presenceRequestChannel, c.Presence.Channel)
	case protocol.KindPresenceStats:
		dst = appendString(dst, presenceStatsRequestChannel, c.PresenceStats.Channel)
	case protocol.KindHistory:
		dst = appendHistoryRequest(dst, &c.History)
	case protocol.KindSend:
		dst = appendBytes(dst, sendRequestData, c.Send.Data)
	case protocol.KindRPC:
		dst = appendBytes(dst, rpcRequestData, c.RPC.Data)
		dst = appendString(dst, rpcRequestMethod, c.RPC.Method)
	case protocol.KindRefresh:
		dst = appendString(dst, refreshRequestToken, c.Refresh.Token)
	case protocol.KindSubRefresh:
		dst = appendString(dst, subRefreshRequestChannel, c.SubRefresh.Channel)
		dst = appendString(dst, subRefreshRequestToken, c.SubRefresh.Token)
	case protocol.KindNone, protocol.KindUnknown, protocol.KindPing, protocol.KindPush:
	}
	return dst
}

func appendConnectRequest(dst []byte, r *protocol.ConnectRequest) []byte {
	dst = appendString(dst, connectRequestToken, r.Token)
	dst = appendBytes(dst, connectRequestData, r.Data)
	var few [fewNames]string
	for _, channel := range appendNames(few[:0], r.Subs) {
		sub := r.Subs[channel]
		var entry, m mark
		dst, entry = open(dst, connectRequestSubs, 0)
		dst = appendStringAlways(dst, entryKey, channel)
		dst, m = open(dst, entryValue, 0)
		dst = m.close(appendSubscribeRequest(dst, "", &sub)) // named by the entry
		dst = entry.close(dst)
	}
	dst = appendString(dst, connectRequestName, r.Name)
	dst = appendString(dst, connectRequestVersion, r.Version)
	dst = appendMap(dst, connectRequestHeaders, r.Headers)
	return appendUint(dst, connectRequestFlag, r.Flag)
}

func appendSubscribeRequest(dst []byte, channel string, r *protocol.SubscribeRequest) []byte {
	dst = appendString(dst, subscribeRequestChannel, channel)
	dst = appendString(dst, subscribeRequestToken, r.Token)
	dst = appendBool(dst, subscribeRequestRecover, r.Recover)
	dst = appendString(dst, subscribeRequestEpoch, r.Position.Epoch)
	dst = appendUint(dst, subscribeRequestOffset, r.Position.Offset)
	dst = appendBytes(dst, subscribeRequestData, r.Data)
	dst = appendBool(dst, subscribeRequestPositioned, r.Positioned)
	dst = appendBool(dst, subscribeRequestRecoverable, r.Recoverable)
	dst = appendBool(dst, subscribeRequestJoinLeave, r.JoinLeave)
	dst = appendString(dst, subscribeRequestDelta, r.Delta)
	dst = appendFilter(dst, r.Filter)
	dst = appendUint(dst, subscribeRequestFlag, r.Flag)
	dst = appendUint(dst, subscribeRequestType, uint64(r.Type))
	dst = appendUint(dst, subscribeRequestPhase, uint64(r.Phase))
	dst = appendString(dst, subscribeRequestCursor, r.Cursor)
	return appendInt(dst, subscribeRequestLimit, r.Limit)
}

func appendPublishRequest(dst []byte, r *protocol.PublishRequest) []byte {
	dst = appendString(dst, publishRequestChannel, r.Channel)
	dst = appendBytes(dst, publishRequestData, r.Data)
	dst = appendUint(dst, publishRequestType, uint64(r.Type))
	dst = appendString(dst, publishRequestKey, r.Key)
	dst = appendBool(dst, publishRequestRemoved, r.Removed)
	return appendMap(dst, publishRequestTags, r.Tags)
}

func appendHistoryRequest(dst []byte, r *protocol.HistoryRequest) []byte {
	dst = appendString(dst, historyRequestChannel, r.Channel)
	dst = appendInt(dst, historyRequestLimit, r.Limit)
	if r.HasSince {
		var m mark
		dst, m = open(dst, historyRequestSince, 0)
		dst = appendUint(dst, streamPositionOffset, r.Since.Offset)
		dst = m.close(appendString(dst, streamPositionEpoch, r.Since.Epoch))
	}
	return appendBool(dst, historyRequestReverse, r.Reverse)
}
