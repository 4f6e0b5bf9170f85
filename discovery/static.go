package discovery

import (
	"context"
	"slices"
)

// Static is a [Resolver] whose services all have the same endpoints, which never change.
type Static []Endpoint

// Addresses returns a Static with these addresses.
func Addresses(addresses ...string) Static {
	out := make(Static, len(addresses))
	for i, address := range addresses {
		out[i].Address = address
	}
	return out
}

// Watch implements [Resolver]. An endpoint that is not valid is an error.
func (s Static) Watch(ctx context.Context, _ string, update func([]Endpoint)) error {
	set, err := Normalize(slices.Clone(s))
	if err != nil {
		return err
	}
	update(set)
	<-ctx.Done()
	return ctx.Err()
}
