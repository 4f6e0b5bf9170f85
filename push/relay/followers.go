package relay

import (
	"slices"
	"sync"
	"sync/atomic"

	"github.com/sluice-push/sluice/push"
	"github.com/sluice-push/sluice/push/broker"
)

// Followers holds the followers of a partition. The zero Followers has none. The partition's lock guards it: each method is called under the same lock
// under which the partition's position changes. So a follower begins at a position, and no publication is lost or comes twice.
type Followers struct {
	list List
	gaps []gap // of single channels, above the partition's position
}

// gap is a gap of one channel.
type gap struct {
	channel string
	offset  uint64
}

// List is a list of followers, which never changes. Its methods are called without the partition's lock, by one goroutine at a time, when the logs
// have what the followers get. A follower that has ended is left out. They return when all followers have returned.
type List []*Follower

// Add adds a follower. It gets everything above the partition's position.
func (s *Followers) Add(f *Follower) {
	f.missed = slices.Clone(s.gaps)
	s.list = append(slices.Clip(s.list), f)
}

// Remove removes a follower.
func (s *Followers) Remove(f *Follower) {
	s.list = slices.DeleteFunc(slices.Clone(s.list), func(other *Follower) bool { return other == f })
}

// At notes that the partition has reached an offset, and returns the followers that have to be told.
func (s *Followers) At(offset uint64) List {
	if len(s.gaps) > 0 {
		s.gaps = slices.DeleteFunc(s.gaps, func(g gap) bool { return g.offset <= offset })
	}
	return s.list
}

// Gap notes a gap of a channel, in a partition that has reached the offset position, and returns the followers that have to be told. A follower that is
// added before the partition has reached the gap is told of it too.
func (s *Followers) Gap(channel string, offset, position uint64) List {
	if offset > position {
		s.gaps = append(s.gaps, gap{channel, offset})
	}
	return s.list
}

// Reset notes that the partition has a new epoch, and returns the followers that have to be told.
func (s *Followers) Reset() List {
	s.gaps = nil
	return s.list
}

// IsCalled reports whether a method of a follower is running. Its caller may be that method: it must not wait for the partition then.
func (s *Followers) IsCalled() bool {
	return slices.ContainsFunc(s.list, func(f *Follower) bool { return f.isCalled.Load() })
}

// Each calls the function for each follower that has not ended. The function calls one method of the follower.
func (l List) Each(call func(broker.Follower)) {
	for _, f := range l {
		f.call(call)
	}
}

// Deliver delivers messages.
func (l List) Deliver(batch []broker.Message) {
	if len(l) > 0 {
		l.Each(func(f broker.Follower) { f.Deliver(batch) })
	}
}

// Follower is a follower of a partition.
type Follower struct {
	to       broker.Follower
	missed   []gap       // gaps that the follower is told of when it has been added
	isCalled atomic.Bool // a method of to is running

	mu      sync.Mutex // held while a method of to runs; guards isEnded
	isEnded bool
}

func (f *Follower) call(method func(broker.Follower)) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if !f.isEnded {
		f.callLocked(method)
	}
}

func (f *Follower) callLocked(method func(broker.Follower)) {
	f.isCalled.Store(true)
	method(f.to)
	f.isCalled.Store(false)
}

// end stops calls of the follower's methods. It waits for a call that is running.
func (f *Follower) end() {
	f.mu.Lock()
	f.isEnded = true
	f.mu.Unlock()
}

// fromHead is a follower that is not told of anything up to an offset, in the epoch in which it begins.
type fromHead struct {
	broker.Follower
	offset uint64
}

// Deliver implements broker.Follower.
func (f *fromHead) Deliver(batch []broker.Message) {
	first := 0
	for first < len(batch) && batch[first].Offset <= f.offset {
		first++
	}
	if first < len(batch) {
		f.Follower.Deliver(batch[first:])
	}
}

// Gap implements broker.Follower.
func (f *fromHead) Gap(channel string, offset uint64) {
	if offset > f.offset {
		f.Follower.Gap(channel, offset)
	}
}

// Advance implements broker.Follower.
func (f *fromHead) Advance(offset uint64) {
	if offset > f.offset {
		f.Follower.Advance(offset)
	}
}

// Reset implements broker.Follower.
func (f *fromHead) Reset(start push.Position) {
	f.offset = 0
	f.Follower.Reset(start)
}
