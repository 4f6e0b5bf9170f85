package etcd_test

import (
	"testing"
	"time"

	"github.com/sluice-push/sluice/discovery/discoverytest"
	"github.com/sluice-push/sluice/discovery/etcd"
)

// Callers go on while servers, and etcd, come and go.
func TestCalls(t *testing.T) {
	s := newServer(t)
	discoverytest.RunCalls(t, &discoverytest.Operator{
		Connect: func(t *testing.T) discoverytest.Process {
			r, _ := s.registry(t, &etcd.Options{TTL: 2 * time.Second, Refresh: time.Second})
			return discoverytest.Process{Registry: r, Die: etcd.Abandon}
		},
		Restart: s.restart,
	})
}
