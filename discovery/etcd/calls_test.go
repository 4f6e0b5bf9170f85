package etcd_test

import (
	"testing"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/sluice-push/sluice/discovery/discoverytest"
	"github.com/sluice-push/sluice/discovery/etcd"
)

// Callers go on while servers, and etcd, come and go.
func TestCalls(t *testing.T) {
	s := discoverytest.StartEtcd(t)
	discoverytest.RunCalls(t, &discoverytest.Operator{
		Address: s.Addr,
		Open: func(t *testing.T, address string) discoverytest.Registry {
			client, err := clientv3.New(clientv3.Config{Endpoints: []string{address}})
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() { _ = client.Close() })
			return etcd.New(client, &etcd.Options{TTL: 2 * time.Second, Refresh: time.Second})
		},
		Restart: s.Restart,
	})
}
