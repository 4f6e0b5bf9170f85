package wire

import (
	"encoding/binary"
	"maps"
	"slices"

	"github.com/sluice-push/sluice/push"
	"github.com/sluice-push/sluice/push/broker"
)

// The flags of a message: its operation, and which of the optional fields follow.
const (
	opMask   = 0x03
	hasKey   = 0x04
	hasRetag = 0x08
	hasTags  = 0x10
	hasInfo  = 0x20
	known    = opMask | hasKey | hasRetag | hasTags | hasInfo
)

// sizeBytes is how many bytes the size before a message takes.
const sizeBytes = 4

// AppendMessage appends a message, with its size before it.
func AppendMessage(dst []byte, m *broker.Message) []byte {
	at := len(dst)
	dst = append(dst, 0, 0, 0, 0, flags(m))
	dst = appendBytes(dst, m.Channel)
	dst = binary.AppendUvarint(dst, m.Offset)
	dst = binary.AppendVarint(dst, m.Time)
	if m.Key != "" {
		dst = appendBytes(dst, m.Key)
	}
	if m.Retag != 0 {
		dst = binary.AppendUvarint(dst, m.Retag)
	}
	if len(m.Tags) > 0 {
		dst = binary.AppendUvarint(dst, uint64(len(m.Tags)))
		for _, name := range slices.Sorted(maps.Keys(m.Tags)) {
			dst = appendBytes(appendBytes(dst, name), m.Tags[name])
		}
	}
	if info := m.Info; info != nil {
		dst = appendBytes(appendBytes(dst, info.User), info.Client)
		dst = appendBytes(appendBytes(dst, info.ConnInfo), info.ChanInfo)
	}
	dst = appendBytes(dst, m.Data)
	binary.LittleEndian.PutUint32(dst[at:], uint32(len(dst)-at-sizeBytes)) //nolint:gosec // a frame is smaller
	return dst
}

func flags(m *broker.Message) byte {
	f := byte(m.Op) & opMask
	if m.Key != "" {
		f |= hasKey
	}
	if m.Retag != 0 {
		f |= hasRetag
	}
	if len(m.Tags) > 0 {
		f |= hasTags
	}
	if m.Info != nil {
		f |= hasInfo
	}
	return f
}

// Decoder decodes messages. It keeps the names of channels, which come again and again, so that they are not allocated for each message. One goroutine
// at a time uses it. The zero value is ready.
type Decoder struct {
	names map[string]string
	last  string // the name that came last, which often comes again
}

// keptNames is how many names a Decoder keeps. If there are more, it forgets them all.
const keptNames = 1 << 16

func (d *Decoder) name(b []byte) string {
	if string(b) == d.last {
		return d.last
	}
	name, ok := d.names[string(b)]
	if !ok {
		if d.names == nil || len(d.names) >= keptNames {
			d.names = make(map[string]string)
		}
		name = string(b)
		d.names[name] = name
	}
	d.last = name
	return name
}

// messages appends all messages that are left in r to dst. They have their own memory.
func (d *Decoder) messages(r *reader, dst []broker.Message) []broker.Message {
	for len(r.rest) > 0 && !r.isBad {
		one := r.sized()
		dst = append(dst, broker.Message{})
		d.message(&one, &dst[len(dst)-1])
		r.isBad = r.isBad || one.isBad
	}
	return dst
}

// message decodes a message. What follows the fields that are known here was added by a newer release, and is ignored.
func (d *Decoder) message(r *reader, m *broker.Message) {
	f := r.octet()
	if f&^known != 0 || f&opMask > byte(push.Clear) {
		r.isBad = true
		return
	}
	m.Op = push.Op(f & opMask)
	m.Channel = d.name(r.bytes())
	m.Offset = r.uvarint()
	m.Time = r.varint()
	if f&hasKey != 0 {
		m.Key = string(r.bytes())
	}
	if f&hasRetag != 0 {
		m.Retag = r.uvarint()
	}
	if f&hasTags != 0 {
		n := r.count(2)
		m.Tags = make(map[string]string, n)
		for range n {
			name := string(r.bytes())
			m.Tags[name] = string(r.bytes())
		}
	}
	if f&hasInfo != 0 {
		m.Info = &push.ClientInfo{User: string(r.bytes()), Client: string(r.bytes()), ConnInfo: r.owned(), ChanInfo: r.owned()}
	}
	m.Data = r.owned()
}
