package presence

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"strings"
	"sync"

	"github.com/sluice-push/sluice/push"
)

// Entry is what others see of one subscription: a lease, from which the presence of the channel lists the client, events that tell of its
// beginning and its end, or both. Its methods may be called concurrently.
type Entry struct {
	// Channel and Info must not change once the entry is in use.
	Channel string
	Info    push.ClientInfo

	key      string                                        // of the lease; empty: there is none
	announce func(ctx context.Context, event *Event) error // nil: there are no events

	mu           sync.Mutex // held while an event is announced, so that the leave follows the join
	joined, left bool
}

// Event says that a client has subscribed to a channel, or that its subscription has ended.
type Event struct {
	Channel string
	Client  *push.ClientInfo
	Left    bool // the subscription has ended
}

// EntryOptions say what others see of a subscription.
type EntryOptions struct {
	// Listed gives the entry a lease.
	Listed bool
	// Announce publishes an event to all nodes; nil: the entry has no events. The event is the callee's.
	Announce func(ctx context.Context, event *Event) error
}

// NewEntry returns the entry of a subscription that is about to begin. It has no effect before [Registry.Renew] and [Entry.Join] are called.
func NewEntry(channel string, info push.ClientInfo, o EntryOptions) *Entry {
	e := &Entry{Channel: channel, Info: info, announce: o.Announce}
	if o.Listed {
		e.key = NewKey(channel)
	}
	return e
}

// Renew adds the lease of an entry, or renews it.
func (r *Registry) Renew(ctx context.Context, e *Entry) error {
	if e.key == "" {
		return nil
	}
	return r.Enter(ctx, e.key, &e.Info)
}

// Remove removes the lease of an entry at once.
func (r *Registry) Remove(ctx context.Context, e *Entry) error {
	if e.key == "" {
		return nil
	}
	return r.Leave(ctx, e.key)
}

// Join announces that the subscription has begun. It does nothing after the first call, or if Left was called before: then nodes are not told of a
// client that is gone already. The error is that of EntryOptions.Announce.
func (e *Entry) Join(ctx context.Context) error {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.announce == nil || e.joined || e.left {
		return nil
	}
	e.joined = true
	return e.announce(ctx, &Event{Channel: e.Channel, Client: &e.Info})
}

// Left announces that the subscription has ended, once, if Join has announced its beginning. It waits for a Join under way, so that all nodes get
// the two in order. The error is that of EntryOptions.Announce.
func (e *Entry) Left(ctx context.Context) error {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.left {
		return nil
	}
	if e.left = true; !e.joined {
		return nil
	}
	return e.announce(ctx, &Event{Channel: e.Channel, Client: &e.Info, Left: true})
}

// The data of publications that carry events.
const (
	joinData  = `"join"`
	leaveData = `"leave"`
)

// Publication returns an event as a publication. It shares the memory of the event.
func (e *Event) Publication() push.Publication {
	p := push.Publication{Data: []byte(joinData), Info: e.Client}
	if e.Left {
		p.Data = []byte(leaveData)
	}
	return p
}

// EventOf returns the event of a channel that a publication carries.
func EventOf(channel string, p *push.Publication) Event {
	e := Event{Channel: channel, Client: p.Info, Left: string(p.Data) == leaveData}
	if e.Client == nil {
		e.Client = &push.ClientInfo{} // a publication that no node made
	}
	return e
}

// EventNamespace is the namespace of the streams by which events reach all nodes. A configuration cannot name it.
const EventNamespace = "@joins"

// EventChannel returns the channel with the events of a channel. Different channels have different ones, and each is a valid name.
func EventChannel(channel string) string {
	const longest = push.MaxChannelLen - len(EventNamespace+":")
	if len(channel) < longest {
		return EventNamespace + ":" + channel
	}
	sum := sha256.Sum256([]byte(channel)) // longer than all names above, so that no channel has this name of another one
	name := hex.EncodeToString(sum[:])
	return EventNamespace + ":" + name + strings.Repeat(".", longest-len(name))
}
