package load

import (
	"sync"
	"sync/atomic"
)

// tracks holds for each publication how many clients have it and how long the last of them waited. All methods may be called concurrently.
type tracks struct {
	chunks atomic.Pointer[[]*trackChunk]
	mu     sync.Mutex // held while chunks grows
}

const trackChunkSize = 4096

type trackChunk [trackChunkSize]track

// track is of one publication.
type track struct {
	count  atomic.Uint32
	micros atomic.Uint32 // of the slowest delivery, and one more, so that 0 is none
}

// at returns a publication's track, made when it is first asked for.
func (t *tracks) at(k uint32) *track {
	i := int(k / trackChunkSize)
	if chunks := t.chunks.Load(); chunks != nil && i < len(*chunks) {
		return &(*chunks)[i][k%trackChunkSize]
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	var list []*trackChunk
	if chunks := t.chunks.Load(); chunks != nil {
		list = append(list, *chunks...)
	}
	for len(list) <= i {
		list = append(list, new(trackChunk))
	}
	t.chunks.Store(&list)
	return &list[i][k%trackChunkSize]
}

// end is above every publication of which there is a track.
func (t *tracks) end() uint32 {
	if chunks := t.chunks.Load(); chunks != nil {
		return uint32(len(*chunks)) * trackChunkSize //nolint:gosec // k has 32 bits
	}
	return 0
}

// note enters a delivery that took so many microseconds, and returns how many there have been.
func (t *track) note(micros int64) uint32 {
	took := uint32(min(max(micros, 0)+1, 1<<32-1)) //nolint:gosec // it is cut
	for {
		old := t.micros.Load()
		if took <= old || t.micros.CompareAndSwap(old, took) {
			return t.count.Add(1)
		}
	}
}

// slowest returns how many microseconds the slowest delivery of each publication from the first on took, and one more; 0 stands for none.
func (t *tracks) slowest(from uint32) []uint32 {
	var out []uint32
	for k := from; k < t.end(); k++ {
		out = append(out, t.at(k).micros.Load())
	}
	for len(out) > 0 && out[len(out)-1] == 0 {
		out = out[:len(out)-1]
	}
	return out
}
