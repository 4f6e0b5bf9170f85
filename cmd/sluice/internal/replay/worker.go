package replay

import (
	"context"
	"crypto/sha256"
	"errors"
	"hash"
	"hash/fnv"
	"math/rand/v2"
	"strconv"
	"time"
)

// The bound of the random pause between two attempts grows from minPause to maxPause. Each pause is between 0 and its bound.
const (
	minPause = 10 * time.Millisecond
	maxPause = time.Second
)

// channel is the state of one channel. While the worker's goroutine runs, it owns the fields after the first three.
type channel struct {
	name             string
	worker           *worker
	alreadyPublished int64 // number of the last frame that was accepted in an earlier run; earlier frames were accepted too
	published        int64
	bytes            int64
	hash             hash.Hash
}

func newChannel(name string, workers []*worker, checkpoint *Checkpoint) *channel {
	h := fnv.New32a()
	_, _ = h.Write([]byte(name)) // an error is impossible
	c := &channel{name: name, worker: workers[h.Sum32()%uint32(len(workers))], hash: sha256.New()}
	if checkpoint != nil {
		c.alreadyPublished = checkpoint.accepted(name)
	}
	return c
}

// route is the channel and key for the frames of one symbol in one file.
type route struct {
	channel *channel
	key     string
}

// item is a frame in the queue of a worker.
type item struct {
	to    *route
	data  []byte
	frame int64 // its number in the merged order
	file  string
	line  int
}

// worker publishes the frames of some channels, one after the other.
type worker struct {
	run   *run
	queue chan item
}

// work publishes until the queue is closed and empty. After the end of ctx or a failed publication, it drains the queue without publishing, so
// that the reader never blocks on it.
func (l *worker) work(ctx context.Context) {
	for it := range l.queue {
		if ctx.Err() != nil {
			l.run.fail(stopped(ctx))
			continue
		}
		if err := l.publish(ctx, it); err != nil {
			l.run.fail(err)
		}
	}
}

var newline = []byte{'\n'}

func (l *worker) publish(ctx context.Context, it item) error {
	c := it.to.channel
	p := Publication{Channel: c.name, Key: it.to.key, Data: it.data, ID: l.run.id + "-" + strconv.FormatInt(it.frame, 10)}
	for bound := minPause; ; bound = min(2*bound, maxPause) {
		err := l.run.opts.Publisher.Publish(ctx, p)
		if err == nil {
			break
		}
		if ctx.Err() != nil {
			return stopped(ctx)
		}
		if !temporary(err) {
			return &Error{File: it.file, Line: it.line, Channel: c.name, Err: err}
		}
		l.run.retryError.Store(&err)
		l.run.retried.Add(1)
		if err := pause(ctx, rand.N(bound)); err != nil {
			return err
		}
	}
	c.published++
	c.bytes += int64(len(it.data))
	_, _ = c.hash.Write(it.data) // a hash never returns an error
	_, _ = c.hash.Write(newline)
	l.run.published.Add(1)
	l.run.bytes.Add(int64(len(it.data)))
	if checkpoint := l.run.opts.Checkpoint; checkpoint != nil {
		return checkpoint.accept(c.name, it.frame)
	}
	return nil
}

// temporary reports whether a failed publication may be tried again; see Publisher.
func temporary(err error) bool {
	var t interface{ Temporary() bool }
	return errors.As(err, &t) && t.Temporary()
}

// pause waits for d or the end of ctx.
func pause(ctx context.Context, d time.Duration) error {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return nil
	case <-ctx.Done():
		return stopped(ctx)
	}
}
