package hub

import (
	"slices"
	"sync"

	"github.com/sluice-push/sluice/push/channel"
)

// chunkSize is how many subscriptions are served by one worker at a time.
const chunkSize = 512

// serialSubscribers is up to how many subscriptions a topic is served by the goroutine that appended, which costs no hand-over.
const serialSubscribers = 64

// chunk is some of a topic's subscriptions. It is idle, or waiting for a worker or being served, and then perhaps to be served again.
type chunk struct {
	topic *topic

	mu    sync.Mutex // guards subs
	subs  []*Subscription
	state chunkState // guarded by workers.mu

	mark uint64 // guarded by topic.mu: served up to here
}

type chunkState uint8

const (
	idle chunkState = iota
	queued
	serving
	servingAgain
)

func (c *chunk) size() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return len(c.subs)
}

// members appends the subscriptions to out.
func (c *chunk) members(out []*Subscription) []*Subscription {
	c.mu.Lock()
	defer c.mu.Unlock()
	return append(out, c.subs...)
}

// joinLocked adds a subscription to a chunk with room. The newest chunk is the likeliest to have some.
func (t *topic) joinLocked(sub *Subscription) {
	for _, c := range slices.Backward(t.chunks) {
		if c.add(sub) {
			return
		}
	}
	c := &chunk{topic: t, mark: t.log.Head()}
	c.add(sub)
	t.chunks = append(t.chunks, c)
}

func (c *chunk) add(sub *Subscription) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if len(c.subs) == chunkSize {
		return false
	}
	sub.chunk, sub.slot = c, int32(len(c.subs)) //nolint:gosec // at most chunkSize
	c.subs = append(c.subs, sub)
	return true
}

// remove takes a subscription out and reports whether none is left. The last one takes its place.
func (c *chunk) remove(sub *Subscription) (isEmpty bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	last := len(c.subs) - 1
	moved := c.subs[last]
	c.subs[sub.slot], moved.slot = moved, sub.slot
	c.subs[last] = nil
	c.subs = c.subs[:last]
	return last == 0
}

// leave removes a subscription from its chunk, and an empty chunk from the topic.
func (t *topic) leave(sub *Subscription) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if c := sub.chunk; c.remove(sub) {
		t.chunks = slices.DeleteFunc(t.chunks, func(other *chunk) bool { return other == c })
		if len(t.chunks) == 0 {
			t.chunks = nil
			t.forgetRecentLocked()
		}
	}
}

// kick has the topic's subscribers served with what is new.
func (t *topic) kick() {
	var few [8]*chunk // most topics have no more
	t.mu.Lock()
	chunks := append(few[:0], t.chunks...)
	t.mu.Unlock()
	serially := len(chunks) == 1 && chunks[0].size() <= serialSubscribers
	for _, c := range chunks {
		t.part.hub.workers.kick(c, serially)
	}
}

// pass is what one chunk is served with: the entries since its mark, and the frames made of them.
type pass struct {
	log     *channel.Log
	life    uint32
	entries []*channel.Entry
	whole   bool // the entries are all that came since the mark
	name    string
	epoch   string

	formats []format
}

// format holds the frames of a pass in one wire format, by entry and kind, each made when it is first needed.
type format struct {
	encoder Encoder
	frames  []entryFrames
}

type entryFrames struct{ put, gone []byte }

// begin takes the entries since the chunk's mark and moves the mark.
func (c *chunk) begin(s *scratch) pass {
	t := c.topic
	t.mu.Lock()
	defer t.mu.Unlock()
	p := pass{name: t.name, entries: s.entries[:0], formats: s.formats[:0]}
	if t.loading != nil || t.ended.Load() != nil {
		t.forgetRecentLocked()
		return p // nothing can be served straight; the sessions find out why
	}
	p.log, p.life, p.epoch = t.log, t.life.Load(), t.log.Epoch()
	if len(t.recent) > 0 {
		p.whole = t.recent[0].After <= c.mark
	} else {
		p.whole = c.mark >= t.newest.Load()
	}
	for _, e := range t.recent {
		if e.Offset > c.mark {
			p.entries = append(p.entries, e)
		}
	}
	c.mark = t.log.Head()
	for _, other := range t.chunks {
		if other.mark < t.newest.Load() {
			return p
		}
	}
	t.forgetRecentLocked()
	return p
}

// frame returns the shared frame of a delivery, which is of the pass's entry i.
func (p *pass) frame(enc Encoder, i int, d *channel.Delivery) []byte {
	made := p.format(enc)
	b := &made.frames[i].put
	if d.Kind == channel.Gone {
		b = &made.frames[i].gone
	}
	if *b == nil {
		*b = enc.AppendPublication(nil, p.name, d)
	}
	return *b
}

// format returns the frames of a wire format, of which there are few.
func (p *pass) format(enc Encoder) *format {
	for i := range p.formats {
		if p.formats[i].encoder == enc {
			return &p.formats[i]
		}
	}
	n := len(p.formats)
	p.formats = slices.Grow(p.formats, 1)[:n+1] // where the worker's memory of an earlier pass may be
	f := &p.formats[n]
	f.encoder = enc
	f.frames = slices.Grow(f.frames[:0], len(p.entries))[:len(p.entries)]
	return f
}

// serve is one pass over a chunk.
func (c *chunk) serve(s *scratch) {
	p := c.begin(s)
	s.subs = c.members(s.subs[:0])
	for _, sub := range s.subs {
		sub.session.offer(sub, &p, s)
	}
	clear(s.subs)
	clear(p.entries)
	for i := range p.formats {
		p.formats[i].encoder = nil
		clear(p.formats[i].frames)
	}
	s.entries, s.formats = p.entries, p.formats
}

// scratch is a worker's own memory, reused from pass to pass.
type scratch struct {
	entries    []*channel.Entry
	subs       []*Subscription
	formats    []format
	frames     []Frame
	deliveries []channel.Delivery
}

var scratches = sync.Pool{New: func() any { return &scratch{} }}

func (s *scratch) release() {
	clear(s.frames[:cap(s.frames)])
	clear(s.deliveries[:cap(s.deliveries)])
	scratches.Put(s)
}

// workers serve chunks, and sessions that were left dirty. Each is in the queue at most once, which bounds it.
type workers struct {
	mu     sync.Mutex
	more   sync.Cond
	queue  []task
	closed bool
	wg     sync.WaitGroup
}

// task is one of the two.
type task struct {
	chunk   *chunk
	session *Session
}

func newWorkers(n int) *workers {
	w := &workers{}
	w.more.L = &w.mu
	for range n {
		w.wg.Go(w.run)
	}
	return w
}

// kick has a chunk served: by a worker, or with here set and nobody at it, by the caller before kick returns.
func (w *workers) kick(c *chunk, here bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	switch {
	case w.closed:
	case c.state == idle && here:
		s := scratches.Get().(*scratch)
		defer s.release()
		w.serveLocked(c, s)
	case c.state == idle:
		c.state = queued
		w.pushLocked(task{chunk: c})
	case c.state == serving:
		c.state = servingAgain
	}
}

// later has a worker go on with a session.
func (w *workers) later(s *Session) {
	if s.queued.Swap(true) {
		return
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	if !w.closed {
		w.pushLocked(task{session: s})
	}
}

func (w *workers) pushLocked(t task) {
	w.queue = append(w.queue, t)
	w.more.Signal()
}

func (w *workers) run() {
	s := scratches.Get().(*scratch)
	defer s.release()
	w.mu.Lock()
	defer w.mu.Unlock()
	for {
		for len(w.queue) == 0 && !w.closed {
			w.more.Wait()
		}
		if w.closed {
			return
		}
		t := w.queue[0]
		w.queue[0] = task{}
		w.queue = w.queue[1:]
		if t.chunk != nil {
			w.serveLocked(t.chunk, s)
			continue
		}
		w.mu.Unlock()
		t.session.goOn()
		w.mu.Lock()
	}
}

// serveLocked serves a chunk that nobody else is at, without the lock meanwhile.
func (w *workers) serveLocked(c *chunk, s *scratch) {
	c.state = serving
	w.mu.Unlock()
	c.serve(s)
	w.mu.Lock()
	if c.state == servingAgain && !w.closed {
		c.state = queued
		w.pushLocked(task{chunk: c})
		return
	}
	c.state = idle
}

func (w *workers) close() {
	w.mu.Lock()
	w.closed = true
	w.more.Broadcast()
	w.mu.Unlock()
	w.wg.Wait()
}
