package count

import "sync"

// Words counts occurrences by what is said of them, why something went wrong for example. Different words beyond the first fifty are counted
// together, as [OtherWords], and of long ones the first [MostWords] bytes count, so that what others say cannot make it grow. The zero
// Words is ready to use. All methods may be called concurrently.
type Words struct {
	mu     sync.Mutex
	counts map[string]int
}

const (
	// MostWords is how many bytes of what is said count.
	MostWords = 200
	// OtherWords stands for everything that was said when there was enough already.
	OtherWords = "other reasons"

	differentWords = 50
)

// Add counts n occurrences.
func (w *Words) Add(said string, n int) {
	if len(said) > MostWords {
		said = said[:MostWords]
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.counts == nil {
		w.counts = map[string]int{}
	}
	if _, known := w.counts[said]; !known && len(w.counts) >= differentWords {
		said = OtherWords
	}
	w.counts[said] += n
}

// All returns the counts, nil when there are none. They belong to the caller.
func (w *Words) All() map[string]int {
	w.mu.Lock()
	defer w.mu.Unlock()
	var out map[string]int
	for said, n := range w.counts {
		if out == nil {
			out = map[string]int{}
		}
		out[said] = n
	}
	return out
}
