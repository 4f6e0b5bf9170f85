// Package wire has the layouts of what travels on a link between a gateway and a hub: see docs/link.md, which specifies them. It does no I/O and starts
// no goroutines.
//
// A link is a connection of package rpc. The gateway calls the methods named here. Their arguments and answers are bytes in these layouts, except those
// of [Hello] and [Open], which are JSON.
//
// Whatever bytes a peer sends, decoding them ends with a value or with [ErrLayout], and takes no more memory than a small multiple of their number.
package wire

import (
	"errors"

	"github.com/sluice-push/sluice/push"
)

// Version is the version of the methods and layouts. A peer that is one release newer may append fields to a layout, which this one ignores. It may add
// methods and kinds of events, which it uses only after [Hello] has told it that its peer knows them.
const Version = 1

// The methods. Follow, Load, ListLeases and Listen answer with streams.
const (
	Hello      = "link.hello"
	Open       = "link.open"
	Publish    = "link.publish"
	Load       = "link.load"
	Head       = "link.head"
	Follow     = "link.follow"
	Interest   = "link.interest"
	Listen     = "link.listen"
	Tell       = "link.tell"
	PutLease   = "link.lease.put"
	DropLease  = "link.lease.drop"
	ListLeases = "link.lease.list"
)

// SecretKey is the key of the metadata in which a call carries the secret that hubs and gateways share.
const SecretKey = "sluice.link.secret" //nolint:gosec // a name

// MaxFrame is the size of the largest frame of a link in bytes. So publications of up to 16 MiB can be sent.
const MaxFrame = 16<<20 + SpareBytes

// SpareBytes is how much of a frame is not for the publication.
const SpareBytes = 64 << 10

// BatchBytes is about the size of the largest batch of messages. A message that is larger is alone in its batch.
const BatchBytes = 64 << 10

// ErrLayout means that bytes are not in the layout that their method has.
var ErrLayout = errors.New("link: bytes are not in the layout of the method")

// HelloRequest is the argument of Hello: what the gateway says of itself.
type HelloRequest struct {
	Versions []int  `json:"versions"`          // those that it speaks
	Cluster  string `json:"cluster,omitempty"` // the name of its cluster
	Node     string `json:"node,omitempty"`    // its ID, for logs
}

// HelloReply is the answer: the version to be spoken, and the ID of the hub, for logs.
type HelloReply struct {
	Version int    `json:"version"`
	Node    string `json:"node,omitempty"`
}

// Namespace is the argument of Open: a broker.Namespace.
type Namespace struct {
	Name       string       `json:"name"`
	Mode       push.Mode    `json:"mode"`
	History    push.History `json:"history"` // Age is in nanoseconds
	Partitions int          `json:"partitions"`
	Durable    bool         `json:"durable,omitempty"`
}
