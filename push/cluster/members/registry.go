package members

import (
	"context"
	"fmt"
	"time"

	"github.com/sluice-push/sluice/discovery"
	"github.com/sluice-push/sluice/push/cluster"
)

// loadInterval is the shortest time between two announcements of a changed load. Registries write each announcement to disk, and tell all nodes of it.
const loadInterval = 5 * time.Second

// Registry is a [Source] that keeps members in a registry of package discovery, as endpoints of a service: see [cluster.Member.Endpoint]. The registry
// removes a killed node when it has not heard of the node for some time, which is a setting of the registry. A changed load is announced every five
// seconds at most.
//
// Entries that are only an address, as DNS has them, are hubs whose ID is their address: see [cluster.MemberOf]. A hub that is found in this way should
// have its address, as the records make it, as its ID.
//
// The set of a registry is used through a [discovery.Steady]: it does not become empty, and leaves out nodes that come and go.
type Registry struct {
	service   string
	resolver  discovery.Resolver
	registrar discovery.Registrar // nil: nothing is announced

	// What follows belongs to the goroutine that announces.
	registration discovery.Registration // nil before the first announcement
	announced    *cluster.Member        // nil if the registry may not have it
	at           time.Time              // when it was announced
}

// NewRegistry makes a Registry. The service is the name under which the members are found, as the resolver wants it. If the registrar is nil, this node
// is not announced. Both remain the caller's, and have to stay open until the [Directory] is closed.
func NewRegistry(service string, resolver discovery.Resolver, registrar discovery.Registrar) *Registry {
	return &Registry{service: service, resolver: discovery.NewSteady(resolver, nil), registrar: registrar}
}

// Announce implements [Source].
func (r *Registry) Announce(ctx context.Context, m *cluster.Member) error {
	if r.registrar == nil || r.isKnown(m) {
		return nil
	}
	e, err := m.Endpoint()
	if err != nil {
		return err
	}
	r.announced = nil
	if r.registration == nil {
		r.registration, err = r.registrar.Register(ctx, r.service, e)
	} else {
		err = r.registration.Update(ctx, e)
	}
	if err != nil {
		return err
	}
	r.announced, r.at = m, time.Now()
	return nil
}

// isKnown reports whether the registry has a member, or an older load that was announced just now.
func (r *Registry) isKnown(m *cluster.Member) bool {
	return r.announced != nil && (r.announced.Equal(m) || sameButLoad(r.announced, m) && time.Since(r.at) < loadInterval)
}

// Withdraw implements [Source].
func (r *Registry) Withdraw(ctx context.Context) error {
	if r.registration == nil {
		return nil
	}
	return r.registration.Close(ctx)
}

// Watch implements [Source].
func (r *Registry) Watch(ctx context.Context, name string, update func(Found)) error {
	return r.resolver.Watch(ctx, r.service, func(set []discovery.Endpoint) {
		var found Found
		for i := range set {
			m, err := cluster.MemberOf(&set[i], name)
			if err != nil {
				if found.Problems == nil {
					found.Problems = make(map[string]error)
				}
				found.Problems[fmt.Sprintf("endpoint %.200q", set[i].Address)] = err
				continue
			}
			found.Members = append(found.Members, m)
		}
		update(found)
	})
}
