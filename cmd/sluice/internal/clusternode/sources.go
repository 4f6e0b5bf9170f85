package clusternode

import (
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/sluice-push/sluice/discovery"
	"github.com/sluice-push/sluice/discovery/etcd"
	"github.com/sluice-push/sluice/discovery/zookeeper"
	"github.com/sluice-push/sluice/push/broker"
	"github.com/sluice-push/sluice/push/cluster"
	"github.com/sluice-push/sluice/push/cluster/members"
	"github.com/sluice-push/sluice/push/config"
)

const (
	// registryTTL is for how long a registry keeps a node that it does not hear of: a killed node is gone within five seconds.
	registryTTL = 4 * time.Second
	dialTimeout = 5 * time.Second
)

// sources has what is open for the directory of members.
type sources struct {
	closers []func() error
}

// open returns where the members of the cluster are found.
func (s *sources) open(cfg *config.Config, leases broker.Leases, log *slog.Logger) (members.Source, error) {
	d := &cfg.Cluster.Discovery
	switch d.Kind {
	case config.DiscoverStatic:
		return Hubs(d), nil
	case config.DiscoverByDNS:
		return members.NewRegistry(d.Addresses[0], discovery.NewDNS(nil), nil), nil
	case config.DiscoverByEtcd:
		client, err := clientv3.New(clientv3.Config{Endpoints: d.Addresses, DialTimeout: dialTimeout})
		if err != nil {
			return nil, fmt.Errorf("cannot use etcd (setting %q): %w", "cluster.discovery.addresses", err)
		}
		s.closers = append(s.closers, client.Close)
		registry := etcd.New(client, &etcd.Options{Prefix: strings.TrimSuffix(d.Service, "/") + "/", TTL: registryTTL, Logger: log})
		return members.NewRegistry(cfg.Cluster.Name, registry, registry), nil
	case config.DiscoverByZooKeeper:
		registry, err := zookeeper.New(d.Addresses, &zookeeper.Options{Prefix: strings.TrimSuffix(d.Service, "/"), SessionTimeout: registryTTL, Logger: log})
		if err != nil {
			return nil, fmt.Errorf("cannot use ZooKeeper (setting %q): %w", "cluster.discovery.addresses", err)
		}
		s.closers = append(s.closers, registry.Close)
		return members.NewRegistry(cfg.Cluster.Name, registry, registry), nil
	default:
		return members.NewLeases(leases), nil
	}
}

// Hubs returns the members that the addresses of a configuration name: hubs whose ID is their address. If the addresses are not those of hubs, there are
// none.
func Hubs(d *config.Discovery) members.Static {
	if d.Kind != config.DiscoverByBroker && d.Kind != config.DiscoverStatic {
		return nil
	}
	var list members.Static
	for _, a := range d.Addresses {
		list = append(list, cluster.Member{ID: a, Role: cluster.Hub, Link: a})
	}
	return list
}

func (s *sources) close() error {
	var errs []error
	for _, c := range s.closers {
		errs = append(errs, c())
	}
	return errors.Join(errs...)
}
