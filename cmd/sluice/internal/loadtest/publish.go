package loadtest

import (
	"context"
	"errors"
	"fmt"
	"math"
	"net/url"
	"sync"
	"sync/atomic"
	"time"

	"github.com/sluice-push/sluice/cmd/sluice/internal/loadtest/delivery"
	"github.com/sluice-push/sluice/cmd/sluice/internal/loadtest/hostclock"
	"github.com/sluice-push/sluice/cmd/sluice/internal/loadtest/reasoncount"
	"github.com/sluice-push/sluice/cmd/sluice/internal/loadtest/sink"
)

// publishConn publishes to the server. It serves one writer, with one publication under way, unless its type says that writers may share it.
type publishConn interface {
	// Publish publishes data and waits for the answer of the server. The error is nil if the server has accepted the publication, and a
	// *sink.Refusal if it certainly has not. After any other error the server may have it or not. The data is borrowed until Publish returns.
	Publish(ctx context.Context, channel string, data []byte) error
	Close()
}

// publisher publishes what the plan says. Each writer is a goroutine. It ends when the schedule does, or with the context.
// Only the writer of a stream changes its delivery.Published. Other goroutines may read it after ended is closed.
type publisher struct {
	plan             *plan
	payloads         *delivery.Payloads
	sinks            []publishConn
	patience         time.Duration
	readingProcesses []int    // by channel: how many processes have clients that read it; set before start
	readers          []uint64 // by channel: how many clients read it; set before start

	begin, from, to int64                // host clock: when the first publication is due, the first that counts, and the end
	published       []delivery.Published // by stream
	next            atomic.Uint32        // closed loop: the number of the next publication
	first           atomic.Uint32        // the number of the first publication that counts and was attempted

	// sent, unknown, timedOut and reasons count all publications. The others count those of the measured part.
	sent     atomic.Uint64      // accepted by the server
	counted  atomic.Uint64      // accepted by the server
	refused  atomic.Uint64      // refused by the server
	unknown  atomic.Uint64      // not answered, so the server may have them
	timedOut atomic.Uint64      // closed loop: did not reach all clients within patience
	due      atomic.Uint64      // due by the schedule
	expected atomic.Uint64      // deliveries expected: for each counted publication, one for each reader of its channel
	maxLate  atomic.Int64       // nanoseconds by which a publication was sent late, at most
	reasons  reasoncount.Counts // why publications were refused or not answered

	mu      sync.Mutex
	pending map[uint32]*pendingPublication // closed loop: publications that are under way

	running sync.WaitGroup
	ended   chan struct{} // closed when all writers have ended
}

// pendingPublication is a publication that not all clients have received.
type pendingPublication struct {
	completedBy []bool        // by process: all of its clients have the publication
	left        int           // processes that have not reported it
	done        chan struct{} // closed when left is 0
}

// newPublisher returns a publisher that has not started. Its caller sets readingProcesses and readers.
func newPublisher(p *plan, payloads *delivery.Payloads, sinks []publishConn) *publisher {
	pub := &publisher{
		plan: p, payloads: payloads, sinks: sinks, patience: p.spec.Patience,
		published: make([]delivery.Published, p.streams()), pending: map[uint32]*pendingPublication{}, ended: make(chan struct{}),
		readingProcesses: make([]int, p.channels), readers: make([]uint64, p.channels),
	}
	for i := range pub.published {
		pub.published[i].From = 1
	}
	pub.first.Store(math.MaxUint32)
	return pub
}

// start starts the writers. The first publication is due at the given time of the host clock.
func (p *publisher) start(ctx context.Context, at int64) {
	p.begin = at
	p.from = at + int64(p.plan.spec.Warmup)
	p.to = p.from + int64(p.plan.spec.Duration)
	for w := range p.plan.writers {
		p.running.Go(func() {
			if p.plan.isClosedLoop() {
				p.closedLoop(ctx, w)
			} else {
				p.openLoop(ctx, w)
			}
		})
	}
	go func() { // ends with the writers
		p.running.Wait()
		for i := range p.published {
			if c := &p.published[i]; c.From == 1 {
				c.From = c.Last + 1 // no publication counted
			} else {
				c.From--
			}
		}
		close(p.ended)
	}()
}

// openLoop publishes the publications of writer w. It publishes each when it is due, or at once if the server's previous answer came later.
func (p *publisher) openLoop(ctx context.Context, w int) {
	for k := uint32(0); ; k++ {
		due := p.begin + int64(p.plan.due(k))
		if due >= p.to {
			return
		}
		if p.plan.writerOf(k) != w {
			continue
		}
		if due >= p.from {
			p.due.Add(1)
		}
		if !hostclock.SleepUntil(ctx, due) {
			return
		}
		if hostclock.Now() <= p.to+int64(p.patience) { // a later one is not published, but counts as due
			p.publishOne(ctx, w, k, due)
		}
	}
}

// closedLoop publishes as writer w: each publication when all clients have the previous one, or when patience has ended.
func (p *publisher) closedLoop(ctx context.Context, w int) {
	timer := time.NewTimer(0)
	defer timer.Stop()
	if !hostclock.SleepUntil(ctx, p.begin) {
		return
	}
	for ctx.Err() == nil {
		due := hostclock.Now()
		if due >= p.to {
			return
		}
		if due >= p.from {
			p.due.Add(1)
		}
		k := p.next.Add(1) - 1
		a := p.addPending(k)
		if p.publishOne(ctx, w, k, due) {
			timer.Reset(p.patience)
			select {
			case <-a.done:
			case <-timer.C:
				p.timedOut.Add(1)
			case <-ctx.Done():
			}
		} else if !hostclock.SleepUntil(ctx, due+int64(time.Millisecond)) { // a pause, so that refusals do not become a busy loop
			return
		}
		p.removePending(k)
	}
}

// publishOne publishes as writer w, and reports whether the server may have the publication. The next one reuses the number of a refused one.
func (p *publisher) publishOne(ctx context.Context, w int, k uint32, due int64) bool {
	channel := p.plan.channelOf(k)
	stream := p.plan.streamOf(channel, w)
	c := &p.published[stream]
	seq := c.Last + 1
	data := p.payloads.Append(nil, delivery.Header{Stream: stream, Seq: seq, K: k, Due: due})
	counts := due >= p.from
	for old := p.first.Load(); counts && k < old && !p.first.CompareAndSwap(old, k); old = p.first.Load() {
	}
	late := hostclock.Now() - due
	for old := p.maxLate.Load(); counts && late > old && !p.maxLate.CompareAndSwap(old, late); old = p.maxLate.Load() {
	}
	err := p.sinks[w%len(p.sinks)].Publish(ctx, p.plan.channelName(channel), data)
	if no := new(sink.Refusal); errors.As(err, &no) {
		if counts {
			p.refused.Add(1)
		}
		p.reasons.Add(no.Error(), 1)
		return false
	}
	c.Last = seq
	if counts && c.From == 1 {
		c.From = seq + 1 // From holds the number plus 1 until the end, since 1 means that there is none yet
	}
	if err != nil {
		c.Holes = append(c.Holes, seq)
		p.unknown.Add(1)
		p.reasons.Add(reasoncount.Of(err), 1)
		return true
	}
	c.Sure, c.Due = seq, due
	p.sent.Add(1)
	if counts {
		p.counted.Add(1)
		p.expected.Add(p.readers[channel])
	}
	return true
}

// addPending registers publication k, so that completed can report it. Its done is closed at once if no process has a reader.
func (p *publisher) addPending(k uint32) *pendingPublication {
	n := p.readingProcesses[p.plan.channelOf(k)]
	a := &pendingPublication{left: n, done: make(chan struct{})}
	if n == 0 {
		close(a.done)
		return a
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.pending[k] = a
	return a
}

// completed records that all clients of a process have publication k. Further calls for the same process and publication have no effect.
func (p *publisher) completed(k uint32, process int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	a := p.pending[k]
	if a == nil {
		return
	}
	for len(a.completedBy) <= process {
		a.completedBy = append(a.completedBy, false)
	}
	if a.completedBy[process] {
		return
	}
	a.completedBy[process] = true
	if a.left--; a.left == 0 {
		close(a.done)
	}
}

func (p *publisher) removePending(k uint32) {
	p.mu.Lock()
	defer p.mu.Unlock()
	delete(p.pending, k)
}

// problems returns one sentence for each kind of trouble that publishing had.
func (p *publisher) problems() (out []string) {
	if n := p.unknown.Load(); n > 0 {
		out = append(out, fmt.Sprintf("%d publications were not answered: it is unknown whether they were published, so they are not expected", n))
	}
	if n := p.timedOut.Load(); n > 0 {
		out = append(out, fmt.Sprintf("%d publications did not reach all clients within %v", n, p.patience))
	}
	if left := int64(p.due.Load()) - int64(p.counted.Load()+p.refused.Load()+p.unknown.Load()); left > 0 { //nolint:gosec // counts
		out = append(out, fmt.Sprintf("%d due publications were not published: the server or this host was too slow", left))
	}
	for why, n := range p.reasons.All() {
		out = append(out, fmt.Sprintf("publishing failed %d times: %s", n, why))
	}
	return out
}

// publishURLs returns the URLs that publications are posted to: with routes those of all nodes, each when the one before does not accept a publication for
// now.
func (s *Spec) publishURLs() []string {
	urls := []string{s.PublishURL}
	if !s.Route {
		return urls
	}
	byHost := Spec{Transport: s.Transport, Publish: ByAPI}
	for _, node := range s.Nodes {
		if u, err := url.Parse(node); err == nil {
			_, to := byHost.addresses(u)
			urls = append(urls, to)
		}
	}
	return urls
}

// newSinks returns the connections of the writers: one for each, or a shared one, or none if nothing is published.
func newSinks(ctx context.Context, p *plan) ([]publishConn, error) {
	s := &p.spec
	if p.writers == 0 {
		return nil, nil
	}
	if s.Publish == ByClient {
		o := sink.WebSocketOptions{URL: s.publisherURL(), Token: s.Token, Plain: s.Protocol == Plain, Timeout: answerTimeout(s)}
		out, err := sink.DialWebSocket(ctx, &o)
		if err != nil {
			return nil, fmt.Errorf("loadtest: %w", err)
		}
		return []publishConn{out}, nil
	}
	list := make([]publishConn, p.writers)
	for i := range list {
		var nodes []*sink.HTTP
		for _, to := range s.publishURLs() {
			out, err := sink.NewHTTP(to, s.Key, answerTimeout(s))
			if err != nil {
				return nil, fmt.Errorf("loadtest: %w", err)
			}
			nodes = append(nodes, out)
		}
		list[i] = sink.NewFailover(nodes, answerTimeout(s))
	}
	return list, nil
}
