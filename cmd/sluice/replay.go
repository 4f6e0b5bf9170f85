package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"sync/atomic"
	"syscall"

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
	Mark    string       `type:"path" placeholder:"FILE" help:"File that keeps what was accepted: the same command goes on after an interruption."`
}

// Help is shown by sluice replay --help.
func (replayCmd) Help() string {
	return "Two forms are understood: lines of a receive time in Unix nanoseconds and JSON, and captured conversations with exchanges. " +
		"The order of each channel is the recorded one.\n\n" +
		"A node that is busy, or gives no answer after it has given one, is asked again until Ctrl-C. Each publication has an idempotency " +
		"key, so one whose answer was lost is not stored twice.\n\n" +
		"With --mark, a replay that was interrupted, or killed, goes on where it was when the same command is given again. Only what was " +
		"being published just then, at most one publication for each lane, is asked for again, under the same key. Nodes know keys for " +
		"five minutes: after a longer interruption those few may come twice in a stream. When all is published, the mark says so, " +
		"and the same command publishes nothing; remove the file to replay once more. --speed and --lanes may change between runs."
}

// Run replays the files and prints a summary.
func (c *replayCmd) Run(env *environment) error {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	r := newRemote(c.remoteFlags, c.Lanes)
	defer r.close()
	errs, isFile := env.stderr.(*os.File)
	line := replay.NewProgressLine(env.stderr, isFile && replay.IsTerminal(errs))
	o := replay.Options{
		Files: c.Files, Publisher: &apiPublisher{remote: r}, Channel: c.Channel, Key: c.Key, Speed: c.Speed, Lanes: c.Lanes,
		Progress: line.Show,
	}
	if c.Mark != "" {
		var err error
		if o.Mark, err = replay.OpenMark(c.Mark, r.base, o); err != nil {
			return err
		}
		defer func() { _ = o.Mark.Close() }() // each line was written when it was due
		if o.Mark.Done() {
			_, err := fmt.Fprintf(env.stdout, "everything was published already, says %s; remove it to replay once more\n", c.Mark)
			return err
		}
	}
	summary, err := replay.Run(ctx, o)
	if _, printErr := fmt.Fprintln(env.stdout, summary); err == nil {
		err = printErr
	}
	return c.explain(err, o.Mark)
}

// explain says how to go on after an error.
func (c *replayCmd) explain(err error, mark *replay.Mark) error {
	interrupted := errors.Is(err, context.Canceled)
	switch {
	case err == nil:
		return nil
	case mark != nil && interrupted:
		return fmt.Errorf("interrupted; the same command, with --mark %s, goes on from here", c.Mark)
	case interrupted:
		return errors.New("interrupted; a replay with --mark could go on from here")
	case mark != nil && mark.Begun():
		return fmt.Errorf("%w; when that is mended, the same command, with --mark %s, goes on from here", err, c.Mark)
	}
	return err
}

// apiPublisher publishes over the HTTP API.
type apiPublisher struct {
	remote   *remote
	answered atomic.Bool // by a node: the address is right
}

// Publish implements replay.Publisher. A node that does not answer may have gone for a while, and every publication has a key by which it
// is known when it comes again; but where no node has ever answered, somebody should look at the address.
func (p *apiPublisher) Publish(ctx context.Context, pub replay.Publication) error {
	request := publishRequest{Channel: pub.Channel, Key: pub.Key, Data: pub.Data, IdempotencyKey: pub.ID}
	err := p.remote.call(ctx, "publish", request, nil)
	var refused *push.Error
	var unanswered unansweredError
	switch {
	case err == nil:
		p.answered.Store(true)
		return nil
	case errors.As(err, &refused):
		p.answered.Store(true)
		if refused.Temporary {
			return againError{err}
		}
	case errors.As(err, &unanswered) && (unanswered.somebody || p.answered.Load()):
		return againError{err}
	}
	return err
}

// againError is an error after which the same publication may come again.
type againError struct{ error }

func (e againError) Unwrap() error { return e.error }

// Temporary is what package replay asks.
func (againError) Temporary() bool { return true }
