// Package members keeps the set of the members of a cluster up to date at one node, and announces this node to the others. What follows from the
// set, placement and routes, is worked out by package cluster.
//
// A [Directory] is made by [Join]. It has the set as a value that never changes, and tells of every newer one:
//
//	directory, err := members.Join(&self, members.NewLeases(broker), nil)
//	go directory.Watch(ctx, func(set *cluster.Set) { … })
//	directory.Update(func(m *cluster.Member) { m.Sessions = n })
//	directory.Close(ctx)
//
// This node is always in its own set, as it has described itself last. Nodes of other clusters never are.
//
// # Sources
//
// A [Source] carries the announcements. There are three:
//
//	Leases    leases of the broker, which all nodes have anyway; a killed node leaves the sets of the others within five seconds
//	Registry  a registry of package discovery, such as etcd or ZooKeeper; or DNS, where gateways find their hubs and nothing is announced
//	Static    a list that never changes
//
// # When the source is away
//
// The last set stays while the source does not answer. A source that comes back may have forgotten all nodes, which then announce themselves again one
// by one. So [Leases] removes no node for five seconds after the broker was away or has lost leases. [Registry] does not believe an empty set, but does
// believe one that has lost some nodes.
//
// # Time
//
// A node announces itself each second. A change of anything but the number of sessions and the capacity is announced at once: a node that begins to
// drain gets no new clients and partitions from others that watch a registry, and after a second at most from others that list leases.
//
// # Goroutines
//
// A Directory has two goroutines: one announces this node, one watches the source. [Directory.Close] ends both and waits for them. Sources have no
// goroutines of their own, apart from the registration of this node in etcd or ZooKeeper, which ends when the node is withdrawn.
package members
