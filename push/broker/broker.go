// Package broker is the seam between the platform and the message queue that keeps and orders publications.
//
// A namespace is split into a fixed number of partitions; a channel belongs to one of them, chosen by its name. A partition is one
// sequence of publications: offsets increase over all its channels together. One follower is attached to a partition and is given
// everything that is accepted from then on, in order; what was accepted before is loaded channel by channel. Every partition has
// an epoch, an opaque name of its present life: when the broker can no longer vouch that an offset still means what it meant,
// the epoch changes.
//
// Besides publications a broker carries control messages between nodes and keeps leases: small values that vanish when their
// owner stops renewing them (presence, membership).
//
// The suite in push/pushtest says precisely what an implementation has to do; each passes it.
package broker

import (
	"context"
	"errors"
	"hash/fnv"
	"time"

	"github.com/sluice-push/sluice/push"
)

// Errors that callers branch on. Anything else a broker returns means that it cannot say whether the operation took effect.
var (
	// ErrUnknownNamespace: the namespace was not opened.
	ErrUnknownNamespace = errors.New("broker: namespace is not open")
	// ErrBusy: the broker refuses more for now; nothing was stored. Try again later.
	ErrBusy = errors.New("broker: too many publications under way")
	// ErrTooLarge: the publication is larger than the broker stores; nothing was stored.
	ErrTooLarge = errors.New("broker: publication is too large")
	// ErrClosed: Close was called.
	ErrClosed = errors.New("broker: closed")
)

// Namespace is what a broker has to know of a namespace.
type Namespace struct {
	Name       string
	Mode       push.Mode
	History    push.History
	Partitions int  // at least 1; part of the epoch, so that a change is noticed
	Durable    bool // survives the process; a broker that cannot do that says so in Open
}

// Partition names one sequence of a namespace.
type Partition struct {
	Namespace string
	Index     int // 0 … Partitions−1
}

// PartitionOf returns the partition, among n, to which a channel belongs. It is the same on every node and in every release.
func PartitionOf(channel string, n int) Partition {
	p := Partition{Namespace: push.Namespace(channel)}
	if n > 1 {
		h := fnv.New64a()
		_, _ = h.Write([]byte(channel))
		p.Index = int(h.Sum64() % uint64(n))
	}
	return p
}

// Message is a publication with the channel it belongs to.
type Message struct {
	Channel string
	push.Publication
}

// Stats is what a broker says of itself. What it does not know is zero.
type Stats struct {
	Kind       string // memory, nats
	Connected  bool   // its server can be reached; one in the process always can
	Reconnects uint64 // how often a connection to the server was made anew
	Refused    uint64 // messages of others that are no publications, or cannot be given to clients, and were left out
	Pending    int    // publications under way: not acknowledged, or not yet given to the followers of this process
	Stored     int64  // bytes that an embedded server holds on disk, at most
	StoreLimit int64  // bytes that publications may come to there; 0: no limit
	Full       bool   // the last durable publication was refused because there is no room for it
}

// PublishOptions qualify one publish.
type PublishOptions struct {
	// IdempotencyKey, when not empty, makes a repeated publish to the same channel within five minutes answer the position of
	// the first one and store nothing, whatever is published. Any string will do.
	IdempotencyKey string
}

// Follower takes what a partition delivers. Its methods are called by one goroutine at a time; a method that blocks holds the
// partition back, perhaps its publishers too, and loses nothing.
type Follower interface {
	// Deliver gives the next messages, at least one, in offset order. The slice is borrowed until Deliver returns; what the messages
	// refer to is immutable and may be kept.
	Deliver(batch []Message)
	// Gap says that publications up to and including offset were evicted before they could be delivered.
	Gap(offset uint64)
	// Reset says that the partition's life ended: positions of older epochs mean nothing any more, and what is delivered from
	// now on follows start, which carries the new epoch.
	Reset(start push.Position)
}

// Attachment is a follower's hold on a partition.
type Attachment interface {
	// Start is the position from which the follower is given everything.
	Start() push.Position
	// Detach ends delivery and returns when no method of the follower is running any more; what was not delivered yet is not
	// delivered to it. It must not be called from a method of the follower. Calling it again, or after Close, does nothing.
	Detach()
}

// History is what Load found.
type History struct {
	// Epoch of the partition that was read.
	Epoch string
	// Floor is the offset from which on the visited publications are complete: of a stream, each one above it was visited; of
	// rows, each removal above it that was not superseded. Live rows are visited wherever they are. It is below the first
	// publication visited of a stream, and never below a clear. See the rules for loading in ARCHITECTURE.md.
	Floor uint64
	// Head is the partition's offset through which they are complete.
	Head uint64
}

// Broker keeps and orders publications. All methods may be called concurrently. With a context that is done they do nothing and
// return its error; a context matters only until the method returns. Channels and keys have been checked by the caller
// (push.CheckChannel, push.CheckKey); whatever they contain, no two are taken for the same.
type Broker interface {
	// Open makes a namespace usable, creating its partitions where they do not exist. Opening it again with the same settings
	// does nothing; with another History the broker takes it over; another Mode or number of Partitions it refuses.
	Open(ctx context.Context, ns Namespace) error

	// Publish stores p at the end of its channel's partition and returns its position once the broker has accepted it. Offset
	// and Time of p are ignored: the broker gives them, and Time never goes back within a partition. p must not be changed
	// afterwards. Clear works in every mode, Remove not in stream mode; a value channel has one row whatever the keys.
	Publish(ctx context.Context, channel string, p push.Publication, opts PublishOptions) (push.Position, error)

	// Attach begins to deliver a partition to f, at the latest from the next publication on. It does not wait for f, whose methods
	// may be called before the caller has the attachment in hand. Several followers may be attached to a partition: each is given
	// the same sequence.
	Attach(ctx context.Context, p Partition, f Follower) (Attachment, error)

	// Load visits what is kept of a channel in offset order: in stream mode its history, otherwise its rows and remembered
	// removals; what was published before a clear, and the clear itself, are not visited. Nothing visited is above the Head that is
	// returned, and nothing is missing that any follower was given before Load was called. An error from visit ends the loading and is
	// returned, wrapped. visit may call the broker.
	Load(ctx context.Context, channel string, visit func(push.Publication) error) (History, error)

	// Head returns the partition's newest position. Its epoch is never empty.
	Head(ctx context.Context, p Partition) (push.Position, error)

	Control
	Leases

	// Close ends all attachments and listeners, waits for their methods and handlers, and releases what the broker holds. What was
	// acknowledged is safe before it returns; what is under way fails. It must not be called from a follower or handler. Afterwards
	// every method returns ErrClosed, and Close nil.
	Close() error
}

// Control carries messages between the nodes that share a broker, at most once: a node that is not listening misses them.
type Control interface {
	// Listen gives handle every control message for this node that is told from now on, one at a time, until stop is called, which
	// returns when handle is not running any more, and may be called again but not from handle. The payload is borrowed until handle
	// returns.
	Listen(ctx context.Context, node string, handle func(payload []byte)) (stop func(), err error)
	// Tell sends a message to one node, or to all that listen, the sender included, when node is empty. The messages of one
	// caller arrive in order. It may wait while a listener does not keep up, and answers ErrBusy when that takes too long: then that
	// listener misses the message. The payload is the caller's again when it returns.
	Tell(ctx context.Context, node string, payload []byte) error
}

// Lease is a small value that vanishes when it is not renewed.
type Lease struct {
	Key   string // any string, control characters included
	Value []byte
}

// Leases keeps leases.
type Leases interface {
	// PutLease creates or renews a lease: it vanishes ttl after the last PutLease of its key, or up to a second later, for ttl may be
	// rounded up. ttl has to be positive. The value is the caller's again when it returns.
	PutLease(ctx context.Context, l Lease, ttl time.Duration) error
	// DropLease ends a lease at once; dropping one that does not exist does nothing.
	DropLease(ctx context.Context, key string) error
	// ListLeases returns the live leases whose keys begin with prefix, ordered by key. The slice is the caller's, the values must
	// not be changed.
	ListLeases(ctx context.Context, prefix string) ([]Lease, error)
}
