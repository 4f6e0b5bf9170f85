// Package replay publishes recorded traffic again, in its recorded order and at its recorded pace or faster.
//
// # Order
//
// Several recordings are merged by the time of their frames; where times are equal, the file named first goes first. The frames of
// one file keep their order in any case, also where its times go back. Each frame goes to the channel that a template makes of its
// symbol and its file, and the publications of a channel are made one after the other in merged order: the next one starts when the
// one before was accepted. Different channels are spread over lanes and publish at the same time, so their publications may
// overtake each other, by at most what the lanes hold.
//
// # Data
//
// What is published is the recorded JSON byte for byte, and the hashes of the [Summary] are made of exactly that. A frame stands on
// one line, so it has no newlines; it may have other insignificant white space, however (of the recordings this was made for, only
// the REST snapshots of one exchange have any). A server that compacts the JSON it accepts delivers such frames shorter, and what a
// subscriber hashes differs then.
//
// # Errors
//
// An error that calls itself temporary, be it a refusal or the lack of an answer, is followed by another try, with growing pauses, as
// long as the context lives. Any other error ends the replay, and so does a recording that cannot be read; what was read before that is
// published.
//
// # Interruptions
//
// Each publication has an ID, by which the receiver knows it when it comes again. With a [Mark], a replay that ended early goes on
// where it was: what was accepted is passed over, and what was in doubt, at most one publication for each lane, comes
// again under the same ID. So nothing is lost, and nothing is stored twice for as long as the receiver remembers IDs.
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

	"github.com/sluice-push/sluice/internal/recording"
)

const (
	defaultLanes         = 16
	defaultQueue         = 64
	defaultProgressEvery = time.Second
)

// Publication is one frame on its way to a channel.
type Publication struct {
	Channel string
	Key     string // empty when [Options] has no template for it
	Data    []byte // belongs to the publisher; nobody changes it any more
	// ID is the publication's own: the same whenever it comes again, be it in a later run with the same [Mark].
	ID string
}

// Publisher takes what is replayed. Publish is called concurrently, but for one channel one call at a time. It returns nil once p is
// accepted. An error with a method Temporary() bool that returns true says that p may be accepted later: the same p comes
// again. It does not say that nothing was stored. Where that is not known, because an answer was lost or took too long, the receiver
// has to recognise p by its ID.
type Publisher interface {
	Publish(ctx context.Context, p Publication) error
}

// Options say what is replayed, where to and how fast. Files, Publisher and Channel are required.
type Options struct {
	// Files are the recordings, in a form that package recording reads. A file may be named more than once.
	Files []string
	// Publisher takes the publications.
	Publisher Publisher
	// Channel is the template of the channel's name: {symbol} stands for the frame's symbol, {file} for the name of its file without
	// folder and .gz.
	Channel string
	// Key is the template of the key, with the same placeholders. Empty means no key. Frames without a symbol are left out when
	// Channel or Key needs one.
	Key string
	// Speed is how much faster than recorded; zero means [RealTime], negative [Max].
	Speed Speed
	// Lanes is how many publications are under way at once, zero means 16. Negative means 1: each waits for the one before.
	Lanes int
	// Queue is how many frames wait for each lane, zero means 64, negative none. Lanes and Queue bound the memory of a replay.
	// When a queue is full, the replay waits.
	Queue int
	// MaxLine bounds the lines of the recordings, see [recording.Options].
	MaxLine int
	// Mark, when not nil, notes what is accepted, and what it has noted before is passed over. The pace begins with what comes after.
	Mark *Mark
	// Progress, when not nil, is told how the replay is doing: every ProgressEvery, and once at the end, with Done set, however the
	// replay ends. One call at a time is made. The replay goes on meanwhile, but does not end before Progress returns.
	Progress func(Progress)
	// ProgressEvery is the time between two calls of Progress, zero means one second. Negative means only the call at the end.
	ProgressEvery time.Duration
}

func (o Options) withDefaults() Options {
	switch {
	case o.Lanes == 0:
		o.Lanes = defaultLanes
	case o.Lanes < 0:
		o.Lanes = 1
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
		return fmt.Errorf("%v is no speed", float64(o.Speed))
	}
	return nil
}

// Error says which frame could not be published and why.
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

// Run replays recordings. It returns when everything is published, at the first final error, or when ctx ends, and always after
// the last call of the publisher has returned. The summary tells what was published in any case. The error is an [*Error] when a
// publication was refused, a [*recording.Error] when a file cannot be read, and ctx.Err(), wrapped, when ctx ended; otherwise
// the options are wrong or the mark cannot be written.
func Run(ctx context.Context, opts Options) (Summary, error) {
	r, err := newRun(opts.withDefaults())
	if err != nil {
		return Summary{}, err
	}
	defer r.merge.close()
	return r.run(ctx)
}

// run is one replay. The fields up to the first gap are set at the start.
type run struct {
	opts    Options
	id      string // begins the IDs
	channel template
	key     template
	merge   *merger
	lanes   []*lane
	started time.Time
	stop    context.CancelFunc // ends the lanes and the reading

	// Owned by the goroutine that reads.
	pace     pace
	channels map[string]*channel

	// Written by whoever gets there, read for the progress.
	frames    atomic.Int64 // read from the recordings
	recorded  atomic.Int64 // time of the last of them
	behind    atomic.Int64 // nanoseconds that the replay is late
	skipped   atomic.Int64
	passed    atomic.Int64
	published atomic.Int64
	bytes     atomic.Int64
	retried   atomic.Int64
	trouble   atomic.Pointer[error] // why something was tried again last

	mu      sync.Mutex
	failure error // what came first
}

func newRun(opts Options) (*run, error) {
	if err := opts.check(); err != nil {
		return nil, fmt.Errorf("replay: %w", err)
	}
	r := &run{opts: opts, id: rand.Text(), channels: map[string]*channel{}}
	if opts.Mark != nil {
		r.id = opts.Mark.header.Run
	}
	var err error
	if r.channel, err = parseTemplate(opts.Channel); err != nil {
		return nil, fmt.Errorf("replay: channel: %w", err)
	}
	if r.key, err = parseTemplate(opts.Key); err != nil {
		return nil, fmt.Errorf("replay: key: %w", err)
	}
	if r.merge, err = openAll(opts.Files, &recording.Options{MaxLine: opts.MaxLine}); err != nil {
		return nil, err // says which package and file
	}
	for range opts.Lanes {
		r.lanes = append(r.lanes, &lane{run: r, queue: make(chan item, opts.Queue)})
	}
	return r, nil
}

func (r *run) run(ctx context.Context) (Summary, error) {
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	r.stop = stop
	r.started = time.Now()
	r.pace = pace{speed: r.opts.Speed}

	var lanes, reporter sync.WaitGroup
	for _, l := range r.lanes {
		lanes.Go(func() { l.work(ctx) })
	}
	ended := make(chan struct{})
	if r.opts.Progress != nil && r.opts.ProgressEvery > 0 {
		reporter.Go(func() { r.report(ended) })
	}

	if err := r.read(ctx); err != nil {
		r.note(err)
	}
	for _, l := range r.lanes {
		close(l.queue)
	}
	lanes.Wait()
	if r.opts.Mark != nil && r.failure == nil {
		r.failure = r.opts.Mark.finish()
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

// read hands the frames to the lanes, in merged order and at their time.
func (r *run) read(ctx context.Context) error {
	number := int64(0)
	for {
		if ctx.Err() != nil { // where no frame is published, nothing else looks
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
		if to == nil || number <= to.channel.passed {
			r.pass(number, s.head.Time, to)
			continue
		}
		late, err := r.pace.wait(ctx, s.head.Time)
		if err != nil {
			return err
		}
		r.frames.Store(number)
		r.recorded.Store(s.head.Time)
		r.behind.Store(int64(late))
		it := item{to: to, data: bytes.Clone(s.head.Data), frame: number, file: s.reader.Name(), line: s.head.Line}
		select {
		case to.channel.lane.queue <- it:
		case <-ctx.Done():
			return stopped(ctx)
		}
	}
}

// pass counts a frame that is not published: it goes nowhere, or was accepted before. It does not wait for its time.
func (r *run) pass(number, recorded int64, to *route) {
	r.frames.Store(number)
	r.recorded.Store(recorded)
	if to == nil {
		r.skipped.Add(1)
	} else {
		r.passed.Add(1)
	}
}

// route returns where the frame at the head of s goes, nil when it needs a symbol and has none. Routes are made once for each file
// and symbol.
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
			c = newChannel(name, r.lanes, r.opts.Mark)
			r.channels[name] = c
		}
		to = &route{channel: c, key: r.key.expand(symbol, s.short)}
	}
	s.routes[symbol] = to
	return to
}

// note keeps an error if it is the first.
func (r *run) note(err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.failure == nil {
		r.failure = err
	}
}

// fail notes an error and ends everything.
func (r *run) fail(err error) {
	r.note(err)
	r.stop()
}

// stopped is the error of what ctx interrupted.
func stopped(ctx context.Context) error { return fmt.Errorf("replay: stopped: %w", ctx.Err()) }
