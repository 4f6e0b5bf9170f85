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

// trial is what is to be tried.
type trial struct {
	program     string   // the command sluice
	broker      string   // of the node
	folder      string   // of the recordings
	instruments []string // each a recording, without its ending; clients behind the weak network want the first only
	recorded    time.Duration
	speed       float64 // how much faster than recorded
	points      int     // check points of an instrument
	removals    int     // that a table remembers; who is further behind begins afresh
	stall       time.Duration
	weak        string        // conditions of the weak network
	patience    time.Duration // how long may be waited at a check point
	forms       []string      // of deltas; empty: none
	log         io.Writer     // what is said meanwhile
}

// kinds are the clients of each form.
func kinds(weak string) []kind {
	return []kind{
		{name: "all there is"},
		{name: "20 a second", interval: 50 * time.Millisecond},
		{name: "5 a second", interval: 200 * time.Millisecond},
		{name: "1 a second", interval: time.Second},
		{name: "stalls", stalls: true},
		{name: "behind " + weak, weak: true},
	}
}

// finding is what came of one client.
type finding struct {
	client      *client
	published   int           // changes in its channels
	received    int           // publications
	news        int           // changes among them, each counted once
	differences int           // publications as differences among them
	stalest     time.Duration // how long a row was wrong at most before it was put right
	again       int           // subscriptions that were made anew
	checks      int           // books that were compared

	mu       sync.Mutex    // guards what follows
	caughtUp time.Duration // how long it took at most, at a check point, until it had the book
	wrong    []string
}

// outcome is what came of a trial.
type outcome struct {
	findings []*finding
	changes  int           // published
	took     time.Duration // from the first to the last, without pauses
	late     time.Duration // how far the publisher was behind its schedule at most
	points   int           // check points
}

// sound reports whether every client had exactly the book at every check point.
func (o *outcome) sound() bool {
	return !slices.ContainsFunc(o.findings, func(f *finding) bool { return len(f.wrong) > 0 || f.checks == 0 })
}

// run is a trial under way. It is for one goroutine; clients have one each.
type run struct {
	trial
	feeds     []*feed
	books     []book // what each feed's book is by now
	ages      map[string]*ages
	publisher *publisher
	findings  []*finding
	stalled   []func()  // end what stall began
	until     time.Time // when the stall ends
	out       outcome
}

// try does what a trial asks for. The error says that it could not be done; what was found wrong is in the outcome.
func (t *trial) try(ctx context.Context) (*outcome, error) {
	conditions, err := network.ParseConditions(t.weak)
	if err != nil {
		return nil, err
	}
	r := &run{trial: *t, ages: map[string]*ages{}}
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
	r.invite()
	for _, f := range r.findings {
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
		r.ages[f.channel] = &ages{start: f.from, stamps: map[string][]stamp{}}
		fmt.Fprintf(r.log, "%s: %d levels, then %d changes in %d updates\n", name, len(b), f.changed(), len(f.frames))
	}
	return nil
}

// invite makes the clients.
func (r *run) invite() {
	var channels []string
	for _, f := range r.feeds {
		channels = append(channels, f.channel)
	}
	for _, form := range r.forms {
		for _, k := range kinds(r.weak) {
			r.findings = append(r.findings, &finding{client: newClient(k, form, channels, r.ages)})
		}
	}
}

// step is a frame in the order of all instruments.
type step struct {
	feed  int
	frame *frame
	check bool
}

// steps puts the frames of all feeds in the order in which they were received, and chooses check points, evenly among those that can
// be one.
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

// publish publishes all frames in their time, with a pause at each check point, and waits in the end until all clients have all.
func (r *run) publish(ctx context.Context) error {
	for _, f := range r.findings {
		if f.client.kind.weak {
			continue // the snapshot takes it long, and it is behind in any case
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
		r.out.late = max(r.out.late, now.Sub(due))
		if i == len(steps)/4 {
			r.stallAll(now)
		}
		f := r.feeds[s.feed]
		r.ages[f.channel].note(s.frame.changes, s.frame.update, now)
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

// until waits until a time.
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

// stallAll lets those stall that are to.
func (r *run) stallAll(now time.Time) {
	r.until = now.Add(r.stall)
	for _, f := range r.findings {
		if f.client.kind.stalls {
			release := f.client.stall()
			time.AfterFunc(r.stall, release)
			r.stalled = append(r.stalled, release)
		}
	}
}

// ready reports whether a client is to have everything soon.
func (c *client) ready() bool { return !c.kind.weak && !c.stalled() }

// end waits until nobody stalls any more, and compares all books of all clients.
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

// mark is a book at a check point.
type mark struct {
	channel string
	update  uint64
	best    quote
	book    book // not changed any more
}

// mark makes the mark of a step, once it is published. The error says that the recording contradicts itself.
func (r *run) mark(s step) (mark, error) {
	m := mark{r.feeds[s.feed].channel, s.frame.update, *s.frame.best, maps.Clone(r.books[s.feed])}
	got, err := m.book.quote()
	if err == nil && got != m.best {
		err = fmt.Errorf("the best are %v, the exchange says %v", got, m.best)
	}
	if err != nil {
		return m, fmt.Errorf("the recording is wrong: %s after update %d: %w", m.channel, m.update, err)
	}
	return m, nil
}

// checkPoint waits until those clients that are judged have the books as they are after some steps, and compares. Nothing is published
// meanwhile.
func (r *run) checkPoint(ctx context.Context, after []step, judged func(*client) bool) error {
	ctx, cancel := context.WithTimeout(ctx, r.patience)
	defer cancel()
	began := time.Now()
	var waiting sync.WaitGroup
	defer waiting.Wait()
	for _, s := range after {
		m, err := r.mark(s)
		if err != nil {
			return err
		}
		r.out.points++
		for _, d := range r.findings {
			t := d.client.tables[m.channel]
			if t == nil || !judged(d.client) {
				continue
			}
			d.checks++
			reached := t.aim(m.book)
			waiting.Go(func() { d.compare(ctx, m, reached, began) })
		}
		fmt.Fprintf(r.log, "check point %d, %s after update %d: %d levels, %v\n", r.out.points, m.channel, m.update, len(m.book), m.best)
	}
	return nil
}

// compare waits until a client has a book, and compares it.
func (f *finding) compare(ctx context.Context, m mark, reached <-chan struct{}, since time.Time) {
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

// report puts together what was found. All clients have ended.
func (r *run) report() *outcome {
	for _, f := range r.findings {
		for _, t := range f.client.tables {
			t.mu.Lock()
			f.received += t.received
			f.news += t.news
			f.differences += t.differences
			f.stalest = max(f.stalest, t.stalest)
			t.mu.Unlock()
			f.published += t.ages.published()
		}
		f.again = f.client.again
		if err := f.client.err; err != nil {
			f.wrong = append(f.wrong, err.Error())
		}
	}
	r.out.findings = r.findings
	return &r.out
}
