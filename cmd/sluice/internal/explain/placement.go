package explain

import (
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/sluice-push/sluice/push"
	"github.com/sluice-push/sluice/push/broker"
	"github.com/sluice-push/sluice/push/cluster"
	"github.com/sluice-push/sluice/push/config"
)

// Placement is sluice config explain placement: it says which hub has a channel.
type Placement struct {
	Channel string `required:"" help:"The channel."`
	Zone    string `help:"Zone of the gateway that wants the channel. Default: that of the node whose configuration it is."`
	source
}

// Help is shown by sluice config explain placement --help.
func (Placement) Help() string {
	return `The channel belongs to a partition of its namespace, and the rules of cluster.placement choose a hub for the partition. For example:

    sluice config explain placement -c sluice.yaml --internal http://127.0.0.1:9000 --channel quotes:ACME
    sluice config explain placement -c sluice.yaml --members nodes.json --channel quotes:ACME --zone b

The first result is the hub that gateways ask; they ask the others when it cannot be reached.`
}

// Validate implements kong.Validatable.
func (c *Placement) Validate() error {
	if err := checkChannel(c.Channel); err != nil {
		return err
	}
	return c.check()
}

// Run prints the steps of the choice. A gateway chooses by the same code.
func (c *Placement) Run(out io.Writer, p *Process) error {
	k, err := c.load(p)
	if err != nil {
		return err
	}
	zone := c.Zone
	if zone == "" {
		zone = k.zoneOf(k.config.Cluster.Labels)
	}
	text, err := k.place(c.Channel, zone)
	if err != nil {
		return err
	}
	_, err = io.WriteString(out, k.note+text)
	return err
}

// place returns which hub has a channel for a gateway in a zone, step by step.
func (k *known) place(channel, zone string) (string, error) {
	name := push.Namespace(channel)
	i := slices.IndexFunc(k.config.Namespaces, func(ns config.Namespace) bool { return ns.Name == name })
	if i < 0 {
		return "", fmt.Errorf("--channel: namespace %q is not in the configuration", name)
	}
	placer, err := cluster.NewPlacer(k.config.Cluster.Placement.Rules())
	if err != nil {
		return "", err
	}
	count := k.config.Namespaces[i].Partitions
	part := broker.PartitionOf(channel, count)
	e := placer.Explain(k.set, part, zone)
	var text strings.Builder
	fmt.Fprintf(&text, "channel %q is in partition %d of %d\n", channel, part.Index, count)
	text.WriteString(e.String())
	return text.String(), nil
}
