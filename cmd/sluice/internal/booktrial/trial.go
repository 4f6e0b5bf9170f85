package main

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"maps"
	"path/filepath"
	"slices"
	"sync"
	"time"

	"github.com/sluice-push/sluice/push/pushtest/network"
)

// trial holds the settings of a run.
type trial struct {
	program     string   // path of the command sluice
	broker      string   // kind of the node's broker
	folder      string   // of the recordings
	instruments []string // names of recordings without .gz; clients behind the weak network use the first only
	recorded    time.Duration
	speed       float64 // relative to the recording
	points      int     // check points for each instrument
	removals    int     // how many removals a table remembers; a client that is further behind starts with a new snapshot
	stall       time.Duration
	weak        string        // conditions of the weak network
	patience    time.Duration // limit of the wait at a check point
	forms       []string      // of deltas; empty: none
	log         io.Writer     // progress messages
}

// kinds returns the clients that each form of deltas gets.
func kinds(weak string) []clientKind {
	return []clientKind{
		{name: "unlimited"},
		{name: "20 a second", interval: 50 * time.Millisecond},
		{name: "5 a second", interval: 200 * time.Millisecond},
		{name: "1 a second", interval: time.Second},
		{name: "stalls", stalls: true},
		{name: "behind " + weak, weak: true},
	}
}

// clientResult is the result of one client.
type clientResult struct {
	client       *client
	published    int           // changes in the client's channels
	received     int           // publications
	newChanges   int           // changes in these, each counted once
	deltas       int           // publications that were deltas
	maxStaleness time.Duration // longest time that a row was wrong before it was corrected
	resubscribed int           // subscriptions after the server had ended one
	checks       int           // books that were compared

	mu       sync.Mutex    // guards the fields below
	caughtUp time.Duration // longest time until the client had the book, from the start of a check point
	wrong    []string
}

// result is the result of a trial.
type result struct {
	results []*clientResult
	changes int           // published changes
	took    time.Duration // from the first change to the last, without pauses
	maxLag  time.Duration // how far the publisher was behind its schedule at most
	points  int           // check points
}

// passed reports whether every client had exactly the right book at every check point.
func (o *result) passed() bool {
	return !slices.ContainsFunc(o.results, func(f *clientResult) bool { return len(f.wrong) > 0 || f.checks == 0 })
}

// run is the state of a trial in progress. One goroutine uses it; each client has a goroutine of its own.
type run struct {
	trial
	feeds     []*feed
	books     []book // the current book of each feed
	histories map[string]*rowHistory
	publisher *publisher
	results   []*clientResult
	stalled   []func()  // end the stalls
	until     time.Time // when the stall ends
	out       result
}

// execute runs the trial. An error means that the trial could not be run; failures that the trial found are in the result.
func (t *trial) execute(ctx context.Context) (*result, error) {
	conditions, err := network.ParseConditions(t.weak)
	if err != nil {
		return nil, err
	}
	r := &run{trial: *t, histories: map[string]*rowHistory{}}
	if err := r.read(); err != nil {
		return nil, err
	}
	n, err := startNode(ctx, t.program, fmt.Sprintf(nodeConfig, t.broker, t.removals))
	if err != nil {
		return nil, err
	}
	defer n.stop()
	weak, err := network.Listen("", n.address, conditions)
	if err != nil {
		return nil, err
	}
	defer weak.Close()
	if r.publisher, err = newPublisher(ctx, n.address); err != nil {
		return nil, err
	}
	defer r.publisher.close()
	for _, f := range r.feeds {
		if err := r.publisher.publish(f.channel, f.start); err != nil {
			return nil, err
		}
	}
	ctx, cancel := context.WithCancel(ctx)
	var running sync.WaitGroup
	defer running.Wait()
	defer cancel()
	r.createClients()
	for _, f := range r.results {
		address := n.address
		if f.client.kind.weak {
			address = weak.Addr().String()
		}
		running.Go(func() { f.client.run(ctx, address) })
	}
	if err := r.publish(ctx); err != nil {
		return nil, err
	}
	cancel()
	running.Wait()
	return r.report(), nil
}

// read reads the recordings.
func (r *run) read() error {
	for _, name := range r.instruments {
		f, err := readFeed(filepath.Join(r.folder, name+".gz"), "books:"+name, isFutures(name), r.recorded)
		if err != nil {
			return err
		}
		b := book{}
		for _, c := range f.start {
			b.apply(c)
		}
		r.feeds, r.books = append(r.feeds, f), append(r.books, b)
		r.histories[f.channel] = &rowHistory{start: f.from, byKey: map[string][]rowChange{}}
		fmt.Fprintf(r.log, "%s: %d levels, then %d changes in %d updates\n", name, len(b), f.changed(), len(f.frames))
	}
	return nil
}

// createClients creates the clients.
func (r *run) createClients() {
	var channels []string
	for _, f := range r.feeds {
		channels = append(channels, f.channel)
	}
	for _, form := range r.forms {
		for _, k := range kinds(r.weak) {
			r.results = append(r.results, &clientResult{client: newClient(k, form, channels, r.histories)})
		}
	}
}

// step is a frame in the merged order of all instruments.
type step struct {
	feed  int
	frame *frame
	check bool
}

// steps merges the frames of all feeds by the time they were received. It chooses check points, evenly distributed among the frames that have a
// best quote.
func (r *run) steps() []step {
	var all []step
	for i, f := range r.feeds {
		var can []int
		first := len(all)
		for j := range f.frames {
			if f.frames[j].best != nil {
				can = append(can, first+j)
			}
			all = append(all, step{feed: i, frame: &f.frames[j]})
		}
		n := min(r.points, len(can))
		for j := range n {
			all[can[(j+1)*len(can)/n-1]].check = true
		}
	}
	slices.SortStableFunc(all, func(a, b step) int { return cmp.Compare(a.frame.at, b.frame.at) })
	return all
}

// publish publishes all frames when they are due, and pauses at each check point. At the end it waits until all clients have everything.
func (r *run) publish(ctx context.Context) error {
	for _, f := range r.results {
		if f.client.kind.weak {
			continue // its snapshot takes long, and it is behind the others in any case
		}
		if err := f.client.await(ctx, f.client.subscribed); err != nil {
			return fmt.Errorf("%s: %w", f.client.name(), err)
		}
	}
	steps := r.steps()
	first := steps[0].frame.at
	began := time.Now()
	var paused time.Duration
	for i, s := range steps {
		due := began.Add(paused + time.Duration(float64(s.frame.at-first)/r.speed))
		if err := until(ctx, due); err != nil {
			return err
		}
		now := time.Now()
		r.out.maxLag = max(r.out.maxLag, now.Sub(due))
		if i == len(steps)/4 {
			r.stallAll(now)
		}
		f := r.feeds[s.feed]
		r.histories[f.channel].record(s.frame.changes, s.frame.update, now)
		for _, c := range s.frame.changes {
			r.books[s.feed].apply(c)
		}
		if err := r.publisher.publish(f.channel, s.frame.changes); err != nil {
			return err
		}
		r.out.changes += len(s.frame.changes)
		if !s.check {
			continue
		}
		pause := time.Now()
		if err := r.checkPoint(ctx, []step{s}, (*client).ready); err != nil {
			return err
		}
		paused += time.Since(pause)
	}
	r.out.took = time.Since(began) - paused
	return r.end(ctx)
}

// until waits until t.
func until(ctx context.Context, t time.Time) error {
	timer := time.NewTimer(time.Until(t))
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// stallAll stalls the clients whose kind stalls.
func (r *run) stallAll(now time.Time) {
	r.until = now.Add(r.stall)
	for _, f := range r.results {
		if f.client.kind.stalls {
			release := f.client.stall()
			time.AfterFunc(r.stall, release)
			r.stalled = append(r.stalled, release)
		}
	}
}

// ready reports whether the client can be expected to catch up soon.
func (c *client) ready() bool { return !c.kind.weak && !c.stalled() }

// end waits for the end of all stalls, and compares all books of all clients.
func (r *run) end(ctx context.Context) error {
	if err := until(ctx, r.until); err != nil {
		return err
	}
	for _, release := range r.stalled {
		release()
	}
	var last []step
	for i, f := range r.feeds {
		last = append(last, step{feed: i, frame: &f.frames[len(f.frames)-1]})
	}
	return r.checkPoint(ctx, last, func(*client) bool { return true })
}

// expectation is the book that clients must have at a check point.
type expectation struct {
	channel string
	update  uint64
	best    quote
	book    book // not changed any more
}

// expect returns the expectation after a step that was just published. An error means that the recording contradicts itself.
func (r *run) expect(s step) (expectation, error) {
	m := expectation{r.feeds[s.feed].channel, s.frame.update, *s.frame.best, maps.Clone(r.books[s.feed])}
	got, err := m.book.quote()
	if err == nil && got != m.best {
		err = fmt.Errorf("the best are %v, the exchange says %v", got, m.best)
	}
	if err != nil {
		return m, fmt.Errorf("the recording is wrong: %s after update %d: %w", m.channel, m.update, err)
	}
	return m, nil
}

// checkPoint waits until the selected clients have the books as they are after the given steps, and compares them. Nothing is published
// meanwhile.
func (r *run) checkPoint(ctx context.Context, after []step, selected func(*client) bool) error {
	ctx, cancel := context.WithTimeout(ctx, r.patience)
	defer cancel()
	began := time.Now()
	var waiting sync.WaitGroup
	defer waiting.Wait()
	for _, s := range after {
		m, err := r.expect(s)
		if err != nil {
			return err
		}
		r.out.points++
		for _, d := range r.results {
			t := d.client.tables[m.channel]
			if t == nil || !selected(d.client) {
				continue
			}
			d.checks++
			reached := t.setGoal(m.book)
			waiting.Go(func() { d.compare(ctx, m, reached, began) })
		}
		fmt.Fprintf(r.log, "check point %d, %s after update %d: %d levels, %v\n", r.out.points, m.channel, m.update, len(m.book), m.best)
	}
	return nil
}

// compare waits until a client has a book, and compares it.
func (f *clientResult) compare(ctx context.Context, m expectation, reached <-chan struct{}, since time.Time) {
	err := f.client.await(ctx, reached)
	took := time.Since(since)
	wrong := f.client.tables[m.channel].check(m.best)
	f.mu.Lock()
	defer f.mu.Unlock()
	f.caughtUp = max(f.caughtUp, took)
	if wrong != "" {
		f.wrong = append(f.wrong, fmt.Sprintf("%s after update %d: %s", m.channel, m.update, wrong))
	}
	if err != nil {
		f.wrong = append(f.wrong, fmt.Sprintf("%s after update %d: %v", m.channel, m.update, err))
	}
}

// report collects the results. All clients have ended.
func (r *run) report() *result {
	for _, f := range r.results {
		for _, t := range f.client.tables {
			t.mu.Lock()
			f.received += t.received
			f.newChanges += t.newChanges
			f.deltas += t.deltas
			f.maxStaleness = max(f.maxStaleness, t.maxStaleness)
			t.mu.Unlock()
			f.published += t.history.published()
		}
		f.resubscribed = f.client.resubscribed
		if err := f.client.err; err != nil {
			f.wrong = append(f.wrong, err.Error())
		}
	}
	r.out.results = r.results
	return &r.out
}
