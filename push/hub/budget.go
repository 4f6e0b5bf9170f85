package hub

import (
	"cmp"
	"slices"

	"github.com/sluice-push/sluice/push"
)

// budget keeps the logs of a hub within Options.LogBytes. It belongs to the janitor's goroutine.
//
// Unused channels are dropped first, whole. The next request loads them again. Then streams in use forget their entries, the streams whose
// newest entry is oldest first. Up-to-date subscribers do not notice that. Subscribers that lag, and clients that resume, lose entries or
// start fresh; a stream at rest has hardly any of either.
type budget struct {
	exceeded bool // the last call found too much, and logged it
}

// cold is a channel that can give up memory.
type cold struct {
	topic *topic
	tier  int   // 0: unused, is dropped; 1: a stream in use, forgets its entries
	since int64 // when the channel was last used, or its newest entry published, in Unix milliseconds
}

// enforce drops or shrinks the coldest channels until the rest fits.
func (b *budget) enforce(h *Hub) {
	most := h.options.LogBytes
	topics, total := h.measure()
	if most < 0 || total <= most {
		b.exceeded = false
		return
	}
	rest, shrunk := total, uint64(0)
	for _, c := range coldest(topics) {
		if rest <= most {
			break
		}
		if held := c.topic.bytes(); c.tier == 0 && c.topic.part.drop(c.topic) {
			rest -= held
		} else if freed := c.topic.shrink(); freed > 0 {
			rest -= freed
			shrunk++
		}
	}
	h.stats.shrunk.Add(shrunk)
	_, _ = h.measure()
	if !b.exceeded {
		h.options.Logger.Warn("channel logs exceed the memory limit, idle channels trimmed",
			"bytes", total, "limit", most, "bytes_after", rest, "channels_trimmed", shrunk)
	}
	b.exceeded = true
}

// measure returns the channels and the size of their logs, and stores the sizes for Stats.
func (h *Hub) measure() (topics []*topic, total int64) {
	for _, n := range h.namespaces {
		if n.Name == probeNamespace {
			continue
		}
		bytes := int64(0)
		for _, p := range n.partitions {
			for _, t := range p.list() {
				topics = append(topics, t)
				bytes += t.bytes()
			}
		}
		n.counts.LogBytes.Store(bytes)
		total += bytes
	}
	return topics, total
}

// coldest returns the channels that can give up memory, the coldest first.
func coldest(topics []*topic) []cold {
	var out []cold
	for _, t := range topics {
		if t.holds.Load() == 0 {
			out = append(out, cold{topic: t, since: t.used.Load()})
			continue
		}
		t.mu.Lock()
		if t.loading == nil && t.log.Mode() == push.Stream {
			if newest := t.log.Before(push.MaxOffset+1, 1); len(newest) > 0 {
				out = append(out, cold{t, 1, newest[0].Time})
			}
		}
		t.mu.Unlock()
	}
	slices.SortFunc(out, func(a, b cold) int { return cmp.Or(cmp.Compare(a.tier, b.tier), cmp.Compare(a.since, b.since)) })
	return out
}

// shrunk is the newest entry that a stream has forgotten because of the budget.
type shrunk struct {
	offset uint64
	time   int64 // when it was published, in Unix milliseconds
}

// isShortLocked reports whether the broker may keep entries that the log has forgotten because of the budget. oldest is oldestLocked, and now in Unix
// milliseconds.
func (t *topic) isShortLocked(oldest uint64, now int64) bool {
	if t.shrunk == nil {
		return false
	}
	if age := t.part.namespace.History.Age.Milliseconds(); oldest > t.shrunk.offset || age > 0 && t.shrunk.time < now-age {
		t.shrunk = nil // the history has what came later, or begins later
	}
	return t.shrunk != nil
}

// shrink forgets all entries of a stream, and returns the freed size.
func (t *topic) shrink() int64 {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.loading != nil {
		return 0
	}
	before := t.log.Bytes()
	if newest := t.log.Before(push.MaxOffset+1, 1); len(newest) > 0 && t.log.Shrink(0) > 0 {
		t.shrunk = &shrunk{newest[0].Offset, newest[0].Time}
	}
	return before - t.log.Bytes()
}
