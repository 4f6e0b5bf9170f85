// Package filestate tells whether files have changed, so that what was read from them is read again. Nothing watches the files: their owner asks when
// it needs what they contain.
package filestate

import (
	"io/fs"
	"os"
	"time"
)

// State identifies the content of a file, as far as the file system tells. The zero State is that of a file that cannot be found.
type State struct{ info fs.FileInfo }

// Of returns the state of a file now. Call it before the file is read: then a change in between is found later.
func Of(path string) State {
	info, err := os.Stat(path)
	if err != nil {
		return State{}
	}
	return State{info}
}

// Equal reports whether two states are of the same content.
func (s State) Equal(o State) bool {
	if s.info == nil || o.info == nil {
		return s.info == o.info
	}
	return os.SameFile(s.info, o.info) && s.info.ModTime().Equal(o.info.ModTime()) && s.info.Size() == o.info.Size()
}

// Watch says when some files have to be read again. It must not be used concurrently.
type Watch struct {
	paths  []string
	every  time.Duration
	looked time.Time
	seen   []State
}

// NewWatch returns a Watch of files that are about to be read. It looks at them once in a duration at most, and leaves out empty paths.
func NewWatch(every time.Duration, paths ...string) *Watch {
	w := &Watch{every: every, looked: time.Now()}
	for _, path := range paths {
		if path != "" {
			w.paths, w.seen = append(w.paths, path), append(w.seen, Of(path))
		}
	}
	return w
}

// Changed reports whether a file has changed since Changed last reported true, or since NewWatch. The caller then reads all of them.
func (w *Watch) Changed() bool {
	if len(w.paths) == 0 || time.Since(w.looked) < w.every {
		return false
	}
	w.looked = time.Now()
	changed := false
	for i, path := range w.paths {
		if state := Of(path); !state.Equal(w.seen[i]) {
			w.seen[i], changed = state, true
		}
	}
	return changed
}
