// Package discovery finds the servers of a service, and makes servers found.
//
// A [Resolver] reports the endpoints of a service and every change of them; a [Registrar] keeps an endpoint among them. Resolvers of this package
// need no registry: [Static] is a list, and [DNS] asks for address or service records. [Memory] is a registry within the process. Packages
// discovery/etcd and discovery/zookeeper have resolvers and registrars of those registries.
//
//	watching, stop := context.WithCancel(ctx)
//	go discovery.NewSteady(resolver, nil).Watch(watching, "quotes", func(set []discovery.Endpoint) { … })
//
// # When the registry is away
//
// A resolver that cannot reach its registry reports nothing, so the last set stays. A registrar whose registry has lost the endpoint, because it was
// restarted, was wiped or did not hear of the server for too long, adds it again. A server that is about to stop closes its [Registration] first,
// and then handles the calls that are still under way.
//
// # Steady sets
//
// Registries tell the truth about themselves, and not about the servers. [Steady] stands between: it does not believe an empty set, and leaves
// endpoints out for a while that come and go.
package discovery
