// Package cluster decides which node does what. It is the pure core of a cluster: members go in, placement and routes come out. It starts no goroutine,
// reads no clock and does no I/O. The code around it hears members from leases or a registry, keeps links and answers clients.
//
// A cluster has two tiers. Hubs read the partitions of namespaces from the broker. Gateways serve clients, and get the channels that their clients
// want from hubs. A node of role all is both.
//
//	Member      a node as it announces itself: addresses, labels, weight, load
//	Set         the members at one time
//	Placer      which hub has a partition
//	Router      to which gateways a client is sent
//	Rebind      which sessions of a gateway move elsewhere after something has changed
//	Explanation the steps of a choice, for people
//
// All nodes that have the same Set and the same rules make the same choice, so no node has to ask another one. While their sets differ, for a moment
// after a change, choices may differ too. That is harmless. Two hubs that read the same partition both deliver it in the broker's order, because
// only the broker orders. A client that comes to another gateway than it should is served there, unless a hard rule forbids it.
//
// # Placement
//
// A partition is on the hub with the best hash, by weighted rendezvous hashing: see [Placer.Place]. If a hub leaves, only its partitions move. If one
// joins, it takes only its share. Rules come before the hash, in this order:
//
//	pinned     the namespace names labels that its hubs must have; if no hub has them, the partition has no hub
//	draining   hubs that are about to end are left out, unless there are no others
//	zone       with [PlaceByZone], hubs in the zone of the gateway that asks are preferred; so each zone has its own hub for a partition
//
// # Routes
//
// A client is told a short list of gateways, and connects to the first that accepts it: see [Router.Route]. The rules apply in this order:
//
//	require    hard rules: labels that the gateways of some clients must have, whatever happens
//	canary     a share of the users gets the gateways with some labels, and all others get the rest
//	prefer     an order by labels: gateways in the client's zone, of its carrier, of its tier
//	policy     among the gateways that are left equal: least_loaded, user or channel
//	overflow   gateways over their bound come after the others, full ones last; draining ones are left out
//	addresses  the list is cut to three
//
// A rule finds its clients by the prefix of their address and by claims of their token. It names labels, in which a value {NAME} stands for a claim:
// the labels {"zone": "{zone}"} are those of the client's own zone.
//
// The policies user and channel hash with bounded loads: a gateway that has 1.25 times its fair share of sessions is passed over, so the next
// gateway of the client's order gets it (Mirrokni, Thorup and Zadimoghaddam, "Consistent Hashing with Bounded Loads", 2018). The policy least_loaded
// looks at two random gateways (Mitzenmacher, "The Power of Two Choices in Randomized Load Balancing", 2001).
//
// Loads are as old as the last announcement. A node that answers many clients at once counts where it has sent them, and adds these numbers
// to the set with [Set.WithSessions].
//
// # Re-binding
//
// Clients keep their connections for hours. If a gateway joins, it stays empty unless sessions move. Each gateway asks its [Rebind] which of its own
// sessions should go where. A session moves if a rule or its hash has a better place for it, or if the gateway has too many sessions. It never moves
// because of a small change of loads. With a Skew of 1.25, these are the thresholds, as multiples of a
// gateway's fair share:
//
//	more than 1.25      a gateway begins to give sessions away
//	1.1875              it stops giving sessions away
//	1.125               a gateway stops taking sessions of others
//	less than 1.0625    it begins to take sessions of others
//
// So a session that was moved away because of the load does not come back at once. A session also stays for a cool-down after it has connected, and a
// gateway moves no more sessions in a second than its rate.
//
// # Explanations
//
// [Placer.Explain] and [Router.Explain] return the steps of a choice as values, which print as text. To explain a channel, explain the placement of
// its partition (broker.PartitionOf) and the route of a client with that channel.
package cluster
