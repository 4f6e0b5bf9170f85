package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
)

// pubCmd publishes one message.
type pubCmd struct {
	remoteFlags
	Channel        string            `arg:"" help:"Channel to publish to."`
	Data           string            `arg:"" optional:"" help:"JSON to publish; - reads it from standard input."`
	Key            string            `help:"Row of the table."`
	Remove         bool              `help:"Remove the row instead of publishing data."`
	Clear          bool              `help:"Remove all rows of the table."`
	Tag            map[string]string `help:"A tag, NAME=VALUE; may be repeated."`
	IdempotencyKey string            `help:"Publishing again with the same key within five minutes does nothing."`
}

// maxPublication is how much is read from standard input.
const maxPublication = 64 << 20

// Run publishes and prints the position.
func (c *pubCmd) Run(env *environment) error {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	if c.Clear {
		return c.clear(ctx, env)
	}
	request := publishRequest{Channel: c.Channel, Key: c.Key, Removed: c.Remove, Tags: c.Tag, IdempotencyKey: c.IdempotencyKey}
	switch {
	case c.Remove && c.Data != "":
		return errors.New("with --remove there is nothing to publish: leave the data out")
	case !c.Remove && c.Data == "":
		return errors.New(`the data is missing: sluice pub CHANNEL '{"price": 1}'`)
	case c.Data == "-":
		data, err := io.ReadAll(io.LimitReader(env.stdin, maxPublication))
		if err != nil {
			return fmt.Errorf("read standard input: %w", err)
		}
		request.Data = data
	case !c.Remove:
		request.Data = json.RawMessage(c.Data)
	}
	if !c.Remove && !json.Valid(request.Data) {
		return errors.New(`the data is not JSON; text needs quotes, and these the shell's: '"hello"'`)
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
	_, err := fmt.Fprintf(env.stdout, "published at offset %d\n", at.Offset)
	return err
}

// clear clears the channel.
func (c *pubCmd) clear(ctx context.Context, env *environment) error {
	if c.Remove || c.Data != "" || c.Key != "" {
		return errors.New("with --clear all of the channel goes: leave out the data, --key and --remove")
	}
	r := newRemote(c.remoteFlags, 1)
	defer r.close()
	if err := r.call(ctx, "history_remove", publishRequest{Channel: c.Channel}, &struct{}{}); err != nil {
		return err
	}
	_, err := fmt.Fprintf(env.stdout, "%s is cleared\n", c.Channel)
	return err
}
