package drain

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"os/signal"
	"time"

	"github.com/sluice-push/sluice/cmd/sluice/internal/nodeclient"
)

// Command is sluice drain: it drains a node.
type Command struct {
	Internal string         `default:"127.0.0.1:9000" env:"SLUICE_INTERNAL" help:"The node's internal address: host:port or a URL."`
	Delay    *time.Duration `help:"Time for which the node goes on, but is not ready: 0s to 1h. Default: shutdown.delay of the node."`
	Spread   *time.Duration `help:"Time over which the clients are asked to connect again: 0s to 1h. Default: shutdown.spread of the node."`
	Wait     bool           `help:"Wait until the process of the node has ended, and print what it does."`
	nodeclient.Certificates
}

// Help is shown by sluice drain --help.
func (Command) Help() string {
	return "The node does what it does after SIGTERM: for --delay it goes on, but /health/ready says no. Then it admits no clients, and asks those it has to " +
		"connect again, evenly over --spread. Then it ends, with exit code 0. SIGTERM ends both times. If the node drains already, the command says how far " +
		"it is, and changes nothing. It has to run on the node's machine, or to show a client certificate that internal_tls.client_ca of the node has signed."
}

// Validate implements kong.Validatable.
func (c *Command) Validate() error {
	for flag, d := range map[string]*time.Duration{"--delay": c.Delay, "--spread": c.Spread} {
		if d == nil {
			continue
		}
		if err := checkTime(*d); err != nil {
			return fmt.Errorf("%s: %w", flag, err)
		}
	}
	return c.CheckFlags(c.Internal)
}

// Run requests the drain, and prints what the node does. ^C ends it, and not the drain.
func (c *Command) Run(out io.Writer) error {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	node, err := c.Open(c.Internal)
	if err != nil {
		return err
	}
	defer node.Close()
	query := url.Values{}
	if c.Delay != nil {
		query.Set("delay", c.Delay.String())
	}
	if c.Spread != nil {
		query.Set("spread", c.Spread.String())
	}
	if c.Wait {
		query.Set("wait", "true")
	}
	body, err := node.Do(ctx, http.MethodPost, Path, query)
	if err != nil {
		return err
	}
	defer func() { _ = body.Close() }()
	return c.follow(ctx, out, node, json.NewDecoder(body))
}

// follow prints the answer of the node: one report, or with --wait those of all states, until the process has ended.
func (c *Command) follow(ctx context.Context, out io.Writer, node *nodeclient.Node, in *json.Decoder) error {
	var r Report
	for isFirst := true; ; isFirst = false {
		switch err := in.Decode(&r); {
		case err == nil && r.State != None:
			if _, err := fmt.Fprintln(out, r.text(isFirst)); err != nil {
				return err
			}
			if !c.Wait {
				return nil
			}
		case isFirst:
			return node.NotNode()
		case r.State == Ended && r.Error != "":
			return fmt.Errorf("the node has ended with an error: %s", r.Error)
		case r.State == Ended:
			return nil
		case ctx.Err() != nil:
			return errors.New("interrupted: the node goes on draining")
		default:
			return fmt.Errorf("the connection broke before the node said that it has ended (%w): check whether the node runs", err)
		}
	}
}

// text returns what a report says, for people.
func (r *Report) text(isFirst bool) string {
	switch {
	case r.State == Ended:
		return "the node has ended"
	case isFirst && r.Started:
		return fmt.Sprintf("draining %d clients: delay %v, spread %v, then the node ends", r.ClientsAtStart, r.Delay, r.Spread)
	case isFirst:
		return fmt.Sprintf("the node drains already, for %v: %d of %d clients are left; delay %v, spread %v", r.Elapsed, r.Clients, r.ClientsAtStart, r.Delay, r.Spread)
	case r.State == Spread:
		return fmt.Sprintf("asking %d clients to connect again", r.Clients)
	default:
		return fmt.Sprintf("shutting down, %d clients are left", r.Clients)
	}
}
