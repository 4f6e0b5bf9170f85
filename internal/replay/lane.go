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

// The pauses between two tries grow from the first to the second bound; each is drawn between nothing and its bound.
const (
	minPause = 10 * time.Millisecond
	maxPause = time.Second
)

// channel is what one channel has got. All but the first three belong to the lane's goroutine while it runs.
type channel struct {
	name      string
	lane      *lane
	passed    int64 // frames up to this one were accepted in an earlier run
	published int64
	bytes     int64
	hash      hash.Hash
}

func newChannel(name string, lanes []*lane, mark *Mark) *channel {
	h := fnv.New32a()
	_, _ = h.Write([]byte(name)) // never fails
	c := &channel{name: name, lane: lanes[h.Sum32()%uint32(len(lanes))], hash: sha256.New()}
	if mark != nil {
		c.passed = mark.accepted(name)
	}
	return c
}

// route is where the frames of one symbol in one file go.
type route struct {
	channel *channel
	key     string
}

// item is a frame in a lane.
type item struct {
	to    *route
	data  []byte
	frame int64 // its number in the merged order
	file  string
	line  int
}

// lane publishes the frames of some channels, one after the other.
type lane struct {
	run   *run
	queue chan item
}

// work publishes until the queue is closed and empty, or until ctx ends or a publication fails; then it drops what is left.
func (l *lane) work(ctx context.Context) {
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

func (l *lane) publish(ctx context.Context, it item) error {
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
		l.run.trouble.Store(&err)
		l.run.retried.Add(1)
		if err := pause(ctx, rand.N(bound)); err != nil {
			return err
		}
	}
	c.published++
	c.bytes += int64(len(it.data))
	_, _ = c.hash.Write(it.data) // a hash never fails
	_, _ = c.hash.Write(newline)
	l.run.published.Add(1)
	l.run.bytes.Add(int64(len(it.data)))
	if mark := l.run.opts.Mark; mark != nil {
		return mark.accept(c.name, it.frame)
	}
	return nil
}

// temporary reports whether a publication may come again; see Publisher.
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
