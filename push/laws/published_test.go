package laws_test

import (
	"slices"
	"sync"

	"github.com/sluice-push/sluice/push"
)

// published records the acknowledged publications by channel and offset. A new epoch of a partition keeps its publications, so epochs make no
// difference here.
type published struct {
	mu       sync.Mutex
	channels map[string]map[uint64]push.Publication
	repeated map[version]bool // rows that were published again because it was unknown whether they were stored
}

func newPublished() *published {
	return &published{channels: map[string]map[uint64]push.Publication{}, repeated: map[version]bool{}}
}

// repeat records that a row is published again. If the server was restarted meanwhile and has a newer version of the row, it stores the row once
// more (see docs/broker.md). The row then comes twice.
func (w *published) repeat(v version) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.repeated[v] = true
}

func (w *published) isRepeated(v version) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.repeated[v]
}

func (w *published) add(name string, at push.Position, p push.Publication) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.channels[name] == nil {
		w.channels[name] = map[uint64]push.Publication{}
	}
	p.Offset = at.Offset
	w.channels[name][at.Offset] = p
}

// of returns the publications of a channel after offset from, up to offset to, in order.
func (w *published) of(name string, from, to uint64) []push.Publication {
	w.mu.Lock()
	defer w.mu.Unlock()
	var out []push.Publication
	for offset, p := range w.channels[name] {
		if offset > from && offset <= to {
			out = append(out, p)
		}
	}
	slices.SortFunc(out, func(a, b push.Publication) int { return int(a.Offset) - int(b.Offset) }) //nolint:gosec // small
	return out
}

// rows returns the rows that a table or a value must have.
func (w *published) rows(name string) map[string]row {
	out := map[string]row{}
	for _, p := range w.of(name, 0, push.MaxOffset) {
		switch p.Op {
		case push.Set:
			out[p.Key] = row{offset: p.Offset, data: string(p.Data), tags: p.Tags["t"]}
		case push.Remove:
			delete(out, p.Key)
		case push.Clear:
			clear(out)
		}
	}
	return out
}

// row is a row as a client has it.
type row struct {
	offset uint64 // of the publication
	data   string
	tags   string
	stale  bool // from before the client resumed, so no delta may use it as a base
}
