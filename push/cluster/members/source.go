package members

import (
	"context"

	"github.com/sluice-push/sluice/push/cluster"
)

// Source carries announcements between nodes. It belongs to one [Directory], which calls Announce and Withdraw from one goroutine at a time, and Watch
// once, from another goroutine.
type Source interface {
	// Announce makes this node known to others, with the values that it has now. It is called each second, and sooner if something other than the load
	// has changed. The member is never changed afterwards, so the source may keep it. An error means that others may not know the node or its last
	// values; the next call tries again. ctx bounds the call.
	Announce(ctx context.Context, m *cluster.Member) error
	// Withdraw makes this node unknown at once. It is the last call. If it fails, others may know the node until its last announcement has expired.
	Withdraw(ctx context.Context) error
	// Watch calls update with all members of the cluster that the source has: when they are known for the first time, and after every change. Calls
	// come one at a time. This node and nodes of other clusters may be among the members. While the source is away, update is not called, and Watch
	// tries again by itself. Watch returns when ctx is done, with its error; and with another error when there can be no more members, such as when
	// the source is closed.
	Watch(ctx context.Context, cluster string, update func(Found)) error
}

// Found is what a [Source] has. The receiver of a Found owns it.
type Found struct {
	Members []cluster.Member
	// Problems are entries that are no members, by a name under which they are found in the source. They are logged once.
	Problems map[string]error
}
