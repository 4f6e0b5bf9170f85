package delivery

import (
	"sync"
	"sync/atomic"
)

// PubStats holds the number of deliveries of each publication, and the latency of the slowest. All methods may be called concurrently.
type PubStats struct {
	chunks atomic.Pointer[[]*pubStatChunk] // a list is never changed; At stores a longer copy
	mu     sync.Mutex                      // held while At stores a longer list
}

const pubStatChunkSize = 4096

type pubStatChunk [pubStatChunkSize]PubStat

// PubStat holds the figures of one publication.
type PubStat struct {
	count  atomic.Uint32
	micros atomic.Uint32 // latency of the slowest delivery plus 1, so that 0 means none
}

// At returns the PubStat of publication k. The first call for a chunk makes it.
func (s *PubStats) At(k uint32) *PubStat {
	i := int(k / pubStatChunkSize)
	if chunks := s.chunks.Load(); chunks != nil && i < len(*chunks) {
		return &(*chunks)[i][k%pubStatChunkSize]
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	var list []*pubStatChunk
	if chunks := s.chunks.Load(); chunks != nil {
		list = append(list, *chunks...)
	}
	for len(list) <= i {
		list = append(list, new(pubStatChunk))
	}
	s.chunks.Store(&list)
	return &list[i][k%pubStatChunkSize]
}

// end returns the number of publications that the chunks have room for.
func (s *PubStats) end() uint32 {
	if chunks := s.chunks.Load(); chunks != nil {
		return uint32(len(*chunks)) * pubStatChunkSize //nolint:gosec // k has 32 bits
	}
	return 0
}

// Count returns how many deliveries there have been.
func (s *PubStat) Count() uint32 { return s.count.Load() }

// AddDelivery records a delivery with a latency in microseconds, and returns how many deliveries there have been.
func (s *PubStat) AddDelivery(micros int64) uint32 {
	took := uint32(min(max(micros, 0)+1, 1<<32-1)) //nolint:gosec // clamped to 32 bits
	for {
		old := s.micros.Load()
		if took <= old || s.micros.CompareAndSwap(old, took) {
			return s.count.Add(1)
		}
	}
}

// Slowest returns the latency of the slowest delivery in microseconds, plus 1, of each publication from number from on. 0 means no delivery.
func (s *PubStats) Slowest(from uint32) []uint32 {
	var out []uint32
	for k := from; k < s.end(); k++ {
		out = append(out, s.At(k).micros.Load())
	}
	for len(out) > 0 && out[len(out)-1] == 0 {
		out = out[:len(out)-1]
	}
	return out
}
