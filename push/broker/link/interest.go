package link

import (
	"context"
	"slices"
	"sync"

	"github.com/sluice-push/sluice/push/link/wire"
)

// namesAtOnce is how many channels one call names.
const namesAtOnce = 1000

// interest is which channels a follower wants, and what the hub knows of that. One goroutine at a time brings the hub up to date. It exists only while
// there is something to tell.
type interest struct {
	ctx context.Context // done when the attachment ends

	mu      sync.Mutex               // guards the following
	counts  map[string]int           // how often a channel is wanted; one that is not is absent
	told    map[string]struct{}      // the channels that the hub sends
	changed map[string]chan struct{} // the channels of which the hub has to be told something, and what is closed when it has been told
	failed  map[string]error         // the channels that the hub has refused, until the next attempt
	more    func()                   // tells the hub of changes; nil while there is no stream
	telling sync.WaitGroup
	busy    bool // a goroutine tells the hub
}

func newInterest(ctx context.Context) *interest {
	return &interest{
		ctx: ctx, counts: map[string]int{}, told: map[string]struct{}{}, changed: map[string]chan struct{}{}, failed: map[string]error{},
	}
}

// want counts a channel as wanted once more, and returns when the hub sends it.
func (i *interest) want(ctx context.Context, channel string) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	i.mu.Lock()
	i.counts[channel]++
	for {
		if _, ok := i.told[channel]; ok {
			i.mu.Unlock()
			return nil
		}
		told := i.changeLocked(channel)
		i.mu.Unlock()
		var err error
		select {
		case <-told:
		case <-ctx.Done():
			err = ctx.Err()
		case <-i.ctx.Done():
			err = i.ctx.Err()
		}
		i.mu.Lock()
		if err == nil {
			err = i.failed[channel]
		}
		if err != nil {
			i.unwantLocked(channel)
			i.mu.Unlock()
			return err
		}
	}
}

// unwant counts a channel as wanted once less.
func (i *interest) unwant(channel string) {
	i.mu.Lock()
	defer i.mu.Unlock()
	i.unwantLocked(channel)
}

func (i *interest) unwantLocked(channel string) {
	if i.counts[channel]--; i.counts[channel] > 0 {
		return
	}
	delete(i.counts, channel)
	delete(i.failed, channel)
	if _, ok := i.told[channel]; ok {
		i.changeLocked(channel)
	}
}

// changeLocked notes that the hub has to be told of a channel, and returns what is closed when it has been.
func (i *interest) changeLocked(channel string) chan struct{} {
	told := i.changed[channel]
	if told == nil {
		told = make(chan struct{})
		i.changed[channel] = told
		delete(i.failed, channel)
	}
	if !i.busy && i.more != nil && i.ctx.Err() == nil {
		i.busy = true
		i.telling.Go(i.more)
	}
	return told
}

// wanted returns the channels that are wanted.
func (i *interest) wanted() []string {
	i.mu.Lock()
	defer i.mu.Unlock()
	out := make([]string, 0, len(i.counts))
	for channel := range i.counts {
		out = append(out, channel)
	}
	return out
}

// tell tells the hub of a new stream everything. It returns the offset above which the stream has what is wanted. From then on the hub is told of changes.
// If that fails, the stream ends, and the next one begins with everything.
func (i *interest) tell(ctx context.Context, s *stream) (uint64, error) {
	i.mu.Lock()
	for channel := range i.counts {
		if i.changed[channel] == nil {
			i.changed[channel] = make(chan struct{})
		}
	}
	i.busy = true
	i.mu.Unlock()
	more := func() {
		if _, err := i.update(ctx, s, nil); err != nil {
			s.stop()
		}
	}
	return i.update(ctx, s, more)
}

// resume has the hub go on with a stream.
func (i *interest) resume(ctx context.Context, c *conn, id string) error {
	_, err := c.do(ctx, wire.Interest, (&wire.InterestRequest{ID: id, Resume: true}).Append(nil))
	return err
}

// gone notes that there is no stream, and waits until nothing is told to it any more. What the hub knew is told to the next one.
func (i *interest) gone() {
	i.mu.Lock()
	i.more = nil
	i.mu.Unlock()
	i.telling.Wait()
	i.mu.Lock()
	clear(i.told)
	i.mu.Unlock()
}

// update tells the hub of changes until there are none; of a new stream, for which more is set, at least once. Then i.busy is not set any more, and more
// is called for further changes. If the hub refuses channels, their Want fails. Any other error is of the stream, and Want waits for the
// next one. A new stream fails with any error, because its follower may rely on the channels already.
func (i *interest) update(ctx context.Context, s *stream, more func()) (upTo uint64, err error) {
	i.mu.Lock()
	defer i.mu.Unlock()
	defer func() { i.busy = false }()
	for first := more != nil; ; first = false {
		in := i.changesLocked(s.id)
		if !first && len(in.Want)+len(in.Unwant) == 0 {
			if more != nil {
				i.more = more
			}
			return upTo, nil
		}
		i.mu.Unlock()
		var reply []byte
		if reply, err = s.conn.do(ctx, wire.Interest, in.Append(nil)); err == nil {
			upTo, err = wire.ParseOffset(reply)
		}
		i.mu.Lock()
		isRefused := err != nil && !isAway(err, true)
		if err == nil || isRefused {
			i.toldLocked(in, err)
		}
		if err != nil && (more != nil || !isRefused) {
			return 0, err
		}
	}
}

// changesLocked returns what the hub has to be told next.
func (i *interest) changesLocked(id string) *wire.InterestRequest {
	in := &wire.InterestRequest{ID: id}
	for channel, done := range i.changed {
		_, isTold := i.told[channel]
		switch isWanted := i.counts[channel] > 0; {
		case isWanted && !isTold:
			in.Want = append(in.Want, channel)
		case !isWanted && isTold:
			in.Unwant = append(in.Unwant, channel)
			delete(i.told, channel) // from now on the hub may not send it
		default:
			delete(i.changed, channel)
			close(done)
			continue
		}
		if len(in.Want)+len(in.Unwant) == namesAtOnce {
			break
		}
	}
	slices.Sort(in.Want)
	return in
}

// toldLocked notes that the hub knows what is wanted, or has refused it.
func (i *interest) toldLocked(in *wire.InterestRequest, err error) {
	for _, channel := range in.Want {
		if err == nil {
			i.told[channel] = struct{}{}
		} else {
			i.failed[channel] = err
		}
		if done := i.changed[channel]; done != nil {
			delete(i.changed, channel)
			close(done)
		}
	}
}
