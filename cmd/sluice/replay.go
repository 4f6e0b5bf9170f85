package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/signal"

	"github.com/sluice-push/sluice/internal/replay"
	"github.com/sluice-push/sluice/push"
)

// replayCmd publishes recorded traffic.
type replayCmd struct {
	remoteFlags
	Files   []string     `arg:"" name:"file" type:"existingfile" help:"Recordings, plain or gzip. Several are merged by the time of recording."`
	Channel string       `required:"" help:"Channel, in which {symbol} and {file} stand for those of the frame: 'ticks:{symbol}'."`
	Key     string       `help:"Key of the row, likewise: '{symbol}'."`
	Speed   replay.Speed `default:"1" help:"How much faster than recorded: 1, 10, … or max."`
	Lanes   int          `default:"16" help:"How many publications are under way at once. Each channel keeps its order."`
}

// Help is shown by sluice replay --help.
func (replayCmd) Help() string {
	return "Two forms are understood: lines of a receive time in Unix nanoseconds and JSON, and captured conversations with exchanges. " +
		"The order of each channel is the recorded one."
}

// Run replays the files and prints a summary.
func (c *replayCmd) Run(env *environment) error {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	r := newRemote(c.remoteFlags, c.Lanes)
	defer r.close()
	errs, isFile := env.stderr.(*os.File)
	line := replay.NewProgressLine(env.stderr, isFile && replay.IsTerminal(errs))
	summary, err := replay.Run(ctx, replay.Options{
		Files: c.Files, Publisher: apiPublisher{r}, Channel: c.Channel, Key: c.Key, Speed: c.Speed, Lanes: c.Lanes, Progress: line.Show,
	})
	if _, printErr := fmt.Fprintln(env.stdout, summary); err == nil {
		err = printErr
	}
	if errors.Is(err, context.Canceled) {
		return errors.New("interrupted")
	}
	return err
}

// apiPublisher publishes over the HTTP API.
type apiPublisher struct{ remote *remote }

func (p apiPublisher) Publish(ctx context.Context, pub replay.Publication) error {
	err := p.remote.call(ctx, "publish", publishRequest{Channel: pub.Channel, Key: pub.Key, Data: pub.Data}, nil)
	if refused := (*push.Error)(nil); errors.As(err, &refused) && refused.Temporary {
		return busyError{refused}
	}
	return err
}

// busyError is a refusal of the API after which nothing was stored and the same may be tried again.
type busyError struct{ error }

func (e busyError) Unwrap() error { return e.error }

// Temporary is what package replay asks.
func (busyError) Temporary() bool { return true }
