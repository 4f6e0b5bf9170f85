// Package etcd finds and registers endpoints in etcd, version 3.
//
// An endpoint is a key: the prefix, the service, a slash and the endpoint's address; its value is the JSON form of the endpoint. It belongs to a
// lease, so that etcd removes it when its server is not heard of any more.
//
//	client, err := clientv3.New(clientv3.Config{Endpoints: []string{"127.0.0.1:2379"}})
//	registry := etcd.New(client, nil)
//	registration, err := registry.Register(ctx, "quotes", discovery.Endpoint{Address: "10.0.0.1:7000"})
//
// # What happens to etcd
//
// While etcd is away, watchers keep the last set, and registrations try again. Whatever a registration finds missing it makes again, within a third
// of Options.TTL: its lease, after it has run out or etcd has lost its data, and its key, after it was deleted. A key that another process has put
// under the same address is left alone.
//
// A watcher lists a service, and then watches from the revision of that list. If etcd has compacted that revision meanwhile, it lists again. It
// also lists after every Options.Refresh: an etcd that was set up anew counts its revisions from the beginning, and would keep a watcher of a
// later revision waiting.
package etcd
