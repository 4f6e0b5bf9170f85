// Package zookeeper finds and registers endpoints in ZooKeeper.
//
// An endpoint is an ephemeral node: the prefix, the service, and the endpoint's address with slashes escaped as in URLs; its data is the JSON form of
// the endpoint. ZooKeeper removes it when the session of its server ends, which it does when ZooKeeper has not heard of the server for
// Options.SessionTimeout.
//
//	registry, err := zookeeper.New([]string{"127.0.0.1:2181"}, nil)
//	registration, err := registry.Register(ctx, "quotes", discovery.Endpoint{Address: "10.0.0.1:7000"})
//
// # What happens to ZooKeeper
//
// While ZooKeeper is away, watchers keep the last set, and registrations try again. When a session was lost, registrations put their nodes again. A node
// that another process has put under the same address is left alone. Each registration looks three times in Options.SessionTimeout.
//
// A ZooKeeper that was set up anew refuses clients that have seen a later state (ZooKeeper's client protocol sends the last transaction that the
// client knows). So a connection that has had no session for twice the time-out is given up, and another one begins without that knowledge.
package zookeeper
