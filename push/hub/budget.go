package hub

import (
	"cmp"
	"slices"

	"github.com/sluice-push/sluice/push"
)

// budget keeps the logs of a hub within Options.LogBytes. It belongs to the janitor.
//
// Channels that nobody uses go first, and altogether: they are loaded again when somebody asks. Then streams forget their entries. A log
// that lost its entries is a log like any other: subscribers that are up to date do not notice, those that lag and clients that were
// away start afresh. So the streams at rest come before the busy ones: there is hardly anybody to notice.
type budget struct {
	over bool // the last look found too much: that was logged
}

// cold is a channel with something to give up.
type cold struct {
	topic *topic
	tier  int   // 0: nobody uses it; 1
	since int64 // when it was last used, or the newest entry published, in Unix milliseconds
}

// enforce gives up what is coldest until the rest fits.
func (b *budget) enforce(h *Hub) {
	most := h.options.LogBytes
	topics, total := h.measure()
	if most < 0 || total <= most {
		b.over = false
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
	if !b.over {
		h.options.Logger.Warn("the channels hold too much: those at rest forget their entries",
			"bytes", total, "bytes_allowed", most, "bytes_left", rest, "channels_shrunk", shrunk)
	}
	b.over = true
}

// measure returns the channels and what their entries count for, and notes the latter for Stats.
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
		n.counts.logBytes.Store(bytes)
		total += bytes
	}
	return topics, total
}

// coldest returns the channels that can give up something, the coldest first.
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

// shrink forgets all entries of a stream and returns what they counted for.
func (t *topic) shrink() int64 {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.loading != nil {
		return 0
	}
	before := t.log.Bytes()
	t.log.Shrink(0)
	return before - t.log.Bytes()
}
