package wire

import (
	"encoding/binary"
	"time"

	"github.com/sluice-push/sluice/push/broker"
)

// AppendPublish appends the argument of Publish.
func AppendPublish(dst []byte, idempotencyKey string, m *broker.Message) []byte {
	return AppendMessage(appendBytes(dst, idempotencyKey), m)
}

// ParsePublish decodes it. The message has its own memory.
func ParsePublish(body []byte) (idempotencyKey string, m broker.Message, err error) {
	r := &reader{rest: body}
	key := string(r.bytes())
	one := r.sized()
	var d Decoder
	d.message(&one, &m)
	if r.isBad || one.isBad {
		return "", broker.Message{}, ErrLayout
	}
	return key, m, nil
}

// LoadRequest is the argument of Load.
type LoadRequest struct {
	Channel string
	Options broker.LoadOptions
	After   uint64 // only publications above it are sent
}

// Append appends the layout.
func (l *LoadRequest) Append(dst []byte) []byte {
	return binary.AppendUvarint(append(appendBytes(dst, l.Channel), boolByte(l.Options.RowsOnly)), l.After)
}

// Parse decodes the layout.
func (l *LoadRequest) Parse(body []byte) error {
	r := &reader{rest: body}
	l.Channel = string(r.bytes())
	l.Options.RowsOnly = r.octet() != 0
	l.After = r.uvarint()
	return r.err()
}

// The parts of a Load stream: any number with messages, and then one with the History.
const (
	loadMessages = 1
	loadEnd      = 2
)

// AppendLoad appends the beginning of a part with messages. They follow: see [AppendMessage].
func AppendLoad(dst []byte) []byte { return append(dst, loadMessages) }

// AppendHistory appends the last part.
func AppendHistory(dst []byte, h broker.History) []byte {
	dst = binary.AppendUvarint(append(dst, loadEnd), h.Floor)
	return appendBytes(binary.AppendUvarint(dst, h.Head), h.Epoch)
}

// Load decodes a part of a Load stream. The History is nil unless it is the last part. Messages are appended to dst, and have their own memory.
func (d *Decoder) Load(body []byte, dst []broker.Message) ([]broker.Message, *broker.History, error) {
	r := &reader{rest: body}
	switch r.octet() {
	case loadMessages:
		dst = d.messages(r, dst)
		return dst, nil, r.err()
	case loadEnd:
		h := &broker.History{Floor: r.uvarint(), Head: r.uvarint(), Epoch: string(r.bytes())}
		return dst, h, r.err()
	}
	return dst, nil, ErrLayout
}

// AppendTell appends the argument of Tell.
func AppendTell(dst []byte, node string, payload []byte) []byte {
	return appendBytes(appendBytes(dst, node), payload)
}

// ParseTell decodes it. The payload belongs to body.
func ParseTell(body []byte) (node string, payload []byte, err error) {
	r := &reader{rest: body}
	node, payload = string(r.bytes()), r.bytes()
	return node, payload, r.err()
}

// AppendLease appends the argument of PutLease, and the leases of a part of a ListLeases stream, where ttl is 0.
func AppendLease(dst []byte, l broker.Lease, ttl time.Duration) []byte {
	one := binary.AppendVarint(make([]byte, 0, len(l.Key)+len(l.Value)+3*binary.MaxVarintLen64), int64(ttl))
	return appendBytes(dst, appendBytes(appendBytes(one, l.Key), l.Value))
}

// ParseLeases decodes leases that follow one another, and the ttl of the last one. They have their own memory.
func ParseLeases(body []byte, dst []broker.Lease) ([]broker.Lease, time.Duration, error) {
	r := &reader{rest: body}
	var ttl time.Duration
	for len(r.rest) > 0 {
		one := reader{rest: r.bytes()}
		ttl = time.Duration(one.varint())
		dst = append(dst, broker.Lease{Key: string(one.bytes()), Value: one.owned()})
		r.isBad = r.isBad || one.isBad
	}
	return dst, ttl, r.err()
}

// AppendText appends the argument of Listen, DropLease and ListLeases: a node, a key, a prefix of keys.
func AppendText(dst []byte, text string) []byte { return appendBytes(dst, text) }

// ParseText decodes it.
func ParseText(body []byte) (string, error) {
	r := &reader{rest: body}
	text := string(r.bytes())
	return text, r.err()
}
