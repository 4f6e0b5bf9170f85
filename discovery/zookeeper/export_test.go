package zookeeper

import (
	"github.com/go-zookeeper/zk"
)

// Conn returns the connection of the registrations.
func (r *Registry) Conn() *zk.Conn {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.own.conn
}
