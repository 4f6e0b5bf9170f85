package zookeeper_test

import (
	"testing"
	"time"

	"github.com/sluice-push/sluice/discovery/discoverytest"
	"github.com/sluice-push/sluice/discovery/zookeeper"
)

// Callers go on while servers, and ZooKeeper, come and go.
func TestCalls(t *testing.T) {
	s := discoverytest.StartZooKeeper(t)
	discoverytest.RunCalls(t, &discoverytest.Operator{
		Address: s.Addr,
		Open: func(t *testing.T, address string) discoverytest.Registry {
			r, err := zookeeper.New([]string{address}, &zookeeper.Options{SessionTimeout: 2 * time.Second, Refresh: time.Second})
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() { _ = r.Close() })
			return r
		},
		Restart: s.Restart,
	})
}
