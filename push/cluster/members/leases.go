package members

import (
	"cmp"
	"context"
	"fmt"
	"time"

	"github.com/sluice-push/sluice/push/broker"
	"github.com/sluice-push/sluice/push/cluster"
)

const (
	// leaseTTL is how long a node counts as a member after its last announcement.
	leaseTTL = 4 * time.Second
	// leaseGrace is how long nothing is removed after the broker was away or has lost leases. In this time every node that is up announces itself.
	leaseGrace = leaseTTL + beat
)

// Leases is a [Source] that keeps members in the leases of a broker. With every announcement, a node lists the leases of its cluster and then renews its
// own. The lease of a killed node expires, so the node leaves the sets of others within five seconds, or six if the broker rounds times up.
//
// After the broker was away, or has lost the lease of this node, no member is removed for five seconds.
type Leases struct {
	leases broker.Leases
	found  chan Found // what was listed last; empty if the goroutine that watches has taken it

	// What follows belongs to the goroutine that announces.
	own  string // the key of this node's lease; empty before the first announcement
	view leaseView
}

// NewLeases makes a Leases.
func NewLeases(l broker.Leases) *Leases { return &Leases{leases: l, found: make(chan Found, 1)} }

// leasePrefix begins the keys of a cluster. Names of clusters and IDs have no control characters, so a NUL ends them. It also lets a broker find the
// leases of a cluster without reading others.
func leasePrefix(cluster string) string { return "member/" + cluster + "\x00" }

// leaseKey returns the key of a node's lease. The address is a part of it, so that two nodes with the same ID do not overwrite each other's lease: then
// the set would change with every announcement, and no node could see the mistake. A node that is restarted overwrites its own.
func leaseKey(m *cluster.Member) string {
	return leasePrefix(m.Cluster) + m.ID + "\x00" + cmp.Or(m.Link, m.Public)
}

// Announce implements [Source]. The list comes before the renewal. In this order the list shows whether the broker still has the lease as it was put
// before; if it has not, it has also lost those of nodes that have not renewed theirs yet.
func (l *Leases) Announce(ctx context.Context, m *cluster.Member) error {
	text, err := cluster.Encode(m)
	if err != nil {
		return err
	}
	l.own = leaseKey(m)
	listErr := l.list(ctx, m.Cluster)
	if err := l.leases.PutLease(ctx, broker.Lease{Key: l.own, Value: text}, leaseTTL); err != nil {
		l.view.away(time.Now())
		return err
	}
	return listErr
}

// list lists the leases of the cluster for the goroutine that watches. It leaves half of the time for the renewal.
func (l *Leases) list(ctx context.Context, cluster string) error {
	ctx, cancel := context.WithTimeout(ctx, callTimeout/2)
	defer cancel()
	list, err := l.leases.ListLeases(ctx, leasePrefix(cluster))
	if err != nil {
		l.view.away(time.Now())
		return err
	}
	select {
	case <-l.found: // an older list that was not taken
	default:
	}
	l.found <- l.view.observe(time.Now(), list, l.own)
	return nil
}

// Withdraw implements [Source].
func (l *Leases) Withdraw(ctx context.Context) error {
	if l.own == "" {
		return nil
	}
	return l.leases.DropLease(ctx, l.own)
}

// Watch implements [Source].
func (l *Leases) Watch(ctx context.Context, _ string, update func(Found)) error {
	for {
		select {
		case found := <-l.found:
			update(found)
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// leaseView turns lists of leases into members. It has no clock: the caller says what time it is.
type leaseView struct {
	members map[string]cluster.Member // by key
	hasOwn  bool                      // this node's lease was listed at least once
	doubt   time.Time                 // when the broker was last away or had lost leases; zero: never
}

// away notes that the broker does not answer. Nodes cannot renew their leases meanwhile.
func (v *leaseView) away(now time.Time) { v.doubt = now }

// observe takes a list of all leases of the cluster, and returns the members. own is the key of this node's lease.
func (v *leaseView) observe(now time.Time, list []broker.Lease, own string) Found {
	var found Found
	listed := make(map[string]cluster.Member, len(list))
	ownIsListed := false
	for _, lease := range list {
		ownIsListed = ownIsListed || lease.Key == own
		m, err := cluster.Decode(lease.Value)
		if err != nil {
			if found.Problems == nil {
				found.Problems = make(map[string]error)
			}
			found.Problems[fmt.Sprintf("lease %.200q", lease.Key)] = err
			delete(v.members, lease.Key)
			continue
		}
		listed[lease.Key] = m
	}
	switch {
	case ownIsListed:
		v.hasOwn = true
	case v.hasOwn: // the broker was restarted, or this node could not renew its lease; others may be missing for the same reason
		v.doubt = now
	}
	if !v.doubt.IsZero() && now.Sub(v.doubt) < leaseGrace {
		for key := range v.members {
			if _, ok := listed[key]; !ok {
				listed[key] = v.members[key]
			}
		}
	}
	v.members = listed
	for _, m := range listed {
		found.Members = append(found.Members, m)
	}
	return found
}
