package laws_test

import (
	"slices"
	"sync"

	"github.com/sluice-push/sluice/push"
)

// truth is what was acknowledged, by channel and offset. A new life of a partition keeps what there is, so epochs make no difference here.
type truth struct {
	mu       sync.Mutex
	channels map[string]map[uint64]push.Publication
	repeated map[version]bool // rows that were published again because nobody knew whether they are stored
}

func newTruth() *truth {
	return &truth{channels: map[string]map[uint64]push.Publication{}, repeated: map[version]bool{}}
}

// repeat notes that a row is published again. A server that was restarted meanwhile, and has a newer version of the row, stores it once more
// (docs/broker.md says so): then it comes twice.
func (w *truth) repeat(v version) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.repeated[v] = true
}

func (w *truth) isRepeated(v version) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.repeated[v]
}

func (w *truth) add(name string, at push.Position, p push.Publication) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.channels[name] == nil {
		w.channels[name] = map[uint64]push.Publication{}
	}
	p.Offset = at.Offset
	w.channels[name][at.Offset] = p
}

// of returns what was published to a channel behind from, up to to, in order.
func (w *truth) of(name string, from, to uint64) []push.Publication {
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

// rows returns the rows that a table or a value has to have.
func (w *truth) rows(name string) map[string]row {
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
	offset uint64 // as it was published
	data   string
	tags   string
	stale  bool // from before the client came back: no difference may build on it
}
