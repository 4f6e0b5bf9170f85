package pushtest

import (
	"context"
	"slices"
	"sync"

	"github.com/sluice-push/sluice/push"
	"github.com/sluice-push/sluice/push/broker"
)

// faultyFollower wraps a follower and applies the faults of its partition.
type faultyFollower struct {
	faulty   *Faulty
	part     *faultyPartition
	follower broker.Follower
	detached chan struct{} // closed when the follower must not be called any more

	evict int // guarded by Faulty.mu: how many more messages to replace by a gap

	turn sync.Mutex // held while the broker, or Faulty.Reset, calls the follower
	last uint64     // guarded by turn: the offset up to which it has got everything
}

// faultyAttachment is the attachment of a faultyFollower.
type faultyAttachment struct {
	broker.Attachment
	follower *faultyFollower
	start    push.Position
	once     sync.Once
}

// Attach implements broker.Broker.
func (f *Faulty) Attach(ctx context.Context, p broker.Partition, follower broker.Follower) (broker.Attachment, error) {
	if err := f.enter(ctx, OpAttach); err != nil {
		return nil, err
	}
	f.mu.Lock()
	part := f.partLocked(p)
	f.mu.Unlock()
	ff := &faultyFollower{faulty: f, part: part, follower: follower, detached: make(chan struct{})}
	ff.turn.Lock() // nothing is delivered before the start is known
	defer ff.turn.Unlock()
	a, err := f.Broker.Attach(ctx, p, ff)
	if err != nil {
		return nil, err
	}
	start := a.Start()
	ff.last = start.Offset
	start.Epoch = f.epoch(p, start.Epoch)
	f.mu.Lock()
	part.followers = append(part.followers, ff)
	f.mu.Unlock()
	return &faultyAttachment{Attachment: a, follower: ff, start: start}, nil
}

// Start implements broker.Attachment.
func (a *faultyAttachment) Start() push.Position { return a.start }

// Detach implements broker.Attachment.
func (a *faultyAttachment) Detach() {
	a.once.Do(func() {
		ff := a.follower
		ff.faulty.mu.Lock()
		ff.part.followers = slices.DeleteFunc(ff.part.followers, func(other *faultyFollower) bool { return other == ff })
		ff.faulty.mu.Unlock()
		close(ff.detached)
	})
	a.Attachment.Detach()
	a.follower.turn.Lock() // a reset may be running
	defer a.follower.turn.Unlock()
}

// Deliver implements broker.Follower.
func (ff *faultyFollower) Deliver(batch []broker.Message) {
	ff.faulty.mu.Lock()
	held := ff.part.held
	ff.faulty.mu.Unlock()
	if held != nil {
		select {
		case <-held:
		case <-ff.detached:
			return
		}
	}
	ff.turn.Lock()
	defer ff.turn.Unlock()
	ff.faulty.mu.Lock()
	n := min(ff.evict, len(batch))
	ff.evict -= n
	ff.faulty.mu.Unlock()
	ff.last = batch[len(batch)-1].Offset
	if n > 0 {
		ff.follower.Gap("", batch[n-1].Offset)
	}
	if n < len(batch) {
		ff.follower.Deliver(batch[n:])
	}
}

// Gap implements broker.Follower.
func (ff *faultyFollower) Gap(channel string, offset uint64) {
	ff.turn.Lock()
	defer ff.turn.Unlock()
	ff.last = max(ff.last, offset)
	ff.follower.Gap(channel, offset)
}

// Advance implements broker.Follower.
func (ff *faultyFollower) Advance(offset uint64) {
	ff.turn.Lock()
	defer ff.turn.Unlock()
	ff.last = offset
	ff.follower.Advance(offset)
}

// Reset implements broker.Follower.
func (ff *faultyFollower) Reset(start push.Position) {
	ff.turn.Lock()
	defer ff.turn.Unlock()
	ff.last = start.Offset
	ff.follower.Reset(start)
}

// reset resets the follower to another epoch.
func (ff *faultyFollower) reset(epoch string) {
	ff.turn.Lock()
	defer ff.turn.Unlock()
	select {
	case <-ff.detached:
	default:
		ff.follower.Reset(push.Position{Epoch: epoch, Offset: ff.last})
	}
}
