package json

import (
	"cmp"
	"maps"
	"math"
	"slices"

	"github.com/sluice-push/sluice/push"
	"github.com/sluice-push/sluice/push/protocol"
)

// DecodeReply decodes one reply from JSON into r and overwrites all of it. It is for clients and tests. Slices of bytes in r share the memory of
// line, and strings are copies. If a publication removes rows, data that is null is decoded as nil. The error is a *[SyntaxError], wrapped, also
// if a value has the wrong type.
func DecodeReply(line []byte, r *protocol.Reply) error { return Limits{}.DecodeReply(line, r) }

// DecodeReply is [DecodeReply] with other limits.
func (l Limits) DecodeReply(line []byte, r *protocol.Reply) error {
	*r = protocol.Reply{}
	s := newScanner(line, l)
	for more := s.begin(); more; more = s.next() {
		s.where = ""
		switch name := string(s.key); {
		case name == "id":
			r.ID = uint32(s.unsigned("id", math.MaxUint32))
		case s.peek() == 'n':
			s.skip() // null counts as absent
		case name == "error":
			s.where = name
			r.Error = s.errorObject()
		default:
			s.result(r, name)
		}
		r.Kind = max(r.Kind, protocol.KindUnknown)
	}
	if r.Error != nil {
		r.Kind = protocol.KindNone
	}
	return s.finish("reply")
}

// DecodePush decodes a push without the object around it into p, and overwrites all of it. An empty object, the ping of one-way transports, is
// the zero Push. Otherwise it is like [DecodeReply].
func DecodePush(line []byte, p *protocol.Push) error { return Limits{}.DecodePush(line, p) }

// DecodePush is [DecodePush] with other limits.
func (l Limits) DecodePush(line []byte, p *protocol.Push) error {
	*p = protocol.Push{}
	s := newScanner(line, l)
	if s.peek() != '{' {
		s.unexpected("'{'")
	}
	s.where = "push"
	s.push(p)
	return s.finish("push")
}

// result decodes a member of a reply that may be its result.
func (s *scanner) result(r *protocol.Reply, name string) {
	kind := requestKind([]byte(name))
	if name == "push" {
		kind = protocol.KindPush
	}
	if r.Kind > protocol.KindUnknown || kind == protocol.KindUnknown || kind == protocol.KindSend {
		s.skip() // the first result counts
		return
	}
	r.Kind = kind
	s.where = name
	switch kind {
	case protocol.KindConnect:
		s.connectResult(&r.Connect)
	case protocol.KindSubscribe:
		s.subscribeResult(&r.Subscribe)
	case protocol.KindPresence:
		s.presenceResult(&r.Presence)
	case protocol.KindPresenceStats:
		s.presenceStatsResult(&r.PresenceStats)
	case protocol.KindHistory:
		s.historyResult(&r.History)
	case protocol.KindRPC:
		r.RPC.Data = s.dataObject()
	case protocol.KindRefresh:
		s.refreshResult(&r.Refresh)
	case protocol.KindSubRefresh:
		var refreshed protocol.RefreshResult
		s.refreshResult(&refreshed)
		r.SubRefresh = protocol.SubRefreshResult{Expires: refreshed.Expires, TTL: refreshed.TTL}
	case protocol.KindPush:
		s.push(&r.Push)
	default: // unsubscribe, publish, ping
		s.emptyObject()
	}
}

// errorObject decodes the member error.
func (s *scanner) errorObject() *push.Error {
	e := &push.Error{}
	for more := s.enter(""); more; more = s.next() {
		switch string(s.key) {
		case "code":
			e.Code = uint32(s.unsigned("code", math.MaxUint32))
		case "message":
			e.Message = s.str("message")
		case "temporary":
			e.Temporary = s.boolean("temporary")
		default:
			s.skip()
		}
	}
	return e
}

// dataObject decodes an object of which only the member data is used.
func (s *scanner) dataObject() (data []byte) {
	for more := s.enter(""); more; more = s.next() {
		if string(s.key) == "data" {
			data = s.raw()
		} else {
			s.skip()
		}
	}
	return data
}

func (s *scanner) connectResult(r *protocol.ConnectResult) {
	for more := s.enter(""); more; more = s.next() {
		switch string(s.key) {
		case "client":
			r.Client = s.str("client")
		case "version":
			r.Version = s.str("version")
		case "expires":
			r.Expires = s.boolean("expires")
		case "ttl":
			r.TTL = uint32(s.unsigned("ttl", math.MaxUint32))
		case "data":
			r.Data = s.raw()
		case "subs":
			r.Subs = s.subscribeResults()
		case "ping":
			r.Ping = uint32(s.unsigned("ping", math.MaxUint32))
		case "pong":
			r.Pong = s.boolean("pong")
		case "session":
			r.Session = s.str("session")
		case "node":
			r.Node = s.str("node")
		default:
			s.skip()
		}
	}
}

// subscribeResults decodes the member subs of a connect result.
func (s *scanner) subscribeResults() map[string]protocol.SubscribeResult {
	var subs map[string]protocol.SubscribeResult
	for more := s.enter("subs"); more; more = s.next() {
		if subs == nil {
			subs = make(map[string]protocol.SubscribeResult)
		}
		channel := string(s.key)
		var r protocol.SubscribeResult
		s.subscribeResult(&r)
		subs[channel] = r
	}
	return subs
}

func (s *scanner) subscribeResult(r *protocol.SubscribeResult) {
	for more := s.enter(""); more; more = s.next() {
		switch string(s.key) {
		case "expires":
			r.Expires = s.boolean("expires")
		case "ttl":
			r.TTL = uint32(s.unsigned("ttl", math.MaxUint32))
		case "recoverable":
			r.Recoverable = s.boolean("recoverable")
		case "epoch":
			r.Position.Epoch = s.str("epoch")
		case "publications":
			r.Publications = s.publications()
		case "recovered":
			r.Recovered = s.boolean("recovered")
		case "offset":
			r.Position.Offset = s.unsigned("offset", push.MaxOffset)
		case "positioned":
			r.Positioned = s.boolean("positioned")
		case "data":
			r.Data = s.raw()
		case "was_recovering":
			r.WasRecovering = s.boolean("was_recovering")
		case "delta":
			r.Delta = s.boolean("delta")
		case "id":
			r.ID = s.unsigned("id", push.MaxOffset)
		case "phase":
			r.Phase = uint32(s.unsigned("phase", math.MaxUint32))
		case "state":
			r.State = s.publications()
		case "cursor":
			r.Cursor = s.str("cursor")
		default:
			s.skip()
		}
	}
}

func (s *scanner) presenceResult(r *protocol.PresenceResult) {
	for more := s.enter(""); more; more = s.next() {
		if string(s.key) != "presence" {
			s.skip()
			continue
		}
		clients := make(map[string]push.ClientInfo)
		for more := s.enter("presence"); more; more = s.next() {
			id := string(s.key)
			info := s.clientInfo()
			info.Client = id
			clients[id] = info
		}
		r.Clients = slices.SortedFunc(maps.Values(clients), func(a, b push.ClientInfo) int { return cmp.Compare(a.Client, b.Client) })
	}
}

func (s *scanner) presenceStatsResult(r *protocol.PresenceStatsResult) {
	for more := s.enter(""); more; more = s.next() {
		switch string(s.key) {
		case "num_clients":
			r.Clients = uint32(s.unsigned("num_clients", math.MaxUint32))
		case "num_users":
			r.Users = uint32(s.unsigned("num_users", math.MaxUint32))
		default:
			s.skip()
		}
	}
}

func (s *scanner) historyResult(r *protocol.HistoryResult) {
	for more := s.enter(""); more; more = s.next() {
		switch string(s.key) {
		case "publications":
			r.Publications = s.publications()
		case "epoch":
			r.Position.Epoch = s.str("epoch")
		case "offset":
			r.Position.Offset = s.unsigned("offset", push.MaxOffset)
		default:
			s.skip()
		}
	}
}

func (s *scanner) refreshResult(r *protocol.RefreshResult) {
	for more := s.enter(""); more; more = s.next() {
		switch string(s.key) {
		case "client":
			r.Client = s.str("client")
		case "version":
			r.Version = s.str("version")
		case "expires":
			r.Expires = s.boolean("expires")
		case "ttl":
			r.TTL = uint32(s.unsigned("ttl", math.MaxUint32))
		default:
			s.skip()
		}
	}
}
