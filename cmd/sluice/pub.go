package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"time"

	"github.com/sluice-push/sluice/cmd/sluice/internal/clientconn"
	"github.com/sluice-push/sluice/push/protocol"
	clientjson "github.com/sluice-push/sluice/push/protocol/json"
)

// pubCmd publishes one message.
type pubCmd struct {
	remoteFlags
	Channel        string            `arg:"" help:"Channel to publish to."`
	Data           string            `arg:"" optional:"" help:"JSON to publish; - reads it from standard input."`
	Key            string            `help:"Key of the row, in a table."`
	Remove         bool              `help:"Remove the row instead of publishing data."`
	Clear          bool              `help:"Remove all rows of the table."`
	Tag            map[string]string `help:"Tag, NAME=VALUE; may be repeated."`
	IdempotencyKey string            `help:"Idempotency key: a publication with the same key within five minutes is not stored again."`

	clientFlags `group:"As a client, instead of through the HTTP API:" set:"transport="`
}

// maxPublication is how many bytes are read from standard input.
const maxPublication = 64 << 20

// Validate implements kong.Validatable.
func (c *pubCmd) Validate() error {
	switch {
	case c.Transport == "" && c.Protocol != "":
		return errors.New("--protocol is for clients: add --transport")
	case c.Transport == "":
		return nil
	case c.Clear:
		return errors.New("a client cannot clear a channel: leave out --transport, or --clear")
	case c.IdempotencyKey != "":
		return errors.New("a client cannot give an idempotency key: leave out --transport, or --idempotency-key")
	}
	return c.check()
}

// Run publishes the message and prints its position, which a client is not told.
func (c *pubCmd) Run(env *environment) error {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	if c.Clear {
		return c.clear(ctx, env)
	}
	request, err := c.request(env)
	switch {
	case err != nil:
		return err
	case c.Transport != "":
		return c.publishAsClient(ctx, env, request)
	}
	r := newRemote(c.remoteFlags, 1)
	defer r.close()
	var at struct {
		Offset uint64 `json:"offset"`
		Epoch  string `json:"epoch"`
	}
	if err := r.call(ctx, "publish", request, &at); err != nil {
		return err
	}
	_, err = fmt.Fprintf(env.stdout, "published at offset %d\n", at.Offset)
	return err
}

// request returns the publication that the flags and standard input describe.
func (c *pubCmd) request(env *environment) (*publishRequest, error) {
	request := &publishRequest{Channel: c.Channel, Key: c.Key, Removed: c.Remove, Tags: c.Tag, IdempotencyKey: c.IdempotencyKey}
	switch {
	case c.Remove && c.Data != "":
		return nil, errors.New("--remove takes no data: leave the data out, or leave --remove out")
	case !c.Remove && c.Data == "":
		return nil, errors.New(`data is missing: write it after the channel, as in sluice pub CHANNEL '{"price": 1}'`)
	case c.Data == "-":
		data, err := io.ReadAll(io.LimitReader(env.stdin, maxPublication))
		if err != nil {
			return nil, fmt.Errorf("read standard input: %w", err)
		}
		request.Data = data
	case !c.Remove:
		request.Data = json.RawMessage(c.Data)
	}
	if !c.Remove && !json.Valid(request.Data) {
		return nil, errors.New(`data is not JSON: put a text in double quotes, and both in single quotes for the shell, as in '"hello"'`)
	}
	return request, nil
}

// publishTimeout is how long a client waits for a connection and for the answer to its publication, altogether.
const publishTimeout = 30 * time.Second

// publishAsClient connects as a client and publishes.
func (c *pubCmd) publishAsClient(ctx context.Context, env *environment, request *publishRequest) error {
	ctx, cancel := context.WithTimeout(ctx, publishTimeout)
	defer cancel()
	cmd := &protocol.Command{ID: 2, Kind: protocol.KindPublish}
	cmd.Publish = protocol.PublishRequest{Channel: request.Channel, Key: request.Key, Removed: request.Removed, Tags: request.Tags}
	if !request.Removed {
		var err error
		if cmd.Publish.Data, err = clientjson.CompactData(request.Data); err != nil {
			return err
		}
	}
	conn, err := clientconn.Dial(ctx, c.options(c.URL, c.connect()))
	if err != nil {
		return err
	}
	defer conn.Close()
	if err := awaitReply(ctx, conn, 1, "the connection"); err != nil {
		return err
	}
	if err := conn.Send(ctx, cmd); err != nil {
		return err
	}
	if err := awaitReply(ctx, conn, cmd.ID, "the publication"); err != nil {
		return err
	}
	_, err = fmt.Fprintln(env.stdout, "published")
	return err
}

// awaitReply waits for the reply to the command with an ID. The error for a refusal names what was requested.
func awaitReply(ctx context.Context, conn *clientconn.Conn, id uint32, requested string) error {
	var r protocol.Reply
	for {
		switch err := conn.Receive(ctx, &r); {
		case err != nil:
			return err
		case r.ID == id && r.Error != nil:
			return fmt.Errorf("the node refused %s: %s (code %d)", requested, r.Error.Message, r.Error.Code)
		case r.ID == id:
			return nil
		}
	}
}

// clear removes all publications of the channel.
func (c *pubCmd) clear(ctx context.Context, env *environment) error {
	if c.Remove || c.Data != "" || c.Key != "" {
		return errors.New("--clear removes all rows: leave out the data, --key and --remove")
	}
	r := newRemote(c.remoteFlags, 1)
	defer r.close()
	if err := r.call(ctx, "history_remove", publishRequest{Channel: c.Channel}, &struct{}{}); err != nil {
		return err
	}
	_, err := fmt.Fprintf(env.stdout, "%s cleared\n", c.Channel)
	return err
}
