// Package balance chooses which server of a service gets a call.
//
//	b := balance.New(&balance.Options{Policy: balance.LeastPending, Zone: "eu-1"})
//	b.Set(endpoints)                                  // and again with each change: discovery.Resolver.Watch calls it
//	t, err := b.Pick(time.Now(), balance.Call{})      // t.Endpoint is where the call goes
//	t.Done(time.Now(), balance.OK)
//
// It sends nothing, starts no goroutine and has no clock: the caller says what time it is, and never an earlier one than before, but for the few
// nanoseconds by which goroutines overtake each other.
//
// # Policies
//
// Every policy respects weights: a server with twice the weight gets twice the calls, or twice the keys.
//
//   - RoundRobin takes the servers in turn, each as often as its weight says, and those with a large weight not several times in a row.
//   - LeastPending looks at two servers, chosen at random by weight, and takes the one with fewer calls under way for its weight. Two are
//     enough: the longest queue then grows with log log n (Mitzenmacher, "The Power of Two Choices in Randomized Load Balancing", 2001).
//   - ByKey takes the server with the best hash for a key, by weighted rendezvous hashing (Schindelhauer and Schomaker, "Weighted Distributed Hash
//     Tables", 2005). All callers choose alike. When a server goes only its keys move, and when one comes it takes only its share.
//
// With Options.Zone, servers of that zone are preferred while any of them can be used.
//
// # Servers that fail
//
// A server that fails Ejection.Failures times in a row, or more often than Ejection.Rate within ten seconds, gets no calls for a while, the longer the
// more often that has happened. Then one call is sent to it as a probe, and decides. No more than half of the servers are ejected at a time:
// what fails everywhere is not the servers. If all that are left are ejected, or were tried already, they are used all the same: a call that may
// fail is better than one that does not take place.
//
// # Retries
//
// [Budget] keeps retries from making an overload worse: it allows a share of the calls, and a few a second.
package balance
