package json

import (
	"maps"
	"slices"

	"github.com/sluice-push/sluice/push/protocol"
)

// AppendCommand appends the JSON encoding of a command: one object, without a line end. The zero Command is the client's pong. A command of
// KindUnknown has nothing but its ID. The raw values in it must be results of [CompactData]. AppendCommand only reads c and the values that c
// refers to.
func AppendCommand(dst []byte, c *protocol.Command) []byte {
	dst = append(dst, '{')
	dst = appendUintMember(dst, "id", uint64(c.ID))
	if c.Kind == protocol.KindNone || c.Kind == protocol.KindUnknown || c.Kind == protocol.KindPush {
		return append(dst, '}')
	}
	dst = append(appendName(dst, c.Kind.String()), '{')
	switch c.Kind {
	case protocol.KindConnect:
		dst = appendConnectMembers(dst, &c.Connect)
	case protocol.KindSubscribe:
		dst = appendSubscribeMembers(dst, &c.Subscribe)
	case protocol.KindUnsubscribe:
		dst = appendStringMember(dst, "channel", c.Unsubscribe.Channel)
	case protocol.KindPublish:
		dst = appendPublishMembers(dst, &c.Publish)
	case protocol.KindPresence:
		dst = appendStringMember(dst, "channel", c.Presence.Channel)
	case protocol.KindPresenceStats:
		dst = appendStringMember(dst, "channel", c.PresenceStats.Channel)
	case protocol.KindHistory:
		dst = appendHistoryMembers(dst, &c.History)
	case protocol.KindSend:
		dst = appendRawMember(dst, "data", c.Send.Data)
	case protocol.KindRPC:
		dst = appendStringMember(dst, "method", c.RPC.Method)
		dst = appendRawMember(dst, "data", c.RPC.Data)
	case protocol.KindRefresh:
		dst = appendStringMember(dst, "token", c.Refresh.Token)
	case protocol.KindSubRefresh:
		dst = appendStringMember(dst, "channel", c.SubRefresh.Channel)
		dst = appendStringMember(dst, "token", c.SubRefresh.Token)
	case protocol.KindNone, protocol.KindUnknown, protocol.KindPing, protocol.KindPush:
	}
	return append(dst, '}', '}')
}

func appendConnectMembers(dst []byte, r *protocol.ConnectRequest) []byte {
	dst = appendStringMember(dst, "token", r.Token)
	dst = appendRawMember(dst, "data", r.Data)
	if len(r.Subs) > 0 {
		dst = append(appendName(dst, "subs"), '{')
		for i, channel := range slices.Sorted(maps.Keys(r.Subs)) {
			if i > 0 {
				dst = append(dst, ',')
			}
			sub := r.Subs[channel]
			sub.Channel = "" // named by the member
			dst = append(appendString(dst, channel), ':', '{')
			dst = append(appendSubscribeMembers(dst, &sub), '}')
		}
		dst = append(dst, '}')
	}
	dst = appendStringMember(dst, "name", r.Name)
	dst = appendStringMember(dst, "version", r.Version)
	dst = appendMapMember(dst, "headers", r.Headers)
	return appendUintMember(dst, "flag", r.Flag)
}

func appendSubscribeMembers(dst []byte, r *protocol.SubscribeRequest) []byte {
	dst = appendStringMember(dst, "channel", r.Channel)
	dst = appendStringMember(dst, "token", r.Token)
	dst = appendBoolMember(dst, "recover", r.Recover)
	dst = appendStringMember(dst, "epoch", r.Position.Epoch)
	dst = appendUintMember(dst, "offset", r.Position.Offset)
	dst = appendRawMember(dst, "data", r.Data)
	dst = appendBoolMember(dst, "positioned", r.Positioned)
	dst = appendBoolMember(dst, "recoverable", r.Recoverable)
	dst = appendBoolMember(dst, "join_leave", r.JoinLeave)
	dst = appendStringMember(dst, "delta", r.Delta)
	dst = appendUintMember(dst, "flag", r.Flag)
	dst = appendUintMember(dst, "type", uint64(r.Type))
	dst = appendUintMember(dst, "phase", uint64(r.Phase))
	dst = appendIntMember(dst, "limit", int64(r.Limit))
	dst = appendStringMember(dst, "cursor", r.Cursor)
	return appendRawMember(dst, "tf", r.Filter)
}

func appendPublishMembers(dst []byte, r *protocol.PublishRequest) []byte {
	dst = appendStringMember(dst, "channel", r.Channel)
	dst = appendRawMember(dst, "data", r.Data)
	dst = appendStringMember(dst, "key", r.Key)
	dst = appendMapMember(dst, "tags", r.Tags)
	dst = appendBoolMember(dst, "removed", r.Removed)
	return appendUintMember(dst, "type", uint64(r.Type))
}

func appendHistoryMembers(dst []byte, r *protocol.HistoryRequest) []byte {
	dst = appendStringMember(dst, "channel", r.Channel)
	dst = appendIntMember(dst, "limit", int64(r.Limit))
	if r.HasSince {
		dst = append(appendName(dst, "since"), '{')
		dst = appendUintMember(dst, "offset", r.Since.Offset)
		dst = append(appendStringMember(dst, "epoch", r.Since.Epoch), '}')
	}
	return appendBoolMember(dst, "reverse", r.Reverse)
}
