// Package relay makes a broker out of partitions that a process follows already: further followers get their publications from this process, and loads
// are answered from the logs in its memory.
//
// A hub uses it for its gateways. Without it, each stream of each gateway is one more attachment to the broker, and after a restart each
// gateway reads the history of all its channels from there.
//
//	broker ──► partition ──► logs
//	  ▲            └───────► Followers ──► follower of a gateway
//	  │                                       │
//	  ├── Publish, Head, control, leases ◄────┤
//	  └── Load, if the logs are not enough ◄──┘
//
// The owner of a [Partition] keeps its [Followers], and calls them when its logs have what they get. The [Broker] keeps the rest: attachments, what they
// want, listeners, and the loads.
//
// # Why a load asks for the head
//
// The process may be behind the broker, and behind another process from which the same gateway has got publications before. A load that left those out
// would lose them, because the gateway ignores what it has had. So each load first asks the broker for the partition's head, and waits until the
// logs have everything up to there. Loads that begin while the answer is awaited share the next one.
// An attachment begins at the head, too: what the process still gets up to there is left out.
package relay
