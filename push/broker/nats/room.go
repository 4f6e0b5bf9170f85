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

// room keeps publications from using all the space of the embedded server. If all is used, the server refuses everything, removals too, and a
// full table could never be made smaller. So the server gets more space than the publications that add something.
type room struct {
	limit atomic.Int64 // 0: no limit is known; changes when the server is started again
	used  atomic.Int64 // upper bound of the used bytes: the server's last answer, and everything published since

	asking sync.Mutex
	asked  time.Time // guarded by asking
}

const (
	askAgain     = 100 * time.Millisecond // least time between two questions to the server
	perMessage   = 64                     // bytes that the server uses for a message besides its own
	leastReserve = 1 << 20                // for removals
)

// limits returns how many of the given bytes publications may use, and the higher limit of the server.
func limits(bytes int64) (soft, hard int64) { return bytes, bytes + max(bytes/16, leastReserve) }

// enterRoom counts a message as used space. If there is no room, it returns an error, except for removals and clears.
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
		return fmt.Errorf("%w: data folder %s has reached its limit of %d bytes: %s", broker.ErrBusy, b.opts.Dir, limit, space)
	}
	r.used.Add(bytes)
	return nil
}

// measure asks the server how much space is used, unless it did so within askAgain.
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
		return fmt.Errorf("%w: %s did not report its free space: %w", broker.ErrBusy, b.where(), err)
	}
	r.asked = time.Now()
	r.used.Add(int64(info.Store) - before) // publications made meanwhile may count twice, until the next measure
	return nil
}
