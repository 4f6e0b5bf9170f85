package nats

import (
	"context"
	"time"

	nats "github.com/nats-io/nats.go"

	"github.com/sluice-push/sluice/push"
	"github.com/sluice-push/sluice/push/broker"
)

// What tests of the pure parts are given.

// Token returns a name as a token of a subject, and NameOf undoes it.
func Token(name string) string { return string(appendToken(nil, name)) }

// NameOf undoes Token.
func NameOf(token string) string { return nameOf(token) }

// Unescape undoes the escapes of headers.
func Unescape(s string) string { return unescape(s) }

// EscapeValue writes the value of a header.
func EscapeValue(s string) string { return escapeValue(s) }

// StreamName is the name of a partition's stream.
func StreamName(p broker.Partition) string { return streamName(p) }

// LeaseSubject, LeaseFilter and LeaseKey are what leases are found by.
func LeaseSubject(key string) string { return leaseSubject(key) }

// LeaseFilter is the subject of a prefix.
func LeaseFilter(prefix string) string { return leaseFilter(prefix) }

// LeaseKey undoes LeaseSubject.
func LeaseKey(subject string) string { return leaseKey(subject) }

// Codec encodes and decodes for a namespace without a server.
type Codec struct{ p *partition }

// NewCodec returns the codec of a namespace's first partition.
func NewCodec(ns broker.Namespace, check func([]byte) ([]byte, error)) Codec {
	b := &Broker{opts: (&Options{Check: check}).withDefaults()}
	return Codec{newPartition(b, &namespace{Namespace: ns}, 0)}
}

// Encode returns the message of a publication.
func (c Codec) Encode(m *broker.Message, idempotencyKey string) (*nats.Msg, error) {
	return c.p.encode(m, idempotencyKey)
}

// Decode returns the publication in a message.
func (c Codec) Decode(m *nats.Msg, offset uint64, at time.Time) (broker.Message, error) {
	return c.p.decode(&stored{subject: m.Subject, header: m.Header, data: m.Data, seq: offset, time: at})
}

// Filter is the subject of all that belongs to a channel.
func (c Codec) Filter(channel string) string { return filter(c.p.prefix, c.p.ns.Mode, channel) }

// Window is a window with followers that are numbers.
type Window struct {
	w         *window
	followers map[int]*attachment
}

// NewWindow returns a window in epoch "1".
func NewWindow(limit, perSubject int) *Window {
	w := &Window{newWindow(limit, perSubject), make(map[int]*attachment)}
	w.w.reset("1")
	return w
}

// Enter reports whether there is a place.
func (w *Window) Enter(subject string) bool { return w.w.enter(subject) == nil }

// Waiting returns what is closed when there may be room.
func (w *Window) Waiting(subject string) <-chan struct{} { return w.w.enter(subject) }

// Leave gives a place back.
func (w *Window) Leave(subject string) { w.w.leave(subject) }

// Acknowledged says that a publication is stored.
func (w *Window) Acknowledged(subject string, at push.Position, then func()) {
	w.w.acknowledged(subject, at, then)
}

// Attach adds a follower that was given everything up to offset.
func (w *Window) Attach(id int, offset uint64) {
	w.followers[id] = &attachment{start: push.Position{Offset: offset}}
	w.w.attach(w.followers[id])
}

// Delivered says what a follower was given.
func (w *Window) Delivered(id int, offset uint64) { w.w.delivered(w.followers[id], offset) }

// Detach removes a follower.
func (w *Window) Detach(id int) { w.w.detach(w.followers[id]) }

// Reset begins another life.
func (w *Window) Reset(epoch string) { w.w.reset(epoch) }

// SetPerSubject changes the bound of a subject.
func (w *Window) SetPerSubject(n int) { w.w.setPerSubject(n) }

// Total is how many places are taken.
func (w *Window) Total() int {
	w.w.mu.Lock()
	defer w.w.mu.Unlock()
	return w.w.total
}

// Subjects is how many subjects are counted.
func (w *Window) Subjects() int {
	w.w.mu.Lock()
	defer w.w.mu.Unlock()
	return len(w.w.subjects)
}

// Kept is what there is to arrange of a channel.
type Kept struct {
	Mode                 push.Mode
	History              push.History
	TooOld, Grown, Floor uint64
	Gone                 uint64
	Stored               int
}

// Arrange sorts out entries.
func (k Kept) Arrange(entries []push.Publication) ([]push.Publication, uint64) {
	a := keep{mode: k.Mode, history: k.History, tooOld: k.TooOld, grown: k.Grown, floor: k.Floor}
	return a.arrange(found{entries: entries, stored: k.Stored, gone: k.Gone})
}

// Mark is the mark of a data folder.
type Mark struct{ m *mark }

// OpenMark takes a folder.
func OpenMark(dir string) (Mark, error) {
	m, err := openMark(dir)
	return Mark{m}, err
}

// Generation is that of the folder.
func (m Mark) Generation() string { return m.m.generation() }

// Close lets go of the folder after a clean end.
func (m Mark) Close() error { return m.m.close() }

// Abandon lets go of the folder as the end of the process does.
func (m Mark) Abandon() error { return m.m.lock.Close() }

// Renewed says why there is a new generation.
func (m Mark) Renewed() string { return m.m.renewed }

// Address is where the embedded server listens.
func (b *Broker) Address() string { return b.host.addr() }

// Refusal is what a broker without a server makes of an answer to a publication that is no acknowledgement, and NotSent of why one was not sent.
func Refusal(err error) error { return detached().refused(err) }

// NotSent is described at Refusal.
func NotSent(err error) error { return detached().notSent(err) }

func detached() *partition {
	b := &Broker{opts: (&Options{}).withDefaults(), ctx: context.Background()}
	return newPartition(b, &namespace{Namespace: broker.Namespace{Name: "n"}}, 0)
}
