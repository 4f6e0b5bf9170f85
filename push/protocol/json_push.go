package protocol

import (
	"strconv"

	"github.com/sluice-push/sluice/push"
)

// PushOptions say in which variant a push is encoded.
type PushOptions struct {
	// Bare leaves out the reply around the push: {"channel":…} instead of {"push":{"channel":…}}. One-way transports, which have
	// no replies, expect that.
	Bare bool
	// ID is the subscription's number, by which a publication's push then names it instead of the channel; 0 for the name. A client has
	// to have agreed to that, see [SubscribeFlagCompaction].
	ID uint64
	// Quoted says that the data of publications goes as a JSON string that holds it, as clients that take Fossil deltas expect it. Data that
	// is no JSON, as these deltas are, can only go that way.
	Quoted bool
}

// AppendPush appends a push: one JSON object, without a line end. A push of kind PushUnknown has nothing but its channel and its
// number. The number of the options does not matter. For raw values and concurrency the same holds as for [AppendReply].
func AppendPush(dst []byte, p *Push, o PushOptions) []byte {
	if o.Bare {
		return appendPush(dst, p)
	}
	return append(appendPush(append(dst, `{"push":`...), p), '}')
}

// AppendPublicationPush appends the push of a publication: what AppendPush does for a [Push] of kind PushPublication. It is what
// fan-out calls, once for each publication and variant; the result may be sent to any number of clients.
func AppendPublicationPush(dst []byte, channel string, p *push.Publication, o PushOptions) []byte {
	if !o.Bare {
		dst = append(dst, `{"push":`...)
	}
	dst = append(dst, '{')
	if o.ID != 0 {
		dst = appendUintMember(dst, "id", o.ID)
	} else {
		dst = appendStringMember(dst, "channel", channel)
	}
	dst = append(appendPublication(appendName(dst, "pub"), p, o.Quoted), '}')
	if !o.Bare {
		dst = append(dst, '}')
	}
	return dst
}

// AppendPublication appends a publication as it stands in pushes, histories and recovered publications. Data is always there:
// null when the publication has none. The offset is left out when it is 0, as in the rows of a sweep.
func AppendPublication(dst []byte, p *push.Publication) []byte {
	return appendPublication(dst, p, false)
}

// appendPublication appends a publication, with its data in a string if it is to be quoted.
func appendPublication(dst []byte, p *push.Publication, quoted bool) []byte {
	dst = append(dst, `{"data":`...)
	switch {
	case len(p.Data) == 0:
		dst = append(dst, "null"...)
	case quoted:
		dst = appendString(dst, p.Data)
	default:
		dst = append(dst, p.Data...)
	}
	if p.Info != nil {
		dst = appendClientInfo(appendName(dst, "info"), p.Info)
	}
	dst = appendUintMember(dst, "offset", p.Offset)
	dst = appendMapMember(dst, "tags", p.Tags)
	dst = appendStringMember(dst, "key", p.Key)
	dst = appendBoolMember(dst, "removed", p.Op == push.Remove)
	dst = appendBoolMember(dst, "cleared", p.Op == push.Clear)
	dst = appendBoolMember(dst, "delta", p.Delta)
	return append(dst, '}')
}

// appendClientInfo always writes who it is: SDKs hand both names on as they are.
func appendClientInfo(dst []byte, c *push.ClientInfo) []byte {
	dst = append(dst, '{')
	dst = appendString(appendName(dst, "user"), c.User)
	dst = appendString(appendName(dst, "client"), c.Client)
	dst = appendRawMember(dst, "conn_info", c.ConnInfo)
	dst = appendRawMember(dst, "chan_info", c.ChanInfo)
	return append(dst, '}')
}

func appendPush(dst []byte, p *Push) []byte {
	dst = append(dst, '{')
	dst = appendUintMember(dst, "id", p.ID)
	dst = appendStringMember(dst, "channel", p.Channel)
	switch p.Kind {
	case PushPublication:
		dst = AppendPublication(appendName(dst, "pub"), &p.Publication)
	case PushJoin, PushLeave:
		dst = append(appendName(dst, p.Kind.String()), `{"info":`...)
		dst = append(appendClientInfo(dst, &p.Client), '}')
	case PushUnsubscribe:
		dst = appendEnd(appendName(dst, "unsubscribe"), p.Unsubscribe.Code, p.Unsubscribe.Reason)
		dst = append(dst, '}')
	case PushMessage:
		dst = append(appendName(dst, "message"), '{')
		dst = append(appendRawMember(dst, "data", p.Message), '}')
	case PushSubscribe:
		dst = appendSubscribeResult(appendName(dst, "subscribe"), &p.Subscribe)
	case PushConnect:
		dst = appendConnectResult(appendName(dst, "connect"), &p.Connect)
	case PushDisconnect:
		dst = appendEnd(appendName(dst, "disconnect"), uint32(p.Disconnect.Code), p.Disconnect.Reason)
		dst = append(appendBoolMember(dst, "reconnect", p.Disconnect.Reconnect()), '}')
	case PushRefresh:
		dst = appendRefreshResult(appendName(dst, "refresh"), &p.Refresh)
	case PushUnknown:
	}
	return append(dst, '}')
}

// appendEnd appends an object with the code and the reason for which something ended, and leaves it open. Both are always there:
// the code alone tells an SDK whether to try again.
func appendEnd(dst []byte, code uint32, reason string) []byte {
	dst = append(dst, `{"code":`...)
	dst = strconv.AppendUint(dst, uint64(code), 10)
	return appendString(appendName(dst, "reason"), reason)
}
