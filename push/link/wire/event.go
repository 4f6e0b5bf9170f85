package wire

import (
	"encoding/binary"

	"github.com/sluice-push/sluice/push"
	"github.com/sluice-push/sluice/push/broker"
)

// Kind says what an event of a Follow stream is.
type Kind byte

// The kinds of events. The stream begins with Start, and is then paused until the gateway calls Interest with Resume.
const (
	// Start has the position after which the gateway gets every publication of the channels that it wants.
	Start Kind = iota + 1
	// Batch has messages, perhaps none, and the offset up to which everything wanted has been sent with it.
	Batch
	// Skipped has an offset: of what the gateway wants, messages up to it were left out, because it did not read fast enough. It loads what it has
	// missed. The stream is paused meanwhile, as after Start.
	Skipped
	// Gap has a channel, empty for all, and an offset: publications up to it were evicted before they could be sent.
	Gap
	// Reset has the position at which a new epoch of the partition begins. It also ends a pause.
	Reset
)

// Event is an event of a Follow stream.
type Event struct {
	Kind     Kind
	Offset   uint64           // of every kind
	Epoch    string           // of Start and Reset
	Channel  string           // of Gap
	Messages []broker.Message // of Batch
}

// AppendStart appends a Start or Reset.
func AppendStart(dst []byte, kind Kind, at push.Position) []byte {
	dst = binary.AppendUvarint(append(dst, byte(kind)), at.Offset)
	return appendBytes(dst, at.Epoch)
}

// AppendSkipped appends a Skipped.
func AppendSkipped(dst []byte, offset uint64) []byte {
	return binary.AppendUvarint(append(dst, byte(Skipped)), offset)
}

// AppendGap appends a Gap.
func AppendGap(dst []byte, channel string, offset uint64) []byte {
	return appendBytes(binary.AppendUvarint(append(dst, byte(Gap)), offset), channel)
}

// AppendBatch appends the beginning of a Batch. Its messages follow: see [AppendMessage].
func AppendBatch(dst []byte, upTo uint64) []byte {
	return binary.AppendUvarint(append(dst, byte(Batch)), upTo)
}

// Event decodes an event. Messages are appended to dst, which may be nil, and have their own memory.
func (d *Decoder) Event(body []byte, dst []broker.Message) (Event, error) {
	r := &reader{rest: body}
	e := Event{Kind: Kind(r.octet())}
	e.Offset = r.uvarint()
	switch e.Kind {
	case Start, Reset:
		e.Epoch = string(r.bytes())
	case Gap:
		e.Channel = d.name(r.bytes())
	case Batch:
		e.Messages = d.messages(r, dst)
	case Skipped:
	default:
		return Event{}, ErrLayout
	}
	if r.isBad {
		return Event{}, ErrLayout
	}
	return e, nil
}

// FollowRequest is the argument of Follow.
type FollowRequest struct {
	Partition broker.Partition
	ID        string // names the stream for Interest; the gateway makes it up, unlike any other
}

// Append appends the layout.
func (f *FollowRequest) Append(dst []byte) []byte {
	return appendBytes(appendPartition(dst, f.Partition), f.ID)
}

// Parse decodes the layout.
func (f *FollowRequest) Parse(body []byte) error {
	r := &reader{rest: body}
	f.Partition, f.ID = r.partition(), string(r.bytes())
	return r.err()
}

// InterestRequest is the argument of Interest: it changes which channels a Follow stream sends. The answer is an offset. Everything above it that
// is published to the wanted channels is sent, or a Skipped event says that it was left out.
type InterestRequest struct {
	ID     string
	Want   []string
	Unwant []string
	Resume bool // ends a pause
}

// Append appends the layout.
func (i *InterestRequest) Append(dst []byte) []byte {
	dst = appendBytes(dst, i.ID)
	dst = append(dst, boolByte(i.Resume))
	for _, list := range [][]string{i.Want, i.Unwant} {
		dst = binary.AppendUvarint(dst, uint64(len(list)))
		for _, channel := range list {
			dst = appendBytes(dst, channel)
		}
	}
	return dst
}

// Parse decodes the layout.
func (i *InterestRequest) Parse(body []byte) error {
	r := &reader{rest: body}
	i.ID = string(r.bytes())
	i.Resume = r.octet() != 0
	for _, list := range []*[]string{&i.Want, &i.Unwant} {
		n := r.count(1)
		*list = make([]string, 0, n)
		for range n {
			*list = append(*list, string(r.bytes()))
		}
	}
	return r.err()
}

func boolByte(b bool) byte {
	if b {
		return 1
	}
	return 0
}

func appendPartition(dst []byte, p broker.Partition) []byte {
	return binary.AppendVarint(appendBytes(dst, p.Namespace), int64(p.Index))
}

func (r *reader) partition() broker.Partition {
	return broker.Partition{Namespace: string(r.bytes()), Index: int(r.varint())}
}

// err returns ErrLayout if a field did not fit.
func (r *reader) err() error {
	if r.isBad {
		return ErrLayout
	}
	return nil
}

// PartitionBody returns the argument of Head.
func PartitionBody(p broker.Partition) []byte { return appendPartition(nil, p) }

// ParsePartition decodes it.
func ParsePartition(body []byte) (broker.Partition, error) {
	r := &reader{rest: body}
	return r.partition(), r.err()
}

// AppendPosition appends the answer of Head and Publish.
func AppendPosition(dst []byte, at push.Position) []byte {
	return appendBytes(binary.AppendUvarint(dst, at.Offset), at.Epoch)
}

// ParsePosition decodes it.
func ParsePosition(body []byte) (push.Position, error) {
	r := &reader{rest: body}
	at := push.Position{Offset: r.uvarint(), Epoch: string(r.bytes())}
	return at, r.err()
}

// AppendOffset appends the answer of Interest.
func AppendOffset(dst []byte, offset uint64) []byte { return binary.AppendUvarint(dst, offset) }

// ParseOffset decodes it.
func ParseOffset(body []byte) (uint64, error) {
	r := &reader{rest: body}
	return r.uvarint(), r.err()
}
