package explain

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/signal"

	"github.com/sluice-push/sluice/cmd/sluice/internal/clusterinfo"
	"github.com/sluice-push/sluice/cmd/sluice/internal/clusternode"
	"github.com/sluice-push/sluice/cmd/sluice/internal/nodeclient"
	"github.com/sluice-push/sluice/push/cluster"
	"github.com/sluice-push/sluice/push/config"
)

// source are the flags that say what the cluster is.
type source struct {
	Config   string `short:"c" help:"Configuration file of a node of the cluster." type:"path"`
	Internal string `help:"Internal address of a running node, host:port or a URL, which is asked for the nodes of the cluster." placeholder:"URL" xor:"members"`
	Members  string `help:"File with the nodes of the cluster, as sluice info --json prints them." type:"existingfile" placeholder:"FILE" xor:"members"`
	nodeclient.Certificates
}

// check returns an error unless the flags fit together.
func (s *source) check() error {
	if s.Internal == "" {
		if s.CA != "" || s.Cert != "" || s.Key != "" {
			return errors.New("--ca, --cert and --key are for the connection to a node: add --internal")
		}
		return nil
	}
	return s.CheckFlags(s.Internal)
}

// unknown is said when only the configuration says which nodes there are.
const unknown = "The nodes of the cluster are not known here. Ask one that runs with --internal URL, or save what \"sluice info --json\" prints and use --members FILE.\n" +
	"Without them %s.\n\n"

// known is what a configuration and the flags say of a cluster.
type known struct {
	config *config.Config
	set    *cluster.Set
	note   string // what people should know before they read what was made of it; "" if there is nothing
}

// load returns the configuration and the nodes of the cluster.
func (s *source) load(p *Process) (*known, error) {
	cfg, err := config.Load(s.Config, p.Variables, nil)
	if err != nil {
		return nil, err
	}
	name := cfg.Cluster.Name
	if name == "" {
		return nil, errors.New("the configuration is that of a node in no cluster: set cluster.name, or give the file with --config")
	}
	view, err := s.view()
	if err != nil {
		return nil, err
	}
	out := &known{config: cfg}
	switch {
	case view == nil:
		list := clusternode.Hubs(&cfg.Cluster.Discovery)
		for i := range list {
			list[i].Cluster = name
		}
		out.note = fmt.Sprintf(unknown, "there are no nodes to choose from")
		if len(list) > 0 {
			out.note = fmt.Sprintf(unknown, "there are only the hubs in cluster.discovery.addresses, and no gateways. The IDs, labels and weights of the hubs are missing, so the cluster may choose others")
		}
		out.set, err = cluster.NewSet(name, list)
		return out, err
	case view.Cluster == "":
		return nil, fmt.Errorf("the node %s is in no cluster, and the configuration is for the cluster %q", view.Node, name)
	case view.Cluster != name:
		return nil, fmt.Errorf("the node %s is in the cluster %q, and the configuration is for the cluster %q", view.Node, view.Cluster, name)
	}
	out.set, err = cluster.NewSet(name, view.Members)
	return out, err
}

// zoneOf returns the zone among labels.
func (k *known) zoneOf(labels map[string]string) string {
	return labels[k.config.Cluster.Placement.ZoneLabel]
}

// view returns what a running node or a file says of the cluster; nil: the flags name neither.
func (s *source) view() (*clusternode.View, error) {
	if s.Internal != "" {
		ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
		defer stop()
		return clusterinfo.Ask(ctx, &s.Certificates, s.Internal)
	}
	if s.Members == "" {
		return nil, nil //nolint:nilnil // nothing is known
	}
	in, err := os.Open(s.Members)
	if err != nil {
		return nil, err
	}
	defer func() { _ = in.Close() }() // nothing was written
	view, err := clusternode.ReadView(in)
	if err != nil {
		return nil, fmt.Errorf("--members %s: %w", s.Members, err)
	}
	return view, nil
}
