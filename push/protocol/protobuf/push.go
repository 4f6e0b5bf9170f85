package protobuf

import (
	"github.com/sluice-push/sluice/push"
	"github.com/sluice-push/sluice/push/protocol"
)

// PushOptions select the variant of an encoded push.
type PushOptions struct {
	// Bare leaves out the reply around the push. One-way transports, which have no replies, need that.
	Bare bool
	// ID is the number that names the subscription in the push of a publication, instead of the channel; 0 for the channel. The client has to
	// have agreed to that, see [protocol.SubscribeFlagCompaction].
	ID uint64
}

// AppendPush appends a push, with its length before it. A push of PushUnknown has nothing but its channel and its number. The ID of the options
// is ignored. Data, concurrency and memory are as for [AppendReply].
func AppendPush(dst []byte, p *protocol.Push, o PushOptions) []byte {
	dst, whole := begin(dst, 0)
	if o.Bare {
		return whole.close(appendPush(dst, p))
	}
	dst, m := open(dst, replyPush, 0)
	return whole.close(m.close(appendPush(dst, p)))
}

// AppendPublicationPush appends the push of a publication, like AppendPush for a [protocol.Push] of PushPublication. Fan-out calls it once for
// each publication and variant, and may send the result to any number of clients.
func AppendPublicationPush(dst []byte, channel string, p *push.Publication, o PushOptions) []byte {
	size := publicationSize(p)
	var whole, m, pub mark
	dst, whole = begin(dst, size+len(channel)+8)
	if !o.Bare {
		dst, m = open(dst, replyPush, size+len(channel)+6)
	}
	if o.ID != 0 {
		dst = appendUint(dst, pushID, o.ID)
	} else {
		dst = appendString(dst, pushChannel, channel)
	}
	dst, pub = open(dst, pushPub, size)
	dst = pub.close(appendPublication(dst, p))
	if !o.Bare {
		dst = m.close(dst)
	}
	return whole.close(dst)
}

// publicationSize returns about how many bytes a publication takes.
func publicationSize(p *push.Publication) int { return len(p.Data) + len(p.Key) + 8 }

// appendPublication appends the fields of a publication.
func appendPublication(dst []byte, p *push.Publication) []byte {
	dst = appendBytes(dst, publicationData, p.Data)
	if p.Info != nil {
		dst = appendClientInfo(dst, publicationInfo, p.Info)
	}
	dst = appendUint(dst, publicationOffset, p.Offset)
	dst = appendMap(dst, publicationTags, p.Tags)
	dst = appendBool(dst, publicationDelta, p.Delta)
	dst = appendString(dst, publicationKey, p.Key)
	dst = appendBool(dst, publicationRemoved, p.Op == push.Remove)
	return appendBool(dst, publicationCleared, p.Op == push.Clear)
}

func appendPublications(dst []byte, tag uint64, pubs []push.Publication) []byte {
	for i := range pubs {
		var m mark
		dst, m = open(dst, tag, publicationSize(&pubs[i]))
		dst = m.close(appendPublication(dst, &pubs[i]))
	}
	return dst
}

// appendPush appends the fields of a push.
func appendPush(dst []byte, p *protocol.Push) []byte {
	dst = appendUint(dst, pushID, p.ID)
	dst = appendString(dst, pushChannel, p.Channel)
	if p.Kind == protocol.PushUnknown || int(p.Kind) >= len(pushTags) {
		return dst
	}
	dst, m := open(dst, pushTags[p.Kind], len(p.Publication.Data))
	switch p.Kind {
	case protocol.PushPublication:
		dst = appendPublication(dst, &p.Publication)
	case protocol.PushJoin, protocol.PushLeave:
		dst = appendClientInfo(dst, joinInfo, &p.Client)
	case protocol.PushUnsubscribe:
		dst = appendUint(dst, unsubscribeCode, uint64(p.Unsubscribe.Code))
		dst = appendString(dst, unsubscribeReason, p.Unsubscribe.Reason)
	case protocol.PushMessage:
		dst = appendBytes(dst, messageData, p.Message)
	case protocol.PushSubscribe:
		dst = appendSubscribePush(dst, &p.Subscribe)
	case protocol.PushConnect:
		dst = appendConnectResult(dst, &p.Connect, &connectPushTags)
	case protocol.PushDisconnect:
		dst = appendUint(dst, disconnectCode, uint64(p.Disconnect.Code))
		dst = appendString(dst, disconnectReason, p.Disconnect.Reason)
		dst = appendBool(dst, disconnectReconnect, p.Disconnect.Reconnect())
	case protocol.PushRefresh:
		dst = appendBool(dst, refreshExpires, p.Refresh.Expires)
		dst = appendUint(dst, refreshTTL, uint64(p.Refresh.TTL))
	case protocol.PushUnknown:
	}
	return m.close(dst)
}

// appendSubscribePush appends the fields of Subscribe, which are some of those of SubscribeResult.
func appendSubscribePush(dst []byte, r *protocol.SubscribeResult) []byte {
	dst = appendBool(dst, subscribeRecoverable, r.Recoverable)
	dst = appendString(dst, subscribeEpoch, r.Position.Epoch)
	dst = appendUint(dst, subscribeOffset, r.Position.Offset)
	dst = appendBool(dst, subscribePositioned, r.Positioned)
	return appendBytes(dst, subscribeData, r.Data)
}
