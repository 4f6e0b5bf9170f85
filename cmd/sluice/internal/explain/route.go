package explain

import (
	"errors"
	"fmt"
	"io"
	"maps"
	"math/rand/v2"
	"net/netip"

	"github.com/sluice-push/sluice/push"
	"github.com/sluice-push/sluice/push/cluster"
	"github.com/sluice-push/sluice/push/config"
)

// Route is sluice config explain route: it says to which gateways a client is sent.
type Route struct {
	User    string            `help:"The client's user; none for an anonymous client."`
	Addr    netip.Addr        `help:"The IP address from which the client connects." placeholder:"IP"`
	Claims  map[string]string `name:"claim" help:"A claim of the client's token; may be repeated. It replaces that of --token." mapsep:"none" placeholder:"NAME=VALUE"`
	Token   string            `help:"The token of the client's connection, which has its user and claims."`
	Channel string            `help:"The channel that the client mainly wants. Then the command also says which hub has the channel for the first of the gateways."`
	source
}

// Help is shown by sluice config explain route --help.
func (Route) Help() string {
	return `The rules of cluster.route are applied one after the other: each line says what a rule does and which gateways it leaves, in which order. For example:

    sluice config explain route -c sluice.yaml --internal http://127.0.0.1:9000 --user ann --addr 10.1.2.3 --claim tier=vip
    sluice info --json > nodes.json
    sluice config explain route -c sluice.yaml --members nodes.json --token "$TOKEN" --channel quotes:ACME

With the policy least_loaded two gateways are drawn, so another client with the same properties, and another run, may get others.`
}

// Validate implements kong.Validatable.
func (c *Route) Validate() error {
	if err := checkChannel(c.Channel); err != nil {
		return err
	}
	return c.check()
}

func checkChannel(name string) error {
	if name == "" {
		return nil
	}
	if err := push.CheckChannel(name); err != nil {
		return fmt.Errorf("--channel: %w", err)
	}
	return nil
}

// Run prints the steps of the choice. A node chooses by the same code.
func (c *Route) Run(out io.Writer, p *Process) error {
	k, err := c.load(p)
	if err != nil {
		return err
	}
	client, err := c.client(k.config, p)
	if err != nil {
		return err
	}
	router, err := k.config.Cluster.Router()
	if err != nil {
		return err
	}
	e := router.Explain(k.set, client)
	text := k.note + e.String()
	if c.Channel != "" {
		zone := k.zoneOf(k.config.Cluster.Labels)
		if len(e.Members) > 0 {
			zone = k.zoneOf(k.set.Member(e.Members[0]).Labels)
		}
		placed, err := k.place(c.Channel, zone)
		if err != nil {
			return err
		}
		text += "\n" + placed
	}
	_, err = io.WriteString(out, text)
	return err
}

// client returns what is known of the client.
func (c *Route) client(cfg *config.Config, p *Process) (*cluster.Client, error) {
	client := &cluster.Client{User: c.User, Addr: c.Addr, Claims: map[string]string{}, Channel: c.Channel, Random: rand.Uint64()}
	if c.Token != "" {
		connection, subscription, err := p.Inspect(cfg, c.Token)
		switch {
		case err != nil:
			return nil, err
		case subscription != nil:
			return nil, errors.New("--token is for a subscription: give the token of the connection")
		case c.User != "" && c.User != connection.User:
			return nil, fmt.Errorf("the token is for the user %q, not %q: leave --user out", connection.User, c.User)
		}
		client.User = connection.User
		maps.Copy(client.Claims, connection.Claims)
	}
	maps.Copy(client.Claims, c.Claims)
	return client, nil
}
