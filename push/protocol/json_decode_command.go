package protocol

import (
	"math"

	"github.com/sluice-push/sluice/push"
)

// DecodeCommand reads the JSON form of one command into c, overwriting all of it. Slices of bytes in c are borrowed from line
// (those that went over several lines are copies on one line); strings are copies. When it fails, c is of use in so far as the
// error says:
//
//   - a *[push.Error] (code 107): the line is sound JSON and c.ID is not 0, but a value in it is of the wrong type or out of range.
//     The error is the answer to the command c.ID; the connection may go on.
//   - a *[SyntaxError], wrapped: broken JSON, or nobody to answer. The connection is to be ended, see there.
//
// A command that decodes may still be one that cannot be served: of KindUnknown, or with the ID 0 although it wants a reply.
func DecodeCommand(line []byte, c *Command) error { return Limits{}.DecodeCommand(line, c) }

// DecodeCommand is [DecodeCommand] with other limits.
func (l Limits) DecodeCommand(line []byte, c *Command) error {
	*c = Command{}
	s := newScanner(line, l)
	for more := s.begin(); more; more = s.next() {
		if string(s.key) == "id" {
			s.where = ""
			c.ID = uint32(s.unsigned("id", math.MaxUint32))
		} else if kind := requestKind(s.key); c.Kind > KindUnknown || kind == KindUnknown || s.peek() == 'n' {
			s.skip() // the first request counts, and null is none
		} else {
			c.Kind = kind
			s.where = kindNames[kind]
			s.request(c)
		}
		c.Kind = max(c.Kind, KindUnknown)
	}
	err := s.finish("command")
	if s.ill != nil && s.err == nil && c.ID != 0 {
		return s.ill.refusal()
	}
	return err
}

// requestKind returns the kind of the request that a member of a command holds, KindUnknown when it is none.
func requestKind(name []byte) Kind {
	switch string(name) {
	case "connect":
		return KindConnect
	case "subscribe":
		return KindSubscribe
	case "unsubscribe":
		return KindUnsubscribe
	case "publish":
		return KindPublish
	case "presence":
		return KindPresence
	case "presence_stats":
		return KindPresenceStats
	case "history":
		return KindHistory
	case "ping":
		return KindPing
	case "send":
		return KindSend
	case "rpc":
		return KindRPC
	case "refresh":
		return KindRefresh
	case "sub_refresh":
		return KindSubRefresh
	default:
		return KindUnknown
	}
}

// request reads the request of the kind that was found.
func (s *scanner) request(c *Command) {
	switch c.Kind {
	case KindConnect:
		s.connectRequest(&c.Connect)
	case KindSubscribe:
		s.subscribeRequest(&c.Subscribe)
	case KindUnsubscribe:
		s.channelRequest(&c.Unsubscribe)
	case KindPublish:
		s.publishRequest(&c.Publish)
	case KindPresence:
		s.channelRequest(&c.Presence)
	case KindPresenceStats:
		s.channelRequest(&c.PresenceStats)
	case KindHistory:
		s.historyRequest(&c.History)
	case KindSend:
		s.sendRequest(&c.Send)
	case KindRPC:
		s.rpcRequest(&c.RPC)
	case KindRefresh:
		s.refreshRequest(&c.Refresh)
	case KindSubRefresh:
		s.subRefreshRequest(&c.SubRefresh)
	default: // ping, which has no members
		s.emptyObject()
	}
}

// emptyObject reads an object of which no member is known.
func (s *scanner) emptyObject() {
	for more := s.enter(""); more; more = s.next() {
		s.skip()
	}
}

func (s *scanner) connectRequest(r *ConnectRequest) {
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

// subscribeRequests reads the member subs of a connect request.
func (s *scanner) subscribeRequests() map[string]SubscribeRequest {
	var subs map[string]SubscribeRequest
	outer := s.where
	for more := s.enter("subs"); more; more = s.next() {
		if subs == nil {
			subs = make(map[string]SubscribeRequest)
		}
		channel := string(s.key)
		var r SubscribeRequest
		s.where = "connect.subs"
		s.subscribeRequest(&r)
		s.where = outer
		r.Channel = channel
		subs[channel] = r
	}
	return subs
}

func (s *scanner) subscribeRequest(r *SubscribeRequest) {
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

func (s *scanner) channelRequest(r *ChannelRequest) {
	for more := s.enter(""); more; more = s.next() {
		if string(s.key) == "channel" {
			r.Channel = s.str("channel")
		} else {
			s.skip()
		}
	}
}

func (s *scanner) publishRequest(r *PublishRequest) {
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

func (s *scanner) historyRequest(r *HistoryRequest) {
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

// position reads an object of epoch and offset.
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

func (s *scanner) sendRequest(r *SendRequest) {
	for more := s.enter(""); more; more = s.next() {
		if string(s.key) == "data" {
			r.Data = s.raw()
		} else {
			s.skip()
		}
	}
}

func (s *scanner) rpcRequest(r *RPCRequest) {
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

func (s *scanner) refreshRequest(r *RefreshRequest) {
	for more := s.enter(""); more; more = s.next() {
		if string(s.key) == "token" {
			r.Token = s.str("token")
		} else {
			s.skip()
		}
	}
}

func (s *scanner) subRefreshRequest(r *SubRefreshRequest) {
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
