// Package broker defines the interface between the platform and the message queue that orders and stores publications.
//
// A namespace is split into a fixed number of partitions. A channel's name decides to which of them the channel belongs. A partition is one
// sequence of publications: offsets increase over all its channels together. A follower attached to a partition gets every publication that is
// accepted from then on, in order. Earlier publications are loaded channel by channel. Every partition has an epoch, an opaque name of the
// present generation of its data. If the broker can no longer guarantee that an offset still means what it meant, the epoch changes.
//
// A broker also carries control messages between nodes, and keeps leases: small values that vanish when their owner stops renewing them
// (presence, membership).
//
// The conformance suite in push/pushtest specifies what an implementation has to do. Every implementation passes it.
package broker

import (
	"context"
	"errors"
	"hash/fnv"
	"time"

	"github.com/sluice-push/sluice/push"
)

// Errors that callers branch on. Any other error of a broker means that it is unknown whether the operation took effect.
var (
	// ErrUnknownNamespace means that the namespace was not opened.
	ErrUnknownNamespace = errors.New("broker: namespace is not open")
	// ErrBusy means that the broker accepts no more for now. Nothing was stored, and the caller may try again later.
	ErrBusy = errors.New("broker: busy")
	// ErrTooLarge means that the publication is larger than the broker stores. Nothing was stored.
	ErrTooLarge = errors.New("broker: publication is too large")
	// ErrClosed means that Close was called.
	ErrClosed = errors.New("broker: closed")
)

// Namespace is the configuration of a namespace, as far as a broker needs it.
type Namespace struct {
	Name       string
	Mode       push.Mode
	History    push.History
	Partitions int  // at least 1; part of the epoch, so that clients notice a change
	Durable    bool // the data survives the process; Open of a broker that cannot do that fails
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

	// Retag is the offset at which the tags of the row changed last, as the source of the data knows it. It is set by a broker that does not
	// deliver every version of a row, such as a link to another node; 0 means that every version is delivered. A replica that compared the
	// versions it saw could miss a change that was undone, and would then not tell a client whose filter had matched the row meanwhile.
	Retag uint64
}

// Stats are the counters and the state of a broker. A value that the broker does not know is zero.
type Stats struct {
	Kind       string // memory, nats, link
	Connected  bool   // the server can be reached; always true for a broker in the process
	Reconnects uint64 // how often a connection to the server was made again
	Refused    uint64 // messages of other programs that were left out: no publications, or unfit for clients
	Pending    int    // publications under way: not acknowledged, or not yet given to the followers of this process
	Stored     int64  // bytes that an embedded server holds on disk, at most
	StoreLimit int64  // how many bytes publications may take there; 0: no limit
	Full       bool   // the last durable publication was refused because there is no room for it
}

// PublishOptions are the options of one Publish.
type PublishOptions struct {
	// IdempotencyKey identifies a publish that may be repeated; empty means none. If the same key was used for the same channel within the last
	// five minutes, Publish stores nothing, whatever the publication is, and returns the position of the first one. Any string is allowed.
	IdempotencyKey string
}

// Follower receives the publications of a partition. One goroutine at a time calls its methods. A method that blocks holds back the partition,
// perhaps its publishers too, and loses nothing.
type Follower interface {
	// Deliver receives the next messages, at least one, in offset order. The slice belongs to the broker again when Deliver returns. The values
	// that the messages refer to are immutable and may be kept.
	Deliver(batch []Message)
	// Gap reports that publications of a channel up to and including offset were evicted before they could be delivered. An empty name stands for
	// all channels of the partition.
	Gap(channel string, offset uint64)
	// Advance reports that everything up to and including offset that the follower wants was delivered. Only a broker that delivers wanted channels
	// alone calls it: after publications to other channels.
	Advance(offset uint64)
	// Reset reports that the partition has a new epoch, which start carries. Positions of older epochs are void, and all further deliveries
	// follow start.
	Reset(start push.Position)
}

// Attachment is the registration of a follower with a partition.
type Attachment interface {
	// Start returns the position after which the follower gets every publication.
	Start() push.Position
	// Want subscribes the follower to a channel of the partition. It returns when all publications accepted from then on will be delivered.
	// Unwant ends that. Calls are counted: a channel is wanted until Unwant has been called as often as Want. A follower may get channels that
	// it does not want, but has to want the channels that it needs. A broker that delivers whole partitions ignores both methods: see
	// [WholePartition]. The errors of Want are those of Load. A method of the follower must not call Want. It may call Unwant, which does not
	// block.
	Want(ctx context.Context, channel string) error
	Unwant(channel string)
	// Detach ends delivery, and returns when no method of the follower is running any more. Messages that were not yet delivered are dropped. A
	// method of the follower must not call it. Another call, or a call after Close, does nothing.
	Detach()
}

// WholePartition implements Want and Unwant for brokers that always deliver whole partitions. Their attachments embed it.
type WholePartition struct{}

// Want does nothing.
func (WholePartition) Want(context.Context, string) error { return nil }

// Unwant does nothing.
func (WholePartition) Unwant(string) {}

// LoadOptions are the options of one Load.
type LoadOptions struct {
	// RowsOnly leaves out removals: only the live rows of a table, or the value, are visited. It has no effect on a stream. The Floor of the
	// History is then its Head, because the result says nothing about removed rows.
	RowsOnly bool
}

// History describes how complete the result of a Load is.
type History struct {
	// Epoch is that of the partition when it was read.
	Epoch string
	// Floor is the offset above which the visited publications are complete. In a stream, every publication above it was visited. In a value or
	// table, every removal above it was visited, unless a newer publication superseded it. Live rows are visited whatever their offset. Floor is
	// below the first publication visited of a stream, and never below a clear. See the rules for loading in ARCHITECTURE.md.
	Floor uint64
	// Head is the partition's offset up to which they are complete.
	Head uint64
}

// Broker orders and stores publications. All methods may be called concurrently. If the context is done, they do nothing and return its error;
// they use the context only until they return. The caller has checked channels and keys (push.CheckChannel, push.CheckKey). A broker never takes
// two of them for the same, whatever bytes they contain.
type Broker interface {
	// Open makes a namespace usable, and creates its partitions if they do not exist. Opening it again with the same settings does nothing. The
	// broker adopts another History, and refuses another Mode or number of Partitions.
	Open(ctx context.Context, ns Namespace) error

	// Publish stores p at the end of its channel's partition, and returns its position once the broker has accepted it. The broker ignores
	// Offset and Time of p and assigns them; Time never goes back within a partition. The caller must not change p afterwards. Clear works in
	// every mode, Remove not in stream mode. A value channel has one row, whatever the keys.
	Publish(ctx context.Context, channel string, p push.Publication, opts PublishOptions) (push.Position, error)

	// Attach begins to deliver a partition to f, at the latest from the next publication on. It does not wait for f, whose methods may be called
	// before Attach has returned. Several followers may be attached to a partition: each gets the same sequence.
	Attach(ctx context.Context, p Partition, f Follower) (Attachment, error)

	// Load visits the stored publications of a channel in offset order: in stream mode its history, otherwise its rows and remembered removals.
	// It does not visit a clear, or anything published before it. No visited publication is above the returned Head, and every publication that
	// any follower got before the call of Load is taken into account. If visit returns an error, Load ends and returns it, wrapped. visit may
	// call the broker.
	Load(ctx context.Context, channel string, o LoadOptions, visit func(Message) error) (History, error)

	// Head returns the partition's newest position. Its epoch is never empty.
	Head(ctx context.Context, p Partition) (push.Position, error)

	Control
	Leases

	// Stats returns counters and state, also after Close.
	Stats() Stats

	// Close ends all attachments and listeners, waits for their methods and handlers, and releases the broker's resources. Acknowledged
	// publications are safe before it returns, and pending ones fail. A follower or handler must not call it. Afterwards Close returns nil, and
	// every other method that returns an error returns ErrClosed.
	Close() error
}

// Control sends messages between the nodes that share a broker, at most once: a node that is not listening misses them.
type Control interface {
	// Listen calls handle for every control message to this node that is sent from now on, one at a time. stop ends that, and returns when
	// handle is not running any more. It may be called again, but not from handle. The payload belongs to the broker again when handle returns.
	Listen(ctx context.Context, node string, handle func(payload []byte)) (stop func(), err error)
	// Tell sends a message to one node, or to all nodes that listen, the sender included, if node is empty. The messages of one caller arrive in
	// order. Tell may wait while a listener does not keep up. If that takes too long, Tell returns ErrBusy, and that listener misses the
	// message. The payload belongs to the caller again when Tell returns.
	Tell(ctx context.Context, node string, payload []byte) error
}

// Lease is a small value that vanishes when it is not renewed.
type Lease struct {
	Key   string // any string, control characters included
	Value []byte
}

// Leases stores leases.
type Leases interface {
	// PutLease creates or renews a lease. The lease vanishes ttl after the last PutLease of its key, or up to a second later, because a broker
	// may round ttl up. ttl has to be positive. The value belongs to the caller again when PutLease returns.
	PutLease(ctx context.Context, l Lease, ttl time.Duration) error
	// DropLease ends a lease at once. If there is none with this key, it does nothing.
	DropLease(ctx context.Context, key string) error
	// ListLeases returns the live leases whose keys begin with prefix, ordered by key. The slice belongs to the caller. The values must not be
	// changed.
	ListLeases(ctx context.Context, prefix string) ([]Lease, error)
}
