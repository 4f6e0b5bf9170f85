package protobuf_test

import (
	"encoding/binary"
	"errors"
	"math"
	"unicode/utf8"

	"github.com/sluice-push/sluice/push"
	"github.com/sluice-push/sluice/push/protocol/json"
	"github.com/sluice-push/sluice/push/protocol/protobuf/clientv1"
	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
)

// frame returns a message with its length before it.
func frame(message []byte) []byte {
	return append(binary.AppendUvarint(nil, uint64(len(message))), message...)
}

// errMalformed is what the walk reports for bytes that are no message, or that contain a group.
var errMalformed = errors.New("malformed")

// walk checks a message by the rules of the package comment, slowly and simply: with the descriptors of the generated code.
type walk struct {
	requests bool // bytes are JSON
	ill      bool // a value is not allowed
	id       uint64
	first    protoreflect.FieldNumber // of the request, result or content that counts, outside
	pushed   protoreflect.FieldNumber // likewise in a push
}

// merged is what is known of a message that may come in several parts.
type merged struct {
	parts   map[protoreflect.FieldNumber]*merged
	filters int
}

func (m *merged) part(n protoreflect.FieldNumber) *merged {
	if m.parts == nil {
		m.parts = make(map[protoreflect.FieldNumber]*merged)
	}
	if m.parts[n] == nil {
		m.parts[n] = &merged{}
	}
	return m.parts[n]
}

// message checks the fields of a message that is nested in depth filters.
func (w *walk) message(b []byte, d protoreflect.MessageDescriptor, m *merged, depth int) error {
	for len(b) > 0 {
		number, wireType, n := protowire.ConsumeTag(b)
		if n < 0 || wireType == protowire.StartGroupType || wireType == protowire.EndGroupType {
			return errMalformed
		}
		value := b[n:]
		size := protowire.ConsumeFieldValue(number, wireType, value)
		if size < 0 {
			return errMalformed
		}
		b = value[size:]
		field := d.Fields().ByNumber(number)
		if field == nil {
			continue
		}
		switch kind := field.Kind(); {
		case kind == protoreflect.MessageKind && wireType == protowire.BytesType:
			part := &merged{}
			if w.counts(d, field) && !field.IsList() && !field.IsMap() {
				part = m.part(number)
			}
			inner := depth
			if field.Message().Name() == "FilterNode" {
				inner++
				if d.Name() != "FilterNode" {
					m.filters++
				}
				w.ill = w.ill || inner > 64 || m.filters > 1
			}
			content, _ := protowire.ConsumeBytes(value)
			if err := w.message(content, field.Message(), part, inner); err != nil {
				return err
			}
		case kind == protoreflect.MessageKind: // of another wire type: an unknown field
		case kind == protoreflect.StringKind || kind == protoreflect.BytesKind:
			if wireType == protowire.BytesType {
				w.text(value, kind)
			}
		case wireType == protowire.VarintType:
			integer, _ := protowire.ConsumeVarint(value)
			w.integer(integer, field)
		}
	}
	return nil
}

// counts reports whether a field is the first request, result or content of its message, or none of these.
func (w *walk) counts(d protoreflect.MessageDescriptor, field protoreflect.FieldDescriptor) bool {
	var first *protoreflect.FieldNumber
	switch {
	case field.Name() == "error":
		return true
	case d.Name() == "Command" || d.Name() == "Reply":
		first = &w.first
	case d.Name() == "Push":
		first = &w.pushed
	default:
		return true
	}
	if *first == 0 {
		*first = field.Number()
	}
	return *first == field.Number()
}

func (w *walk) text(value []byte, kind protoreflect.Kind) {
	content, _ := protowire.ConsumeBytes(value)
	switch {
	case kind == protoreflect.StringKind:
		w.ill = w.ill || !utf8.Valid(content)
	case w.requests && len(content) > 0:
		_, err := json.CompactData(content)
		w.ill = w.ill || err != nil
	}
}

func (w *walk) integer(value uint64, field protoreflect.FieldDescriptor) {
	most := uint64(push.MaxOffset)
	switch {
	case field.Kind() == protoreflect.BoolKind:
		return
	case field.Name() == "limit":
		w.ill = w.ill || int64(value) != int64(int32(value))
		return
	case field.FullName() == "sluice.client.v1.Disconnect.code":
		most = math.MaxUint16
	case field.Kind() == protoreflect.Uint32Kind:
		most = math.MaxUint32
	case field.Kind() == protoreflect.Int32Kind:
		most = math.MaxInt32
	}
	w.ill = w.ill || value > most
	if field.FullName() == "sluice.client.v1.Command.id" {
		w.id = value
		if value > most {
			w.id = 0
		}
	}
}

// clearOthers clears the message fields of m except the one that counts.
func clearOthers(m protoreflect.Message, counts protoreflect.FieldNumber) {
	m.Range(func(field protoreflect.FieldDescriptor, _ protoreflect.Value) bool {
		if field.Kind() == protoreflect.MessageKind && field.Name() != "error" && field.Number() != counts {
			m.Clear(field)
		}
		return true
	})
}

// settleCommand brings a decoded message to what DecodeCommand makes of it.
func settleCommand(c *clientv1.Command, first protoreflect.FieldNumber) {
	clearOthers(c.ProtoReflect(), first)
	compact := func(data *[]byte) {
		if len(*data) > 0 {
			*data, _ = json.CompactData(*data)
		}
	}
	switch {
	case c.Connect != nil:
		compact(&c.Connect.Data)
		for channel, sub := range c.Connect.Subs {
			if sub == nil {
				c.Connect.Subs[channel] = &clientv1.SubscribeRequest{}
				continue
			}
			compact(&sub.Data)
			sub.Channel = ""
		}
	case c.Subscribe != nil:
		compact(&c.Subscribe.Data)
	case c.Publish != nil:
		compact(&c.Publish.Data)
	case c.Send != nil:
		compact(&c.Send.Data)
	case c.Rpc != nil:
		compact(&c.Rpc.Data)
	}
	discardUnknown(c)
}

// settleReply brings a decoded message to what DecodeReply makes of it.
func settleReply(r *clientv1.Reply, first, pushed protoreflect.FieldNumber) {
	if r.Error != nil {
		first = 0
	}
	clearOthers(r.ProtoReflect(), first)
	switch {
	case r.Subscribe != nil:
		settlePublications(r.Subscribe.Publications)
		settlePublications(r.Subscribe.State)
	case r.History != nil:
		settlePublications(r.History.Publications)
	case r.Connect != nil:
		settleSubs(r.Connect.Subs)
	case r.Presence != nil:
		for client, info := range r.Presence.Presence {
			info.Client = client
		}
	case r.Push != nil:
		settlePush(r.Push, pushed)
	}
	discardUnknown(r)
}

func settlePush(p *clientv1.Push, pushed protoreflect.FieldNumber) {
	clearOthers(p.ProtoReflect(), pushed)
	switch {
	case p.Pub != nil:
		settlePublications([]*clientv1.Publication{p.Pub})
	case p.Connect != nil:
		settleSubs(p.Connect.Subs)
	case p.Join != nil && p.Join.Info == nil:
		p.Join.Info = &clientv1.ClientInfo{}
	case p.Leave != nil && p.Leave.Info == nil:
		p.Leave.Info = &clientv1.ClientInfo{}
	case p.Disconnect != nil:
		p.Disconnect.Reconnect = push.Disconnect{Code: uint16(p.Disconnect.Code)}.Reconnect()
	}
	discardUnknown(p)
}

func settleSubs(subs map[string]*clientv1.SubscribeResult) {
	for _, sub := range subs {
		settlePublications(sub.Publications)
		settlePublications(sub.State)
	}
}

// A publication that clears everything does not remove a row, too.
func settlePublications(pubs []*clientv1.Publication) {
	for _, p := range pubs {
		p.Removed = p.Removed && !p.Cleared
	}
}

// discardUnknown removes the fields that the protocol does not know.
func discardUnknown(m proto.Message) {
	var visit func(m protoreflect.Message)
	visit = func(m protoreflect.Message) {
		m.SetUnknown(nil)
		m.Range(func(field protoreflect.FieldDescriptor, value protoreflect.Value) bool {
			switch {
			case field.IsMap():
				if field.MapValue().Kind() == protoreflect.MessageKind {
					value.Map().Range(func(_ protoreflect.MapKey, v protoreflect.Value) bool {
						visit(v.Message())
						return true
					})
				}
			case field.Kind() != protoreflect.MessageKind:
			case field.IsList():
				for i := range value.List().Len() {
					visit(value.List().Get(i).Message())
				}
			default:
				visit(value.Message())
			}
			return true
		})
	}
	visit(m.ProtoReflect())
}
