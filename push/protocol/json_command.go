package protocol

import (
	"maps"
	"slices"
)

// AppendCommand appends a command as a client sends it: one JSON object, without a line end. The zero Command is the client's
// pong; one of kind KindUnknown has nothing but its ID. The raw values in it must be what [CompactData] returns. It reads c and
// what it refers to only.
func AppendCommand(dst []byte, c *Command) []byte {
	dst = append(dst, '{')
	dst = appendUintMember(dst, "id", uint64(c.ID))
	if c.Kind == KindNone || c.Kind == KindUnknown || c.Kind == KindPush {
		return append(dst, '}')
	}
	dst = append(appendName(dst, c.Kind.String()), '{')
	switch c.Kind {
	case KindConnect:
		dst = appendConnectMembers(dst, &c.Connect)
	case KindSubscribe:
		dst = appendSubscribeMembers(dst, &c.Subscribe)
	case KindUnsubscribe:
		dst = appendStringMember(dst, "channel", c.Unsubscribe.Channel)
	case KindPublish:
		dst = appendPublishMembers(dst, &c.Publish)
	case KindPresence:
		dst = appendStringMember(dst, "channel", c.Presence.Channel)
	case KindPresenceStats:
		dst = appendStringMember(dst, "channel", c.PresenceStats.Channel)
	case KindHistory:
		dst = appendHistoryMembers(dst, &c.History)
	case KindSend:
		dst = appendRawMember(dst, "data", c.Send.Data)
	case KindRPC:
		dst = appendStringMember(dst, "method", c.RPC.Method)
		dst = appendRawMember(dst, "data", c.RPC.Data)
	case KindRefresh:
		dst = appendStringMember(dst, "token", c.Refresh.Token)
	case KindSubRefresh:
		dst = appendStringMember(dst, "channel", c.SubRefresh.Channel)
		dst = appendStringMember(dst, "token", c.SubRefresh.Token)
	case KindNone, KindUnknown, KindPing, KindPush:
	}
	return append(dst, '}', '}')
}

func appendConnectMembers(dst []byte, r *ConnectRequest) []byte {
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

func appendSubscribeMembers(dst []byte, r *SubscribeRequest) []byte {
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

func appendPublishMembers(dst []byte, r *PublishRequest) []byte {
	dst = appendStringMember(dst, "channel", r.Channel)
	dst = appendRawMember(dst, "data", r.Data)
	dst = appendStringMember(dst, "key", r.Key)
	dst = appendMapMember(dst, "tags", r.Tags)
	dst = appendBoolMember(dst, "removed", r.Removed)
	return appendUintMember(dst, "type", uint64(r.Type))
}

func appendHistoryMembers(dst []byte, r *HistoryRequest) []byte {
	dst = appendStringMember(dst, "channel", r.Channel)
	dst = appendIntMember(dst, "limit", int64(r.Limit))
	if r.HasSince {
		dst = append(appendName(dst, "since"), '{')
		dst = appendUintMember(dst, "offset", r.Since.Offset)
		dst = append(appendStringMember(dst, "epoch", r.Since.Epoch), '}')
	}
	return appendBoolMember(dst, "reverse", r.Reverse)
}
