package json

import (
	"math"

	"github.com/sluice-push/sluice/push"
	"github.com/sluice-push/sluice/push/protocol"
)

// DecodeCommand decodes one command from JSON into c and overwrites all of it. Slices of bytes in c share the memory of line, unless the value
// spans several lines: then they are copies on one line. Strings are copies. After an error, the error says how far c is valid:
//
//   - a *[push.Error] (code 107): the line is valid JSON and c.ID is not 0, but a value in it is of the wrong type or out of range.
//     The error is the answer to the command c.ID, and the connection may continue.
//   - a *[SyntaxError], wrapped: the line is not JSON, or has no ID to answer. The server has to end the connection, see there.
//
// A decoded command may still be unusable: of KindUnknown, or with the ID 0 although it needs a reply.
func DecodeCommand(line []byte, c *protocol.Command) error { return Limits{}.DecodeCommand(line, c) }

// DecodeCommand is [DecodeCommand] with other limits.
func (l Limits) DecodeCommand(line []byte, c *protocol.Command) error {
	*c = protocol.Command{}
	s := newScanner(line, l)
	for more := s.begin(); more; more = s.next() {
		if string(s.key) == "id" {
			s.where = ""
			c.ID = uint32(s.unsigned("id", math.MaxUint32))
		} else if kind := requestKind(s.key); c.Kind > protocol.KindUnknown || kind == protocol.KindUnknown || s.peek() == 'n' {
			s.skip() // the first request counts, and null counts as absent
		} else {
			c.Kind = kind
			s.where = kind.String()
			s.request(c)
		}
		c.Kind = max(c.Kind, protocol.KindUnknown)
	}
	err := s.finish("command")
	if s.ill != nil && s.err == nil && c.ID != 0 {
		return s.ill.refusal()
	}
	return err
}

// requestKind returns the kind of request for the name of a member, KindUnknown if it is none.
func requestKind(name []byte) protocol.Kind {
	switch string(name) {
	case "connect":
		return protocol.KindConnect
	case "subscribe":
		return protocol.KindSubscribe
	case "unsubscribe":
		return protocol.KindUnsubscribe
	case "publish":
		return protocol.KindPublish
	case "presence":
		return protocol.KindPresence
	case "presence_stats":
		return protocol.KindPresenceStats
	case "history":
		return protocol.KindHistory
	case "ping":
		return protocol.KindPing
	case "send":
		return protocol.KindSend
	case "rpc":
		return protocol.KindRPC
	case "refresh":
		return protocol.KindRefresh
	case "sub_refresh":
		return protocol.KindSubRefresh
	default:
		return protocol.KindUnknown
	}
}

// request decodes a request of c.Kind.
func (s *scanner) request(c *protocol.Command) {
	switch c.Kind {
	case protocol.KindConnect:
		s.connectRequest(&c.Connect)
	case protocol.KindSubscribe:
		s.subscribeRequest(&c.Subscribe)
	case protocol.KindUnsubscribe:
		s.channelRequest(&c.Unsubscribe)
	case protocol.KindPublish:
		s.publishRequest(&c.Publish)
	case protocol.KindPresence:
		s.channelRequest(&c.Presence)
	case protocol.KindPresenceStats:
		s.channelRequest(&c.PresenceStats)
	case protocol.KindHistory:
		s.historyRequest(&c.History)
	case protocol.KindSend:
		s.sendRequest(&c.Send)
	case protocol.KindRPC:
		s.rpcRequest(&c.RPC)
	case protocol.KindRefresh:
		s.refreshRequest(&c.Refresh)
	case protocol.KindSubRefresh:
		s.subRefreshRequest(&c.SubRefresh)
	default: // ping, which has no members
		s.emptyObject()
	}
}

// emptyObject decodes an object without known members.
func (s *scanner) emptyObject() {
	for more := s.enter(""); more; more = s.next() {
		s.skip()
	}
}

func (s *scanner) connectRequest(r *protocol.ConnectRequest) {
	for more := s.enter(""); more; more = s.next() {
		switch string(s.key) {
		case "token":
			r.Token = s.str("token")
		case "data":
			r.Data = s.raw()
		case "name":
			r.Name = s.str("name")
		case "version":
			r.Version = s.str("version")
		case "headers":
			r.Headers = s.stringMap("headers")
		case "subs":
			r.Subs = s.subscribeRequests()
		case "flag":
			r.Flag = s.unsigned("flag", push.MaxOffset)
		default:
			s.skip()
		}
	}
}

// subscribeRequests decodes the member subs of a connect request.
func (s *scanner) subscribeRequests() map[string]protocol.SubscribeRequest {
	var subs map[string]protocol.SubscribeRequest
	outer := s.where
	for more := s.enter("subs"); more; more = s.next() {
		if subs == nil {
			subs = make(map[string]protocol.SubscribeRequest)
		}
		channel := string(s.key)
		var r protocol.SubscribeRequest
		s.where = "connect.subs"
		s.subscribeRequest(&r)
		s.where = outer
		r.Channel = channel
		subs[channel] = r
	}
	return subs
}

func (s *scanner) subscribeRequest(r *protocol.SubscribeRequest) {
	for more := s.enter(""); more; more = s.next() {
		switch string(s.key) {
		case "channel":
			r.Channel = s.str("channel")
		case "token":
			r.Token = s.str("token")
		case "data":
			r.Data = s.raw()
		case "recover":
			r.Recover = s.boolean("recover")
		case "epoch":
			r.Position.Epoch = s.str("epoch")
		case "offset":
			r.Position.Offset = s.unsigned("offset", push.MaxOffset)
		case "positioned":
			r.Positioned = s.boolean("positioned")
		case "recoverable":
			r.Recoverable = s.boolean("recoverable")
		case "join_leave":
			r.JoinLeave = s.boolean("join_leave")
		case "delta":
			r.Delta = s.str("delta")
		case "tf":
			r.Filter = s.rawUnlessNull()
		case "flag":
			r.Flag = s.unsigned("flag", push.MaxOffset)
		case "type":
			r.Type = uint32(s.unsigned("type", math.MaxUint32))
		case "phase":
			r.Phase = uint32(s.unsigned("phase", math.MaxUint32))
		case "limit":
			r.Limit = s.signed32("limit")
		case "cursor":
			r.Cursor = s.str("cursor")
		default:
			s.skip()
		}
	}
}

func (s *scanner) channelRequest(r *protocol.ChannelRequest) {
	for more := s.enter(""); more; more = s.next() {
		if string(s.key) == "channel" {
			r.Channel = s.str("channel")
		} else {
			s.skip()
		}
	}
}

func (s *scanner) publishRequest(r *protocol.PublishRequest) {
	for more := s.enter(""); more; more = s.next() {
		switch string(s.key) {
		case "channel":
			r.Channel = s.str("channel")
		case "data":
			r.Data = s.raw()
		case "key":
			r.Key = s.str("key")
		case "tags":
			r.Tags = s.stringMap("tags")
		case "removed":
			r.Removed = s.boolean("removed")
		case "type":
			r.Type = uint32(s.unsigned("type", math.MaxUint32))
		default:
			s.skip()
		}
	}
}

func (s *scanner) historyRequest(r *protocol.HistoryRequest) {
	for more := s.enter(""); more; more = s.next() {
		switch string(s.key) {
		case "channel":
			r.Channel = s.str("channel")
		case "limit":
			r.Limit = s.signed32("limit")
		case "since":
			r.HasSince = s.peek() != 'n'
			r.Since = s.position("since")
		case "reverse":
			r.Reverse = s.boolean("reverse")
		default:
			s.skip()
		}
	}
}

// position decodes an object of epoch and offset.
func (s *scanner) position(field string) (p push.Position) {
	for more := s.enter(field); more; more = s.next() {
		switch string(s.key) {
		case "epoch":
			p.Epoch = s.str("since.epoch")
		case "offset":
			p.Offset = s.unsigned("since.offset", push.MaxOffset)
		default:
			s.skip()
		}
	}
	return p
}

func (s *scanner) sendRequest(r *protocol.SendRequest) {
	for more := s.enter(""); more; more = s.next() {
		if string(s.key) == "data" {
			r.Data = s.raw()
		} else {
			s.skip()
		}
	}
}

func (s *scanner) rpcRequest(r *protocol.RPCRequest) {
	for more := s.enter(""); more; more = s.next() {
		switch string(s.key) {
		case "method":
			r.Method = s.str("method")
		case "data":
			r.Data = s.raw()
		default:
			s.skip()
		}
	}
}

func (s *scanner) refreshRequest(r *protocol.RefreshRequest) {
	for more := s.enter(""); more; more = s.next() {
		if string(s.key) == "token" {
			r.Token = s.str("token")
		} else {
			s.skip()
		}
	}
}

func (s *scanner) subRefreshRequest(r *protocol.SubRefreshRequest) {
	for more := s.enter(""); more; more = s.next() {
		switch string(s.key) {
		case "channel":
			r.Channel = s.str("channel")
		case "token":
			r.Token = s.str("token")
		default:
			s.skip()
		}
	}
}
