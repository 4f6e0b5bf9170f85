package loadtest

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"os/exec"
	"slices"
	"strings"
	"time"

	"github.com/sluice-push/sluice/cmd/sluice/internal/loadtest/delivery"
	"github.com/sluice-push/sluice/cmd/sluice/internal/loadtest/hostclock"
	"github.com/sluice-push/sluice/cmd/sluice/internal/loadtest/reasoncount"
)

// Options are the settings of a run that do not change what is measured. All may be nil.
type Options struct {
	// Progress is called about four times a second, and Phase before each phase begins. Run calls both on its own goroutine, so a slow
	// function delays the progress and, in a closed loop, the load. They must not keep their arguments.
	Progress func(Progress)
	Phase    func(Phase)
	// Worker returns a command that starts this program again and makes it call Work with its standard input and output. The command has
	// no pipes and is not started. Run calls Worker if the clients do not fit into one process, and fails if it is nil.
	Worker func() *exec.Cmd
	// Logger receives debug messages. If it is nil, they are discarded.
	Logger *slog.Logger
}

// Run runs the load that a spec describes and returns the result. If ctx ends, Run stops within seconds. The result then covers the time until
// the interruption, which Problems mentions. If the spec is invalid, no client could connect, or a client process has died, Run returns an error
// and no result. The caller sets Host, Server and Generator of the result, and CPU, Memory and Sockets of its Moments.
//
// A latency is measured from the time at which the publication was due by the schedule. Both times come from the clock of this host, because
// clients and publisher run here. The server may run on any host.
func Run(ctx context.Context, spec Spec, o *Options) (*Result, error) {
	if err := spec.Validate(); err != nil {
		return nil, err
	}
	r := &run{ctx: ctx, spec: spec.withDefaults(), began: time.Now(), results: map[int]*workerResult{}}
	if o != nil {
		r.options = *o
	}
	if r.options.Logger == nil {
		r.options.Logger = slog.New(slog.DiscardHandler)
	}
	r.plan = newPlan(r.spec)
	id := rand.Uint32() //nolint:gosec // it only has to differ from those of other runs
	r.publisher = newPublisher(r.plan, delivery.NewPayloads(id, r.spec.Seed, r.spec.Bytes), nil)
	var err error
	if r.workers, err = startWorkers(&r.spec, id, &r.options, r.publisher.completed); err != nil {
		return nil, err
	}
	err = r.phases()
	if died := r.workers.close(); err != nil && died != nil {
		err = fmt.Errorf("%w (%w)", err, died)
	}
	for _, out := range r.publisher.sinks {
		out.Close()
	}
	if err != nil {
		return nil, err
	}
	return r.result(), nil
}

// run is the state of a run. Only the goroutine of Run uses it. The workers report to that goroutine through workerSet.events.
type run struct {
	ctx       context.Context
	spec      Spec
	options   Options
	plan      *plan
	publisher *publisher
	workers   *workerSet

	began   time.Time
	phase   Phase
	planned time.Time // when the measured part is to end; zero: not known yet

	connected []*connected          // one for each worker that has connected its clients
	drained   int                   // how many workers have drained
	results   map[int]*workerResult // by worker
	monitor   monitor

	interrupted Phase // the phase in which the context ended; empty: it has not
	problems    []string
}

// errInterrupted is returned by a phase if the context ends.
var errInterrupted = errors.New("loadtest: interrupted")

// phases runs the phases of a run in their order. An interruption skips to the last ones.
func (r *run) phases() error {
	steps := []func() error{r.connect, r.settle, r.publish}
	for _, step := range steps {
		if err := step(); errors.Is(err, errInterrupted) {
			break
		} else if err != nil {
			return err
		}
	}
	return r.finish()
}

func (r *run) begin(p Phase) {
	r.phase = p
	r.options.Logger.Debug("load test phase started", "phase", string(p))
	if f := r.options.Phase; f != nil {
		f(p)
	}
}

// connect waits until each client has joined or failed.
func (r *run) connect() error {
	r.begin(Connecting)
	if err := r.workers.broadcast(&command{Kind: cmdConnect}); err != nil {
		return err
	}
	all := func() bool { return len(r.connected) == len(r.workers.handles) }
	err := r.handleUntil(time.Time{}, all)
	if errors.Is(err, errInterrupted) {
		if err := r.workers.broadcast(&command{Kind: cmdStopWaiting}); err != nil {
			return err
		}
		if err := r.handleUntil(time.Now().Add(shortPatience), all); err != nil {
			return err
		}
	} else if err != nil {
		return err
	}
	clients, why := 0, reasoncount.Counts{}
	for _, c := range r.connected {
		clients += c.Clients
		for reason, n := range c.Reasons {
			why.Add(reason, n)
		}
	}
	if clients == 0 && r.interrupted == "" {
		return fmt.Errorf("loadtest: no client could connect to %s: %s", r.spec.redacted().URL, strings.Join(sortedKeys(why.All()), "; "))
	}
	return err
}

// settle connects the publishers, and then waits for Spec.Settle.
func (r *run) settle() error {
	r.begin(Settling)
	var err error
	if r.publisher.sinks, err = newSinks(r.ctx, r.plan); r.ctx.Err() != nil {
		r.interrupted = r.phase
		return errInterrupted
	} else if err != nil {
		return err
	}
	return r.handleUntil(time.Now().Add(r.spec.Settle), nil)
}

// startLead is the time between the announcement of the first publication and its due time. In it the workers receive cmdMeasure.
const startLead = 20 * time.Millisecond

// publish runs the publisher through the warm-up and the measured part.
func (r *run) publish() error {
	p := r.publisher
	at := hostclock.Now() + int64(startLead)
	start := time.Now().Add(startLead)
	from, to := start.Add(r.spec.Warmup), start.Add(r.spec.Warmup+r.spec.Duration)
	r.planned = to
	r.monitor.begin(at + int64(r.spec.Warmup))
	err := r.workers.broadcast(&command{Kind: cmdMeasure, From: at + int64(r.spec.Warmup), To: at + int64(r.spec.Warmup+r.spec.Duration)})
	if err != nil {
		return err
	}
	r.begin(Warming)
	ctx, cancel := context.WithCancel(r.ctx)
	defer func() {
		cancel()
		<-p.ended
	}()
	p.start(ctx, at)
	if err := r.handleUntil(from, nil); err != nil {
		return err
	}
	r.begin(Measuring)
	if r.spec.stalls() {
		if err := r.stall(from); err != nil {
			return err
		}
	}
	if r.spec.Shape == Storm {
		if err := r.handleUntil(from.Add(r.spec.Duration/2), nil); err != nil {
			return err
		}
		if err := r.workers.broadcast(&command{Kind: cmdStorm}); err != nil {
			return err
		}
	}
	if err := r.handleUntil(to, nil); err != nil {
		return err
	}
	select {
	case <-p.ended: // the usual case
		return nil
	default:
	}
	return r.handleUntil(to.Add(r.spec.Patience+shortPatience), func() bool { // the writers are late
		select {
		case <-p.ended:
			return true
		default:
			return false
		}
	})
}

// stall lets clients stop reading for StallFor in the middle of the measured part, or from its beginning on if StallFor is 0.
func (r *run) stall(from time.Time) error {
	if r.spec.StallFor == 0 {
		return r.workers.broadcast(&command{Kind: cmdStall})
	}
	begin := from.Add((r.spec.Duration - r.spec.StallFor) / 2)
	if err := r.handleUntil(begin, nil); err != nil {
		return err
	}
	if err := r.workers.broadcast(&command{Kind: cmdStall}); err != nil {
		return err
	}
	if err := r.handleUntil(begin.Add(r.spec.StallFor), nil); err != nil {
		return err
	}
	return r.workers.broadcast(&command{Kind: cmdResumeReading})
}

// shortPatience is how long a run waits for something that should be quick.
const shortPatience = 2 * time.Second

// finish waits until every publication has arrived, or until Patience has ended, and collects the results of the workers.
func (r *run) finish() error {
	r.begin(Draining)
	patience := r.spec.Patience
	if r.interrupted != "" {
		patience = min(patience, shortPatience)
	}
	err := r.workers.broadcast(&command{Kind: cmdDrain, Published: r.publisher.published, First: r.publisher.first.Load()})
	if err != nil {
		return err
	}
	all := func() bool { return r.drained == len(r.workers.handles) }
	if err = r.handleUntil(time.Now().Add(patience), all); errors.Is(err, errInterrupted) {
		err = r.handleUntil(time.Now().Add(shortPatience), all) // publications that are under way are not lost
	}
	if err != nil {
		return err
	}
	if err := r.workers.broadcast(&command{Kind: cmdStopWaiting}); err != nil {
		return err
	}
	r.begin(Closing)
	if err := r.workers.broadcast(&command{Kind: cmdFinish}); err != nil {
		return err
	}
	for { // an interruption is ignored here: the workers answer soon
		err := r.handleUntil(time.Time{}, func() bool { return len(r.results) == len(r.workers.handles) })
		if !errors.Is(err, errInterrupted) {
			return err
		}
	}
}

// handleUntil handles the reports of the workers until a time, or until reached returns true. A zero time never comes, and a nil reached means
// to wait for the time. handleUntil returns errInterrupted once in a run, when the context ends.
func (r *run) handleUntil(until time.Time, reached func() bool) error {
	tick := time.NewTicker(statusInterval)
	defer tick.Stop()
	var over <-chan time.Time
	if !until.IsZero() {
		timer := time.NewTimer(time.Until(until))
		defer timer.Stop()
		over = timer.C
	}
	done := r.ctx.Done()
	if r.interrupted != "" {
		done = nil
	}
	for reached == nil || !reached() {
		select {
		case e := <-r.workers.events:
			if err := r.handle(&e); err != nil {
				return err
			}
		case <-tick.C:
			r.reportProgress()
		case <-over:
			return nil
		case <-done:
			r.interrupted = r.phase
			return errInterrupted
		}
	}
	return nil
}

// handle handles a report. It returns an error if a worker has ended before it sent its result.
func (r *run) handle(e *workerEvent) error {
	switch m := e.report; {
	case e.err != nil && r.results[e.from] != nil: // the usual end of a worker
	case e.err != nil:
		r.workers.handles[e.from].exitedEarly = true
		return e.err
	case m.Status != nil:
		r.monitor.setStatus(e.from, m.Status)
	case m.Connected != nil:
		r.connected = append(r.connected, m.Connected)
		for channel, n := range m.Connected.Readers {
			r.publisher.readers[channel] += uint64(n) //nolint:gosec // a count
			if n > 0 {
				r.publisher.readingProcesses[channel]++
			}
		}
	case m.Drained:
		r.drained++
	case m.Result != nil:
		r.results[e.from] = m.Result
	}
	return nil
}

// reportProgress takes a sample and calls Options.Progress.
func (r *run) reportProgress() {
	p := r.publisher
	r.monitor.takeSample(p.counted.Load())
	f := r.options.Progress
	if f == nil {
		return
	}
	out := Progress{
		Phase: r.phase, Elapsed: time.Since(r.began), Target: r.spec.Clients,
		Published: p.counted.Load(), Expected: p.expected.Load(),
	}
	if !r.planned.IsZero() {
		out.Left = max(time.Until(r.planned), 0)
	}
	r.monitor.fillProgress(&out)
	f(out)
}

func sortedKeys(m map[string]int) []string {
	keys := make([]string, 0, len(m))
	for k := range m {
		keys = append(keys, k)
	}
	slices.Sort(keys)
	return keys
}
