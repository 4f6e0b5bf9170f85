package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"sync/atomic"
	"syscall"

	"github.com/sluice-push/sluice/cmd/sluice/internal/replay"
	"github.com/sluice-push/sluice/push"
)

// replayCmd publishes recorded traffic.
type replayCmd struct {
	remoteFlags
	Files      []string     `arg:"" name:"file" type:"existingfile" help:"Recordings, plain or gzip. Several are merged by recording time."`
	Channel    string       `required:"" help:"Channel template: {symbol} and {file} stand for the frame's symbol and file, as in 'ticks:{symbol}'."`
	Key        string       `help:"Row key template, for tables, as in '{symbol}'."`
	Speed      replay.Speed `default:"1" help:"Speed relative to the recording: 1, 10, … or max."`
	Workers    int          `default:"16" help:"Number of publications in flight. Each channel keeps its order."`
	Checkpoint string       `type:"path" placeholder:"FILE" help:"Checkpoint file: after an interruption the same command resumes from it."`
}

// Help is shown by sluice replay --help.
func (replayCmd) Help() string {
	return "A recording has one of two formats: lines with a receive time in Unix nanoseconds and a JSON frame, or a captured conversation " +
		"with an exchange. Each channel keeps its recorded order.\n\n" +
		"If the node is busy, or stops answering during the replay, the command retries until Ctrl-C. Each publication has an idempotency " +
		"key, so a retry does not store it twice.\n\n" +
		"With --checkpoint, the same command resumes a replay that was interrupted or killed. It publishes again, under the same keys, only " +
		"the publications that were in flight, at most one for each worker. Nodes remember keys for five minutes: after a longer " +
		"interruption a stream may contain these publications twice. When everything is published, the checkpoint says so, and the same " +
		"command publishes nothing: remove the file to replay again. --speed and --workers may change between runs."
}

// Run replays the files and prints a summary.
func (c *replayCmd) Run(env *environment) error {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	r := newRemote(c.remoteFlags, c.Workers)
	defer r.close()
	errs, isFile := env.stderr.(*os.File)
	line := replay.NewProgressLine(env.stderr, isFile && replay.IsTerminal(errs))
	o := replay.Options{
		Files: c.Files, Publisher: &apiPublisher{remote: r}, Channel: c.Channel, Key: c.Key, Speed: c.Speed, Workers: c.Workers,
		Progress: line.Show,
	}
	if c.Checkpoint != "" {
		var err error
		if o.Checkpoint, err = replay.OpenCheckpoint(c.Checkpoint, r.base, o); err != nil {
			return err
		}
		defer func() { _ = o.Checkpoint.Close() }() // an error of Close loses nothing: each line was written at once
		if o.Checkpoint.Done() {
			_, err := fmt.Fprintf(env.stdout, "nothing to do: checkpoint %s says that everything is published; remove the file to replay again\n", c.Checkpoint)
			return err
		}
	}
	summary, err := replay.Run(ctx, o)
	if _, printErr := fmt.Fprintln(env.stdout, summary); err == nil {
		err = printErr
	}
	return c.explain(err, o.Checkpoint)
}

// explain adds to an error how the user can continue.
func (c *replayCmd) explain(err error, checkpoint *replay.Checkpoint) error {
	interrupted := errors.Is(err, context.Canceled)
	switch {
	case err == nil:
		return nil
	case checkpoint != nil && interrupted:
		return fmt.Errorf("interrupted; to resume, run the same command with --checkpoint %s", c.Checkpoint)
	case interrupted:
		return errors.New("interrupted; a replay with --checkpoint can be resumed")
	case checkpoint != nil && checkpoint.Begun():
		return fmt.Errorf("%w; fix the cause, then resume with the same command and --checkpoint %s", err, c.Checkpoint)
	}
	return err
}

// apiPublisher publishes over the HTTP API.
type apiPublisher struct {
	remote   *remote
	answered atomic.Bool // a node has answered, so the address is right
}

// Publish implements replay.Publisher. Once a node has answered, a missing answer is a temporary error: the node may restart, and it recognizes
// repeated publications by their idempotency key. If no node has ever answered, the error is final, because the address is probably wrong.
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
			return temporaryError{err}
		}
	case errors.As(err, &unanswered) && (unanswered.reached || p.answered.Load()):
		return temporaryError{err}
	}
	return err
}

// temporaryError is an error after which package replay publishes the same publication again.
type temporaryError struct{ error }

func (e temporaryError) Unwrap() error { return e.error }

// Temporary tells package replay to try again.
func (temporaryError) Temporary() bool { return true }
