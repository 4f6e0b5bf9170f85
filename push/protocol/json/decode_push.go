package json

import (
	"math"

	"github.com/sluice-push/sluice/push"
	"github.com/sluice-push/sluice/push/protocol"
)

// push decodes a push object.
func (s *scanner) push(p *protocol.Push) {
	for more := s.enter(""); more; more = s.next() {
		kind := pushKind(s.key)
		switch {
		case string(s.key) == "channel":
			p.Channel = s.str("channel")
		case string(s.key) == "id":
			p.ID = s.unsigned("id", push.MaxOffset)
		case p.Kind != protocol.PushUnknown || kind == protocol.PushUnknown || s.peek() == 'n':
			s.skip() // the first content counts, and null counts as absent
		default:
			p.Kind = kind
			s.pushContent(p)
		}
	}
}

// pushKind returns the kind of content for the name of a member, PushUnknown if it is none.
func pushKind(name []byte) protocol.PushKind {
	for kind := protocol.PushPublication; kind <= protocol.PushRefresh; kind++ {
		if kind.String() == string(name) {
			return kind
		}
	}
	return protocol.PushUnknown
}

func (s *scanner) pushContent(p *protocol.Push) {
	outer := s.where
	s.where = p.Kind.String()
	switch p.Kind {
	case protocol.PushPublication:
		p.Publication = s.publication()
	case protocol.PushJoin, protocol.PushLeave:
		for more := s.enter(""); more; more = s.next() {
			if string(s.key) == "info" {
				p.Client = s.clientInfo()
			} else {
				s.skip()
			}
		}
	case protocol.PushUnsubscribe:
		p.Unsubscribe.Code, p.Unsubscribe.Reason = s.ending(math.MaxUint32)
	case protocol.PushMessage:
		p.Message = s.dataObject()
	case protocol.PushSubscribe:
		s.subscribeResult(&p.Subscribe)
	case protocol.PushConnect:
		s.connectResult(&p.Connect)
	case protocol.PushDisconnect:
		code, reason := s.ending(math.MaxUint16)
		p.Disconnect = push.Disconnect{Code: uint16(code), Reason: reason}
	case protocol.PushRefresh:
		s.refreshResult(&p.Refresh)
	case protocol.PushUnknown:
	}
	s.where = outer
}

// ending decodes the code and the reason for which a connection or subscription ended.
func (s *scanner) ending(most uint64) (code uint32, reason string) {
	for more := s.enter(""); more; more = s.next() {
		switch string(s.key) {
		case "code":
			code = uint32(s.unsigned("code", most))
		case "reason":
			reason = s.str("reason")
		default:
			s.skip()
		}
	}
	return code, reason
}

// publications decodes an array of publications, nil if it is empty.
func (s *scanner) publications() []push.Publication {
	var pubs []push.Publication
	for more := s.enterArray("publications"); more; more = s.nextElement() {
		pubs = append(pubs, s.publication())
	}
	return pubs
}

func (s *scanner) publication() (p push.Publication) {
	var removed, cleared bool
	for more := s.enter("publication"); more; more = s.next() {
		switch string(s.key) {
		case "data":
			p.Data = s.raw()
		case "info":
			p.Info = nil
			if s.peek() != 'n' {
				info := s.clientInfo()
				p.Info = &info
			} else {
				s.skip()
			}
		case "offset":
			p.Offset = s.unsigned("offset", push.MaxOffset)
		case "tags":
			p.Tags = s.stringMap("tags")
		case "key":
			p.Key = s.str("key")
		case "removed":
			removed = s.boolean("removed")
		case "cleared":
			cleared = s.boolean("cleared")
		case "delta":
			p.Delta = s.boolean("delta")
		default:
			s.skip()
		}
	}
	switch {
	case cleared:
		p.Op = push.Clear
	case removed:
		p.Op = push.Remove
	}
	if p.Op != push.Set && string(p.Data) == "null" {
		p.Data = nil
	}
	return p
}

func (s *scanner) clientInfo() (c push.ClientInfo) {
	for more := s.enter("info"); more; more = s.next() {
		switch string(s.key) {
		case "user":
			c.User = s.str("user")
		case "client":
			c.Client = s.str("client")
		case "conn_info":
			c.ConnInfo = s.rawUnlessNull()
		case "chan_info":
			c.ChanInfo = s.rawUnlessNull()
		default:
			s.skip()
		}
	}
	return c
}
