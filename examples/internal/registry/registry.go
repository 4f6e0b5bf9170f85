// Package registry opens the registry of services that a flag names.
package registry

import (
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/url"
	"os"
	"strings"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/sluice-push/sluice/discovery"
	"github.com/sluice-push/sluice/discovery/etcd"
	"github.com/sluice-push/sluice/discovery/zookeeper"
)

// Usage says what the flag may be.
const Usage = "`URL` of a registry: etcd://HOST:PORT/PREFIX or zk://HOST:PORT/PREFIX; several servers with commas between them"

// Registry is a registry that is open.
type Registry interface {
	discovery.Resolver
	discovery.Registrar
}

// Open returns the registry that a URL names, and what closes it. The registry need not be there yet.
func Open(text string) (Registry, func() error, error) {
	scheme, rest, ok := strings.Cut(text, "://")
	servers, prefix, _ := strings.Cut(rest, "/")
	if !ok || servers == "" {
		return nil, nil, fmt.Errorf("%q is no registry: etcd://HOST:PORT/PREFIX or zk://HOST:PORT/PREFIX", text)
	}
	prefix, err := url.PathUnescape(strings.Trim(prefix, "/"))
	if err != nil {
		return nil, nil, fmt.Errorf("registry %q: %w", text, err)
	}
	list := strings.Split(servers, ",")
	for _, server := range list {
		if _, _, err := net.SplitHostPort(server); err != nil {
			return nil, nil, fmt.Errorf("registry %q: %w", text, err)
		}
	}
	log := slog.New(slog.NewTextHandler(os.Stderr, nil))
	switch scheme {
	case "etcd":
		client, err := clientv3.New(clientv3.Config{Endpoints: list, DialTimeout: 5 * time.Second})
		if err != nil {
			return nil, nil, err
		}
		o := &etcd.Options{Logger: log}
		if prefix != "" {
			o.Prefix = "/" + prefix + "/"
		}
		return etcd.New(client, o), client.Close, nil
	case "zk":
		o := &zookeeper.Options{Logger: log}
		if prefix != "" {
			o.Prefix = "/" + prefix
		}
		registry, err := zookeeper.New(list, o)
		if err != nil {
			return nil, nil, err
		}
		return registry, registry.Close, nil
	}
	return nil, nil, fmt.Errorf("registry %q: there are etcd:// and zk://, not %s", text, scheme)
}

// Reachable returns the address under which others reach a server that listens on an address. It is an error if the address does not say that.
func Reachable(listening string) (string, error) {
	host, _, err := net.SplitHostPort(listening)
	if err != nil {
		return "", err
	}
	if ip := net.ParseIP(host); host == "" || ip != nil && ip.IsUnspecified() {
		return "", errors.New("the address listened on is every address of this machine: say with -advertise under which one callers reach it")
	}
	return listening, nil
}
