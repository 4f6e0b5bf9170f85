// Package explain has the commands that say what a node decides, and why: what a client may do, to which gateways of a cluster it is sent, and which hub
// has a channel. Nodes decide by the same code.
package explain

import (
	"errors"
	"fmt"
	"io"

	"github.com/sluice-push/sluice/push"
	"github.com/sluice-push/sluice/push/auth"
	"github.com/sluice-push/sluice/push/config"
	"github.com/sluice-push/sluice/push/permission"
)

// Command is sluice config explain: it holds the commands that explain decisions.
type Command struct {
	Permission Permission `cmd:"" default:"withargs" help:"Say whether a client may do something with a channel, and which rule decides."`
	Route      Route      `cmd:"" help:"Say to which gateways of the cluster a client is sent, step by step."`
	Placement  Placement  `cmd:"" help:"Say which hub of the cluster has a channel, step by step."`
}

// Process is what the commands get from the program.
type Process struct {
	// Variables are the environment variables, as os.Environ returns them.
	Variables []string
	// Inspect checks a token as a node with the configuration does, and returns what it says: one of the two. The error is for people.
	Inspect func(cfg *config.Config, token string) (*auth.Connection, *auth.Subscription, error)
	// Permissions returns the rules for clients that a configuration has.
	Permissions func(cfg *config.Config) permission.Rules
}

// Permission is sluice config explain permission: it says whether a client may do something with a channel.
type Permission struct {
	Config     string `short:"c" help:"Configuration file." type:"path"`
	User       string `help:"The client's user; none for an anonymous client."`
	Channel    string `required:"" help:"The channel."`
	Action     string `default:"subscribe" help:"What the client wants to do: subscribe, publish, history or presence."`
	Token      string `help:"The client's token, of the connection or of the subscription."`
	Subscribed bool   `help:"The client is subscribed to the channel."`
}

// Help is shown by sluice config explain --help.
func (Permission) Help() string {
	return `The word permission may be left out:

    sluice config explain -c sluice.yaml --user ann --channel chat:a --action publish

For a cluster there are two more questions: sluice config explain route says to which gateways a client is sent, and sluice config explain placement says ` +
		`which hub has a channel. Each has its own --help.`
}

// Run prints whether a client may do something with a channel, and which rule says so. A node decides by the same code.
func (c *Permission) Run(out io.Writer, p *Process) error {
	cfg, err := config.Load(c.Config, p.Variables, nil)
	if err != nil {
		return err
	}
	action, err := push.ParseAction(c.Action)
	if err != nil {
		return fmt.Errorf("--action: %w", err)
	}
	request := &permission.Request{Channel: c.Channel, Action: action, User: c.User, Subscribed: c.Subscribed}
	if err := c.addToken(p, cfg, request); err != nil {
		return err
	}
	if request.User == "" && !cfg.Auth.Anonymous {
		return errors.New("the client could not connect: it has no user, and auth.anonymous is false")
	}
	rules := p.Permissions(cfg)
	verdict := "permitted"
	rule, refused := rules.Decide(request)
	if refused != nil {
		verdict = "refused: " + refused.Error()
	}
	_, err = fmt.Fprintf(out, "%s\nrule %v: %s\n", verdict, rule, rules.Explain(request))
	return err
}

// addToken adds what the token says to the request.
func (c *Permission) addToken(p *Process, cfg *config.Config, request *permission.Request) error {
	if c.Token == "" {
		return nil
	}
	connection, subscription, err := p.Inspect(cfg, c.Token)
	switch {
	case err != nil:
		return err
	case subscription != nil:
		request.Token = subscription
		return nil
	case c.User != "" && c.User != connection.User:
		return fmt.Errorf("the token is for the user %q, not %q: leave --user out", connection.User, c.User)
	}
	request.User, request.Capabilities = connection.User, connection.Capabilities
	return nil
}
