package etcd

import "github.com/sluice-push/sluice/discovery"

// SetListed sets a function that watchers call between listing and watching.
func (r *Registry) SetListed(f func()) { r.listed = f }

// Abandon ends a registration as a process that is killed does: nothing is told to etcd.
func Abandon(r discovery.Registration) {
	g := r.(*registration) //nolint:forcetypeassert // of this package
	g.end()
	<-g.ended
}
