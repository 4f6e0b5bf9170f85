// Package clusterinfo asks a node what it knows of its cluster, and prints it: the nodes, and which of them has which channels.
package clusterinfo

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/signal"

	"github.com/sluice-push/sluice/cmd/sluice/internal/clusternode"
	"github.com/sluice-push/sluice/cmd/sluice/internal/nodeclient"
)

// Command is sluice info: it prints what a node knows of its cluster.
type Command struct {
	Internal string `default:"127.0.0.1:9000" env:"SLUICE_INTERNAL" help:"The node's internal address: host:port or a URL."`
	JSON     bool   `name:"json" help:"Print JSON for programs, and for config explain --members."`
	nodeclient.Certificates
}

// Help is shown by sluice info --help.
func (Command) Help() string {
	return `Any node of a cluster can be asked. It prints the nodes as this one knows them, and which hub has which partitions for a gateway in this ` +
		`node's zone. Sessions are as old as the last announcement, a second or so. A node that is draining takes no new clients and partitions: it starts, ` +
		`or is about to end. For example:

    sluice info
    sluice info --internal http://10.0.0.7:9000
    sluice info --json | jq '.members[] | select(.draining) | .id'

The JSON has the members as they announce themselves (id, role, public, link, labels, weight, sessions, capacity, version, draining), and for each ` +
		`namespace the hubs of its partitions, in the order of their numbers. Why a client or a channel is where it is says sluice config explain route, and ` +
		`sluice config explain placement.`
}

// Validate implements kong.Validatable.
func (c *Command) Validate() error { return c.CheckFlags(c.Internal) }

// Run asks the node, and prints what it knows.
func (c *Command) Run(out io.Writer) error {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	view, err := Ask(ctx, &c.Certificates, c.Internal)
	if err != nil {
		return err
	}
	if !c.JSON {
		return write(out, view)
	}
	e := json.NewEncoder(out)
	e.SetEscapeHTML(false)
	e.SetIndent("", "  ")
	return e.Encode(view)
}

// Ask returns what a node knows of its cluster.
func Ask(ctx context.Context, flags *nodeclient.Certificates, internal string) (*clusternode.View, error) {
	node, err := flags.Open(internal)
	if err != nil {
		return nil, err
	}
	defer node.Close()
	body, err := node.Do(ctx, http.MethodGet, clusternode.Path, nil)
	if err != nil {
		return nil, err
	}
	defer func() { _ = body.Close() }()
	view, err := clusternode.ReadView(body)
	if err != nil {
		return nil, fmt.Errorf("%w (%w)", node.NotNode(), err)
	}
	return view, nil
}
