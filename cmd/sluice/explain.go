package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/sluice-push/sluice/push"
	"github.com/sluice-push/sluice/push/config"
	"github.com/sluice-push/sluice/push/permission"
)

// newTimeout bounds what a command waits for: keys of tokens that are fetched.
func newTimeout() (context.Context, context.CancelFunc) {
	return context.WithTimeout(context.Background(), 10*time.Second)
}

type configExplainCmd struct {
	Config     string `short:"c" help:"Configuration file." type:"path"`
	User       string `help:"The client's user; none for an anonymous client."`
	Channel    string `required:"" help:"The channel."`
	Action     string `default:"subscribe" help:"What the client wants to do: subscribe, publish, history or presence."`
	Token      string `help:"The client's token, of the connection or of the subscription."`
	Subscribed bool   `help:"The client is subscribed to the channel."`
}

// Run prints whether a client may do something with a channel, and which rule says so. A node decides by the same code.
func (c *configExplainCmd) Run(env *environment) error {
	cfg, err := config.Load(c.Config, env.variables, nil)
	if err != nil {
		return err
	}
	action, err := push.ParseAction(c.Action)
	if err != nil {
		return fmt.Errorf("--action: %w", err)
	}
	request := &permission.Request{Channel: c.Channel, Action: action, User: c.User, Subscribed: c.Subscribed}
	if err := c.addToken(&cfg.Auth, request); err != nil {
		return err
	}
	if request.User == "" && !cfg.Auth.Anonymous {
		return errors.New("the client could not connect: it has no user, and auth.anonymous is false")
	}
	rules := permissions(cfg)
	verdict := "permitted"
	rule, refused := rules.Decide(request)
	if refused != nil {
		verdict = "refused: " + refused.Error()
	}
	_, err = fmt.Fprintf(env.stdout, "%s\nrule %v: %s\n", verdict, rule, rules.Explain(request))
	return err
}

// addToken adds what the token says to the request.
func (c *configExplainCmd) addToken(cfg *config.Auth, request *permission.Request) error {
	if c.Token == "" {
		return nil
	}
	connection, subscription, err := inspect(cfg, c.Token, isForChannel(c.Token))
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
