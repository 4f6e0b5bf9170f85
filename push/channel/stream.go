package channel

import (
	"slices"

	"github.com/sluice-push/sluice/push"
)

// stream holds the entries of a stream channel in offset order. It is a slice whose front is freed in steps, so that an eviction is cheap and
// the slice has at most about twice the entries that are kept.
type stream struct {
	entries []*Entry // entries[front:] are kept
	front   int
	bytes   int64
	gap     uint64 // ordinals up to here do not count entries, because there was a gap
}

func (s *stream) len() int { return len(s.entries) - s.front }

func (s *stream) at(i int) *Entry { return s.entries[s.front+i] }

func (s *stream) oldest() *Entry {
	if s.len() == 0 {
		return nil
	}
	return s.entries[s.front]
}

func (s *stream) newest() *Entry {
	if s.len() == 0 {
		return nil
	}
	return s.entries[len(s.entries)-1]
}

func (s *stream) push(e *Entry) {
	s.entries = append(s.entries, e)
	s.bytes += int64(e.Size())
}

func (s *stream) pop() {
	s.bytes -= int64(s.entries[s.front].Size())
	s.entries[s.front] = nil
	s.front++
	if s.front > len(s.entries)/2 {
		kept := s.entries[s.front:]
		if cap(s.entries) > 64 && len(kept) < cap(s.entries)/4 {
			s.entries = append(make([]*Entry, 0, 2*len(kept)), kept...)
		} else {
			n := copy(s.entries, kept)
			clear(s.entries[n:])
			s.entries = s.entries[:n]
		}
		s.front = 0
	}
}

// above returns the index of the first entry whose offset is greater than offset.
func (s *stream) above(offset uint64) int {
	if newest := s.newest(); newest == nil || newest.Offset <= offset {
		return s.len()
	}
	i, _ := slices.BinarySearchFunc(s.entries[s.front:], offset+1, func(e *Entry, o uint64) int {
		switch {
		case e.Offset < o:
			return -1
		case e.Offset > o:
			return 1
		}
		return 0
	})
	return i
}

// Beyond returns the offset up to which a stream keeps entries beyond the history h, by count and bytes. It is 0 if there are none, and in the
// other modes. It ignores the age in h.
func (l *Log) Beyond(h push.History) uint64 {
	if l.stream == nil {
		return 0
	}
	s, offset, bytes := l.stream, uint64(0), l.stream.bytes
	for i := range s.len() {
		if (h.Size <= 0 || s.len()-i <= h.Size) && (h.Bytes <= 0 || bytes <= h.Bytes) {
			break
		}
		offset, bytes = s.at(i).Offset, bytes-int64(s.at(i).Size())
	}
	return offset
}
