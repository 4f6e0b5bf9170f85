package discovery

import (
	"context"
	"errors"
)

// Resolver reports the endpoints of services. Its methods may be called concurrently.
type Resolver interface {
	// Watch calls update with all endpoints of a service, sorted by address and each address once: when they are known for the first time, and
	// after every change. Calls of update come one at a time, and Watch waits for each. The slice is update's to keep; the labels are shared and
	// must not be changed. A service that the registry does not know has no endpoints.
	//
	// While the registry is away, and when it answers what makes no sense, update is not called, and Watch tries again by itself. Watch returns
	// when ctx is done, with its error; when the resolver is closed, with [ErrClosed]; and at once, with another error, when the service's name can
	// never be resolved.
	Watch(ctx context.Context, service string, update func([]Endpoint)) error
}

// Registrar adds endpoints to services. Its methods may be called concurrently.
type Registrar interface {
	// Register adds an endpoint to a service, and returns when the registry has it. Another endpoint of the service with the same address is
	// replaced. ctx bounds only the call. The endpoint stays until the registration is closed, or until the registry has not heard of this process
	// for a while. If the registry loses it earlier, it is added again.
	Register(ctx context.Context, service string, e Endpoint) (Registration, error)
}

// Registration is an endpoint in a registry. Its methods may be called concurrently.
type Registration interface {
	// Update replaces what the endpoint says of itself: its weight, zone and labels. The address must be the same. An error means that the registry
	// may not have it yet; it is brought there when the registry is back.
	Update(ctx context.Context, e Endpoint) error
	// Close removes the endpoint, and returns when the registry has confirmed it, or when ctx is done. In that case the registry removes it when it
	// has not heard of this process for a while. The server should go on until its callers have noticed. Closing again returns nil.
	Close(ctx context.Context) error
}

var (
	// ErrClosed says that the resolver, registrar or registration is closed.
	ErrClosed = errors.New("discovery: closed")
	// ErrService says that a service's name can never be resolved.
	ErrService = errors.New("discovery: bad name of a service")
)
