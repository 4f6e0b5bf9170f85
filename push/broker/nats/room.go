package nats

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/sluice-push/sluice/push"
	"github.com/sluice-push/sluice/push/broker"
)

// room keeps publications from using all the space that the embedded server has. The server refuses everything when that is used up, a
// removal as well, so that a full table could never be made smaller; therefore it gets some more than is given to publications that
// add something.
type room struct {
	limit atomic.Int64 // 0: no limit is known; changed when the server is started anew
	used  atomic.Int64 // at most so much is used: what the server said last, and all that was published since

	asking sync.Mutex
	asked  time.Time // guarded by asking
}

const (
	askAgain     = 100 * time.Millisecond // the server how much is used, at the earliest
	perMessage   = 64                     // bytes that the server takes besides those of the message
	leastReserve = 1 << 20                // for removals
)

// limits returns what publications may use of so many bytes, and what the server is given.
func limits(bytes int64) (soft, hard int64) { return bytes, bytes + max(bytes/16, leastReserve) }

// enterRoom accounts for a message, or refuses it for lack of room. Removals always enter.
func (b *Broker) enterRoom(ctx context.Context, op push.Op, size int) error {
	if b.host == nil || b.host.room.limit.Load() <= 0 {
		return nil
	}
	r := &b.host.room
	bytes := int64(size) + perMessage
	if op != push.Set || r.used.Load()+bytes <= r.limit.Load() {
		r.used.Add(bytes)
		return nil
	}
	if err := b.measure(ctx); err != nil {
		return err
	}
	if limit := r.limit.Load(); r.used.Load()+bytes > limit {
		b.full.Store(true)
		return fmt.Errorf("%w: the data folder %s has come to %d bytes: %s", broker.ErrBusy, b.opts.Dir, limit, space)
	}
	r.used.Add(bytes)
	return nil
}

// measure asks the server how much is used, unless that was just done.
func (b *Broker) measure(ctx context.Context) error {
	r := &b.host.room
	r.asking.Lock()
	defer r.asking.Unlock()
	if time.Since(r.asked) < askAgain {
		return nil
	}
	ctx, cancel := b.timed(ctx)
	defer cancel()
	before := r.used.Load()
	info, err := b.js.AccountInfo(ctx)
	if err != nil {
		return fmt.Errorf("%w: %s does not say how much room there is: %w", broker.ErrBusy, b.where(), err)
	}
	r.asked = time.Now()
	r.used.Add(int64(info.Store) - before) // what was published meanwhile may be counted twice, until the next time
	return nil
}
