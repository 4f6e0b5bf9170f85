package load

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

	"github.com/sluice-push/sluice/internal/count"
	"github.com/sluice-push/sluice/internal/hostclock"
)

// Options are the settings of a run that are not part of what is measured. All may be nil.
type Options struct {
	// Progress is called about four times a second, Phase before each phase begins, both on the goroutine of Run, one at a time: what they
	// do delays what is shown, and in a closed loop the load. They must not keep what they are given.
	Progress func(Progress)
	Phase    func(Phase)
	// Worker returns the command that starts this program again so that it calls Work with its standard input and output: not started,
	// without pipes. It is called when the clients do not fit one process. nil: then that is an error.
	Worker func() *exec.Cmd
	// Logger gets what happens; nil discards.
	Logger *slog.Logger
}

// Run does what a spec asks for and returns what came of it. When ctx ends, Run stops within seconds, and the result, which says so in
// Problems, is of what there was until then. The error says that there was nothing to measure: the spec is wrong, no client could connect,
// or a process of clients has died; then there is no result. The host, the usage of processes, and those of Moments are left to the caller.
//
// Latency counts from when a publication was due by the schedule, with clocks of this host only: clients and publisher have to be on the
// same one, which they are, and the server may be anywhere.
func Run(ctx context.Context, spec Spec, o *Options) (*Result, error) {
	if err := spec.Validate(); err != nil {
		return nil, err
	}
	r := &run{ctx: ctx, spec: spec.withDefaults(), began: time.Now(), shares: map[int]*share{}}
	if o != nil {
		r.options = *o
	}
	if r.options.Logger == nil {
		r.options.Logger = slog.New(slog.DiscardHandler)
	}
	r.plan = newPlan(r.spec)
	id := rand.Uint32() //nolint:gosec // it only has to differ from that of the last run
	r.publisher = newPublisher(r.plan, newPayloads(id, r.spec.Seed, r.spec.Bytes), nil)
	var err error
	if r.crew, err = startCrew(&r.spec, id, &r.options, r.publisher.completed); err != nil {
		return nil, err
	}
	err = r.phases()
	if died := r.crew.close(); err != nil && died != nil {
		err = fmt.Errorf("%w (%w)", err, died)
	}
	for _, out := range r.publisher.outlets {
		out.close()
	}
	if err != nil {
		return nil, err
	}
	return r.result(), nil
}

// run is a run under way. Its goroutine is that of Run, which hears of everything else through the crew's events.
type run struct {
	ctx       context.Context
	spec      Spec
	options   Options
	plan      *plan
	publisher *publisher
	crew      *crew

	began   time.Time
	phase   Phase
	planned time.Time // when the measured part ends; zero: not known yet

	connected []*connected
	drained   int
	shares    map[int]*share // by member
	watch     watch

	interrupted Phase // in which the context ended
	problems    []string
}

// errInterrupted ends what is waited for.
var errInterrupted = errors.New("load: interrupted")

// phases goes through the phases of a run.
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
	r.options.Logger.Debug("a phase of the load begins", "phase", string(p))
	if f := r.options.Phase; f != nil {
		f(p)
	}
}

// connect lets all clients come in.
func (r *run) connect() error {
	r.begin(Connecting)
	if err := r.crew.tell(&order{Do: doConnect}); err != nil {
		return err
	}
	all := func() bool { return len(r.connected) == len(r.crew.members) }
	err := r.pump(time.Time{}, all)
	if errors.Is(err, errInterrupted) {
		if err := r.crew.tell(&order{Do: doEnough}); err != nil {
			return err
		}
		if err := r.pump(time.Now().Add(hurry), all); err != nil {
			return err
		}
	} else if err != nil {
		return err
	}
	clients, why := 0, count.Words{}
	for _, c := range r.connected {
		clients += c.Clients
		for reason, n := range c.Reasons {
			why.Add(reason, n)
		}
	}
	if clients == 0 && r.interrupted == "" {
		return fmt.Errorf("load: no client could connect to %s: %s", r.spec.public().URL, strings.Join(sortedKeys(why.All()), "; "))
	}
	return err
}

// settle rests.
func (r *run) settle() error {
	r.begin(Settling)
	var err error
	if r.publisher.outlets, err = outlets(r.ctx, r.plan); r.ctx.Err() != nil {
		r.interrupted = r.phase
		return errInterrupted
	} else if err != nil {
		return err
	}
	return r.pump(time.Now().Add(r.spec.Settle), nil)
}

// lead is how long before the first publication everybody is told when it is due.
const lead = 20 * time.Millisecond

// publish has the publications published, those that do not count first.
func (r *run) publish() error {
	p := r.publisher
	at := hostclock.Now() + int64(lead)
	start := time.Now().Add(lead)
	from, to := start.Add(r.spec.Warmup), start.Add(r.spec.Warmup+r.spec.Duration)
	r.planned = to
	r.watch.begin(at + int64(r.spec.Warmup))
	err := r.crew.tell(&order{Do: doMeasure, From: at + int64(r.spec.Warmup), To: at + int64(r.spec.Warmup+r.spec.Duration)})
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
	if err := r.pump(from, nil); err != nil {
		return err
	}
	r.begin(Measuring)
	if r.spec.stalls() {
		if err := r.stall(from); err != nil {
			return err
		}
	}
	if r.spec.Shape == Storm {
		if err := r.pump(from.Add(r.spec.Duration/2), nil); err != nil {
			return err
		}
		if err := r.crew.tell(&order{Do: doStorm}); err != nil {
			return err
		}
	}
	if err := r.pump(to, nil); err != nil {
		return err
	}
	select {
	case <-p.ended: // as it should be
		return nil
	default:
	}
	return r.pump(to.Add(r.spec.Patience+hurry), func() bool { // writers are behind
		select {
		case <-p.ended:
			return true
		default:
			return false
		}
	})
}

// stall has those stop reading that are to, in the middle of what is measured or all the time.
func (r *run) stall(from time.Time) error {
	if r.spec.StallFor == 0 {
		return r.crew.tell(&order{Do: doStall})
	}
	begin := from.Add((r.spec.Duration - r.spec.StallFor) / 2)
	if err := r.pump(begin, nil); err != nil {
		return err
	}
	if err := r.crew.tell(&order{Do: doStall}); err != nil {
		return err
	}
	if err := r.pump(begin.Add(r.spec.StallFor), nil); err != nil {
		return err
	}
	return r.crew.tell(&order{Do: doFree})
}

// hurry is how long is waited for what should not take long.
const hurry = 2 * time.Second

// finish waits for what is under way, and asks what came of it.
func (r *run) finish() error {
	r.begin(Draining)
	patience := r.spec.Patience
	if r.interrupted != "" {
		patience = min(patience, hurry)
	}
	err := r.crew.tell(&order{Do: doDrain, Courses: r.publisher.courses, First: r.publisher.first.Load()})
	if err != nil {
		return err
	}
	all := func() bool { return r.drained == len(r.crew.members) }
	if err = r.pump(time.Now().Add(patience), all); errors.Is(err, errInterrupted) {
		err = r.pump(time.Now().Add(hurry), all) // what is on its way is not lost
	}
	if err != nil {
		return err
	}
	if err := r.crew.tell(&order{Do: doEnough}); err != nil {
		return err
	}
	r.begin(Closing)
	if err := r.crew.tell(&order{Do: doClose}); err != nil {
		return err
	}
	for { // a second interruption changes nothing here: it does not take long
		err := r.pump(time.Time{}, func() bool { return len(r.shares) == len(r.crew.members) })
		if !errors.Is(err, errInterrupted) {
			return err
		}
	}
}

// pump handles what comes until a time, or until what is waited for has come about; a zero time never comes. It returns errInterrupted
// once, when the context ends.
func (r *run) pump(until time.Time, reached func() bool) error {
	tick := time.NewTicker(lookInterval)
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
		case e := <-r.crew.events:
			if err := r.hear(&e); err != nil {
				return err
			}
		case <-tick.C:
			r.show()
		case <-over:
			return nil
		case <-done:
			r.interrupted = r.phase
			return errInterrupted
		}
	}
	return nil
}

// hear handles a report.
func (r *run) hear(e *event) error {
	switch m := e.report; {
	case e.err != nil && r.shares[e.from] != nil: // as it should be
	case e.err != nil:
		r.crew.members[e.from].died = true
		return e.err
	case m.Look != nil:
		r.watch.note(e.from, m.Look)
	case m.Connected != nil:
		r.connected = append(r.connected, m.Connected)
		for channel, n := range m.Connected.Readers {
			r.publisher.readers[channel] += uint64(n) //nolint:gosec // a count
			if n > 0 {
				r.publisher.watched[channel]++
			}
		}
	case m.Drained:
		r.drained++
	case m.Share != nil:
		r.shares[e.from] = m.Share
	}
	return nil
}

// show tells how far the run has come.
func (r *run) show() {
	p := r.publisher
	r.watch.look(p.counted.Load())
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
	r.watch.show(&out)
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
