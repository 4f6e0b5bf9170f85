package nats

import (
	"context"
	"time"

	nats "github.com/nats-io/nats.go"

	"github.com/sluice-push/sluice/push"
	"github.com/sluice-push/sluice/push/broker"
)

// Access to the pure functions for tests.

// Token returns a name as a token of a subject; NameOf is the inverse.
func Token(name string) string { return string(appendToken(nil, name)) }

// NameOf is the inverse of Token.
func NameOf(token string) string { return nameOf(token) }

// Unescape decodes the escapes of headers.
func Unescape(s string) string { return unescape(s) }

// EscapeValue encodes the value of a header.
func EscapeValue(s string) string { return escapeValue(s) }

// StreamName is the name of a partition's stream.
func StreamName(p broker.Partition) string { return streamName(p) }

// LeaseSubject returns the subject of a lease's key.
func LeaseSubject(key string) string { return leaseSubject(key) }

// LeaseFilter is the subject of a prefix.
func LeaseFilter(prefix string) string { return leaseFilter(prefix) }

// LeaseKey is the inverse of LeaseSubject.
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

// Filter returns the subject that matches all publications of a channel.
func (c Codec) Filter(channel string) string { return filter(c.p.prefix, c.p.ns.Mode, channel) }

// Window is a window whose followers are numbers.
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

// Waiting returns a channel that is closed when there may be room.
func (w *Window) Waiting(subject string) <-chan struct{} { return w.w.enter(subject) }

// Leave frees a place.
func (w *Window) Leave(subject string) { w.w.leave(subject) }

// Acknowledged records that a publication is stored.
func (w *Window) Acknowledged(subject string, at push.Position, then func()) {
	w.w.acknowledged(subject, at, then)
}

// Attach adds a follower that has got everything up to offset.
func (w *Window) Attach(id int, offset uint64) {
	w.followers[id] = &attachment{start: push.Position{Offset: offset}}
	w.w.attach(w.followers[id])
}

// Delivered records that a follower has got everything up to offset.
func (w *Window) Delivered(id int, offset uint64) { w.w.delivered(w.followers[id], offset) }

// Detach removes a follower.
func (w *Window) Detach(id int) { w.w.detach(w.followers[id]) }

// Reset begins another epoch.
func (w *Window) Reset(epoch string) { w.w.reset(epoch) }

// SetPerSubject changes the bound of a subject.
func (w *Window) SetPerSubject(n int) { w.w.setPerSubject(n) }

// Total returns how many places are taken.
func (w *Window) Total() int {
	w.w.mu.Lock()
	defer w.w.mu.Unlock()
	return w.w.total
}

// Subjects returns how many subjects have a count.
func (w *Window) Subjects() int {
	w.w.mu.Lock()
	defer w.w.mu.Unlock()
	return len(w.w.subjects)
}

// Kept is the input of arrange for a channel.
type Kept struct {
	Mode                 push.Mode
	History              push.History
	TooOld, Grown, Floor uint64
	Gone                 uint64
	Stored               int
}

// Arrange calls arrange.
func (k Kept) Arrange(entries []push.Publication) ([]push.Publication, uint64) {
	a := keep{mode: k.Mode, history: k.History, tooOld: k.TooOld, grown: k.Grown, floor: k.Floor}
	return a.arrange(found{entries: entries, stored: k.Stored, gone: k.Gone})
}

// Mark is the mark of a data folder.
type Mark struct{ m *mark }

// OpenMark locks a folder.
func OpenMark(dir string) (Mark, error) {
	m, err := openMark(dir)
	return Mark{m}, err
}

// Generation is that of the folder.
func (m Mark) Generation() string { return m.m.generation() }

// Close unlocks the folder after a clean end.
func (m Mark) Close() error { return m.m.close() }

// Abandon unlocks the folder like the end of the process.
func (m Mark) Abandon() error { return m.m.lock.Close() }

// Renewed returns why there is a new generation.
func (m Mark) Renewed() string { return m.m.renewed }

// Address returns the address on which the embedded server listens.
func (b *Broker) Address() string { return b.host.addr() }

// Refusal returns the error of a broker without a server for a publication that was not acknowledged, and NotSent for one that was not sent.
func Refusal(err error) error { return detached().refused(err) }

// NotSent is described at Refusal.
func NotSent(err error) error { return detached().notSent(err) }

func detached() *partition {
	b := &Broker{opts: (&Options{}).withDefaults(), ctx: context.Background()}
	return newPartition(b, &namespace{Namespace: broker.Namespace{Name: "n"}}, 0)
}
