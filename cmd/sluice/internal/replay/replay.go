// Package replay publishes recorded traffic again, in the recorded order, and at the recorded speed or faster.
//
// # Order
//
// Several recordings are merged by the time of their frames. If times are equal, the frame of the file that was named first comes first. The
// frames of one file always keep their order, even if its times go back. A template makes the name of a frame's channel from the frame's symbol
// and file. The publications of one channel are made one after the other, in merged order: each starts when the one before has been accepted.
// The channels are distributed over several workers, which publish concurrently. So publications of different channels may overtake each other,
// by at most the number of frames that the workers' queues hold.
//
// # Data
//
// The data of a publication is the recorded JSON byte for byte, and the hashes of the [Summary] are of exactly these bytes. A frame is one line,
// so it has no newlines, but it may have other insignificant white space. A server that compacts the JSON it accepts delivers such frames
// shorter, and a subscriber's hash then differs.
//
// # Errors
//
// After a temporary error, such as a refusal or a missing answer, the publication is tried again, with growing pauses, until the context ends.
// Any other error ends the replay, and so does a recording that cannot be read. Frames that were read before the read error are still published.
//
// # Interruptions
//
// Each publication has an ID, by which the receiver recognizes a repeated publication. With a [Checkpoint], a replay that ended early continues
// where it stopped. Accepted publications are not repeated. Publications whose outcome is unknown, at most one for each worker, are repeated
// under the same ID. So nothing is lost, and nothing is stored twice as long as the receiver remembers the IDs.
package replay

import (
	"bytes"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"math"
	"sync"
	"sync/atomic"
	"time"

	"github.com/sluice-push/sluice/cmd/sluice/internal/recording"
)

const (
	defaultWorkers       = 16
	defaultQueue         = 64
	defaultProgressEvery = time.Second
)

// Publication is one frame and the channel it is published to.
type Publication struct {
	Channel string
	Key     string // empty if [Options] has no template for the key
	Data    []byte // owned by the publisher; package replay does not change it any more
	// ID is unique for the publication. Repeated attempts have the same ID, even in a later run with the same [Checkpoint].
	ID string
}

// Publisher accepts publications. Publish is called concurrently, but for one channel one call at a time. It returns nil once p is accepted. If
// an error has a method Temporary() bool that returns true, Publish is called again with the same p. A temporary error may also mean that the
// outcome is unknown, for example because the answer was lost. The receiver then recognizes the repeated p by its ID.
type Publisher interface {
	Publish(ctx context.Context, p Publication) error
}

// Options are the settings of a replay. Files, Publisher and Channel are required.
type Options struct {
	// Files are the recordings, in a format that package recording reads. The same file may be named more than once.
	Files []string
	// Publisher accepts the publications.
	Publisher Publisher
	// Channel is the template of the channel's name: {symbol} stands for the frame's symbol, and {file} for the file's name without folder and
	// .gz.
	Channel string
	// Key is the template of the key, with the same placeholders. Empty means no key. If Channel or Key needs a symbol, frames without a symbol
	// are not published.
	Key string
	// Speed is the speed relative to the recording. Zero means [RealTime], negative means [Max].
	Speed Speed
	// Workers is how many publications are in flight at once. Zero means 16. Negative means 1: each publication waits for the one before.
	Workers int
	// Queue is how many frames may wait for each worker. Zero means 64, negative means none. Workers and Queue bound the memory of a replay. If
	// a queue is full, the replay waits.
	Queue int
	// MaxLine bounds the lines of the recordings; see [recording.Options].
	MaxLine int
	// Checkpoint, if not nil, records the accepted publications. Publications that it has already recorded are not repeated. The clock of the
	// replay starts with the first frame that is published.
	Checkpoint *Checkpoint
	// Progress, if not nil, is called every ProgressEvery, and once at the end with Done set, even after an error. Calls do not overlap. The
	// replay continues during a call, but Run does not return before the last call has returned.
	Progress func(Progress)
	// ProgressEvery is the time between two calls of Progress. Zero means one second. Negative means only the call at the end.
	ProgressEvery time.Duration
}

func (o Options) withDefaults() Options {
	switch {
	case o.Workers == 0:
		o.Workers = defaultWorkers
	case o.Workers < 0:
		o.Workers = 1
	}
	switch {
	case o.Queue == 0:
		o.Queue = defaultQueue
	case o.Queue < 0:
		o.Queue = 0
	}
	if o.Speed == 0 {
		o.Speed = RealTime
	}
	if o.ProgressEvery == 0 {
		o.ProgressEvery = defaultProgressEvery
	}
	return o
}

func (o Options) check() error {
	switch {
	case len(o.Files) == 0:
		return errors.New("no files")
	case o.Publisher == nil:
		return errors.New("no publisher")
	case o.Channel == "":
		return errors.New("no channel")
	case math.IsNaN(float64(o.Speed)) || math.IsInf(float64(o.Speed), 0):
		return fmt.Errorf("speed %v is not valid: use a number greater than 0, or max", float64(o.Speed))
	}
	return nil
}

// Error says which frame could not be published, and why.
type Error struct {
	File    string // as named in Options
	Line    int    // counted from 1
	Channel string
	Err     error // what the publisher returned
}

// Error returns "replay: FILE:LINE: publish to CHANNEL: cause".
func (e *Error) Error() string {
	return fmt.Sprintf("replay: %s:%d: publish to %q: %v", e.File, e.Line, e.Channel, e.Err)
}

// Unwrap returns the cause.
func (e *Error) Unwrap() error { return e.Err }

// Run replays recordings. It returns when everything has been published, after the first final error, or when ctx ends, and always after the
// last call of the publisher has returned. The summary is valid in every case. The error is an [*Error] if a publication was refused, a
// [*recording.Error] if a file cannot be read, and it wraps ctx.Err() if ctx ended. Any other error means that the options are invalid or that
// the checkpoint cannot be written.
func Run(ctx context.Context, opts Options) (Summary, error) {
	r, err := newRun(opts.withDefaults())
	if err != nil {
		return Summary{}, err
	}
	defer r.merge.close()
	return r.run(ctx)
}

// run is one replay. newRun sets the fields up to the first blank line; started and stop are set when the replay starts.
type run struct {
	opts    Options
	id      string // prefix of the publications' IDs
	channel template
	key     template
	merge   *merger
	workers []*worker
	started time.Time
	stop    context.CancelFunc // cancels the context of the workers and of read

	// Owned by the goroutine that reads.
	pacer    pacer
	channels map[string]*channel

	// Written by read and the workers, read by progress.
	frames           atomic.Int64 // frames that have been read from the recordings
	recorded         atomic.Int64 // recorded time of the last of these frames, in Unix nanoseconds
	behind           atomic.Int64 // nanoseconds that the replay is late
	skipped          atomic.Int64
	alreadyPublished atomic.Int64
	published        atomic.Int64
	bytes            atomic.Int64
	retried          atomic.Int64
	retryError       atomic.Pointer[error] // error of the last temporary failure

	mu      sync.Mutex
	failure error // the first error
}

func newRun(opts Options) (*run, error) {
	if err := opts.check(); err != nil {
		return nil, fmt.Errorf("replay: %w", err)
	}
	r := &run{opts: opts, id: rand.Text(), channels: map[string]*channel{}}
	if opts.Checkpoint != nil {
		r.id = opts.Checkpoint.header.Run
	}
	var err error
	if r.channel, err = parseTemplate(opts.Channel); err != nil {
		return nil, fmt.Errorf("replay: channel: %w", err)
	}
	if r.key, err = parseTemplate(opts.Key); err != nil {
		return nil, fmt.Errorf("replay: key: %w", err)
	}
	if r.merge, err = openAll(opts.Files, &recording.Options{MaxLine: opts.MaxLine}); err != nil {
		return nil, err // the error names the package and the file
	}
	for range opts.Workers {
		r.workers = append(r.workers, &worker{run: r, queue: make(chan item, opts.Queue)})
	}
	return r, nil
}

func (r *run) run(ctx context.Context) (Summary, error) {
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	r.stop = stop
	r.started = time.Now()
	r.pacer = pacer{speed: r.opts.Speed}

	var workers, reporter sync.WaitGroup
	for _, l := range r.workers {
		workers.Go(func() { l.work(ctx) })
	}
	ended := make(chan struct{})
	if r.opts.Progress != nil && r.opts.ProgressEvery > 0 {
		reporter.Go(func() { r.report(ended) })
	}

	if err := r.read(ctx); err != nil {
		r.setFailure(err)
	}
	for _, l := range r.workers {
		close(l.queue)
	}
	workers.Wait()
	if r.opts.Checkpoint != nil && r.failure == nil {
		r.failure = r.opts.Checkpoint.finish()
	}
	close(ended)
	reporter.Wait()
	if r.opts.Progress != nil {
		p := r.progress()
		p.Done = true
		r.opts.Progress(p)
	}
	return r.summary(), r.failure
}

// read passes the frames to the workers, in merged order and at their time.
func (r *run) read(ctx context.Context) error {
	number := int64(0)
	for {
		if ctx.Err() != nil { // skipped frames do not wait, so nothing else in the loop would notice the end of ctx
			return stopped(ctx)
		}
		s, err := r.merge.next()
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
		number++
		to := r.route(s)
		if to == nil || number <= to.channel.alreadyPublished {
			r.countUnpublished(number, s.head.Time, to)
			continue
		}
		late, err := r.pacer.wait(ctx, s.head.Time)
		if err != nil {
			return err
		}
		r.frames.Store(number)
		r.recorded.Store(s.head.Time)
		r.behind.Store(int64(late))
		it := item{to: to, data: bytes.Clone(s.head.Data), frame: number, file: s.reader.Name(), line: s.head.Line}
		select {
		case to.channel.worker.queue <- it:
		case <-ctx.Done():
			return stopped(ctx)
		}
	}
}

// countUnpublished counts a frame that is not published, because it has no channel or an earlier run has published it. Such a frame does not
// wait for its time.
func (r *run) countUnpublished(number, recorded int64, to *route) {
	r.frames.Store(number)
	r.recorded.Store(recorded)
	if to == nil {
		r.skipped.Add(1)
	} else {
		r.alreadyPublished.Add(1)
	}
}

// route returns the channel and key of the frame at the head of s, and nil if a template needs a symbol and the frame has none. Routes are
// cached for each file and symbol.
func (r *run) route(s *source) *route {
	symbol := s.head.Symbol
	if to, ok := s.routes[symbol]; ok {
		return to
	}
	var to *route
	if symbol != "" || !r.channel.needsSymbol && !r.key.needsSymbol {
		name := r.channel.expand(symbol, s.short)
		c := r.channels[name]
		if c == nil {
			c = newChannel(name, r.workers, r.opts.Checkpoint)
			r.channels[name] = c
		}
		to = &route{channel: c, key: r.key.expand(symbol, s.short)}
	}
	s.routes[symbol] = to
	return to
}

// setFailure records an error if it is the first.
func (r *run) setFailure(err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.failure == nil {
		r.failure = err
	}
}

// fail records an error and ends the replay.
func (r *run) fail(err error) {
	r.setFailure(err)
	r.stop()
}

// stopped returns the error for an operation that the end of ctx has interrupted.
func stopped(ctx context.Context) error { return fmt.Errorf("replay: stopped: %w", ctx.Err()) }
