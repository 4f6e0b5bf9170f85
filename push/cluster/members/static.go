package members

import (
	"context"
	"slices"

	"github.com/sluice-push/sluice/push/cluster"
)

// Static is a [Source] with a list of members that never changes. Nothing is announced. Members without the name of a cluster are in that of the node
// which watches.
type Static []cluster.Member

// Announce implements [Source]. It does nothing.
func (Static) Announce(context.Context, *cluster.Member) error { return nil }

// Withdraw implements [Source]. It does nothing.
func (Static) Withdraw(context.Context) error { return nil }

// Watch implements [Source].
func (s Static) Watch(ctx context.Context, cluster string, update func(Found)) error {
	list := slices.Clone(s)
	for i := range list {
		if list[i].Cluster == "" {
			list[i].Cluster = cluster
		}
	}
	update(Found{Members: list})
	<-ctx.Done()
	return ctx.Err()
}
