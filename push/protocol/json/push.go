package json

import (
	"strconv"

	"github.com/sluice-push/sluice/push"
	"github.com/sluice-push/sluice/push/protocol"
)

// PushOptions select the variant of an encoded push.
type PushOptions struct {
	// Bare leaves out the object around the push: {"channel":…} instead of {"push":{"channel":…}}. One-way transports, which have no replies,
	// need that.
	Bare bool
	// ID is the number that names the subscription in the push of a publication, instead of the channel; 0 for the channel. The client has to
	// have agreed to that, see [SubscribeFlagCompaction].
	ID uint64
	// Quoted encodes the data of publications as a JSON string, as clients that accept Fossil deltas expect. Data that is not JSON, such as
	// these deltas, can only be sent so.
	Quoted bool
}

// AppendPush appends the JSON encoding of a push: one object, without a line end. A push of PushUnknown has nothing but its channel and its
// number. The ID of the options is ignored. Raw values and concurrency are as for [AppendReply].
func AppendPush(dst []byte, p *protocol.Push, o PushOptions) []byte {
	if o.Bare {
		return appendPush(dst, p)
	}
	return append(appendPush(append(dst, `{"push":`...), p), '}')
}

// AppendPublicationPush appends the push of a publication, like AppendPush for a [Push] of PushPublication. Fan-out calls it once for each
// publication and variant, and may send the result to any number of clients.
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

// AppendPublication appends a publication as it is encoded in pushes, histories and recovered publications. Data is always present: null if the
// publication has none. The offset is left out if it is 0, as in rows that are sent in full.
func AppendPublication(dst []byte, p *push.Publication) []byte {
	return appendPublication(dst, p, false)
}

// appendPublication appends a publication. If quoted, its data is encoded as a string.
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

// appendClientInfo appends the description of a client. It always writes user and client, because SDKs pass both on to the application.
func appendClientInfo(dst []byte, c *push.ClientInfo) []byte {
	dst = append(dst, '{')
	dst = appendString(appendName(dst, "user"), c.User)
	dst = appendString(appendName(dst, "client"), c.Client)
	dst = appendRawMember(dst, "conn_info", c.ConnInfo)
	dst = appendRawMember(dst, "chan_info", c.ChanInfo)
	return append(dst, '}')
}

func appendPush(dst []byte, p *protocol.Push) []byte {
	dst = append(dst, '{')
	dst = appendUintMember(dst, "id", p.ID)
	dst = appendStringMember(dst, "channel", p.Channel)
	switch p.Kind {
	case protocol.PushPublication:
		dst = AppendPublication(appendName(dst, "pub"), &p.Publication)
	case protocol.PushJoin, protocol.PushLeave:
		dst = append(appendName(dst, p.Kind.String()), `{"info":`...)
		dst = append(appendClientInfo(dst, &p.Client), '}')
	case protocol.PushUnsubscribe:
		dst = appendEnd(appendName(dst, "unsubscribe"), p.Unsubscribe.Code, p.Unsubscribe.Reason)
		dst = append(dst, '}')
	case protocol.PushMessage:
		dst = append(appendName(dst, "message"), '{')
		dst = append(appendRawMember(dst, "data", p.Message), '}')
	case protocol.PushSubscribe:
		dst = appendSubscribeResult(appendName(dst, "subscribe"), &p.Subscribe)
	case protocol.PushConnect:
		dst = appendConnectResult(appendName(dst, "connect"), &p.Connect)
	case protocol.PushDisconnect:
		dst = appendEnd(appendName(dst, "disconnect"), uint32(p.Disconnect.Code), p.Disconnect.Reason)
		dst = append(appendBoolMember(dst, "reconnect", p.Disconnect.Reconnect()), '}')
	case protocol.PushRefresh:
		dst = appendRefreshResult(appendName(dst, "refresh"), &p.Refresh)
	case protocol.PushUnknown:
	}
	return append(dst, '}')
}

// appendEnd appends an object with the code and the reason for which a connection or subscription ended, and leaves the object open. Both are
// always present: from the code alone an SDK decides whether to try again.
func appendEnd(dst []byte, code uint32, reason string) []byte {
	dst = append(dst, `{"code":`...)
	dst = strconv.AppendUint(dst, uint64(code), 10)
	return appendString(appendName(dst, "reason"), reason)
}
