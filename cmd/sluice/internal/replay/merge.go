package replay

import (
	"container/heap"
	"errors"
	"io"
	"path/filepath"
	"strings"

	"github.com/sluice-push/sluice/cmd/sluice/internal/recording"
)

// source is one recording in the merge.
type source struct {
	reader *recording.Reader
	short  string // the name that {file} stands for
	index  int    // position in the list of files
	head   recording.Frame
	routes map[string]*route // by symbol
}

// merger merges the frames of several recordings by time. It is a heap with the source of the earliest frame on top.
type merger struct {
	all     []*source
	heap    sources
	started bool
}

// openAll opens all files. If one cannot be opened, it closes the others.
func openAll(files []string, opts *recording.Options) (*merger, error) {
	m := &merger{}
	for i, name := range files {
		r, err := recording.Open(name, opts)
		if err != nil {
			m.close()
			return nil, err
		}
		m.all = append(m.all, &source{reader: r, short: shortName(name), index: i, routes: map[string]*route{}})
	}
	return m, nil
}

// shortName returns the name that {file} stands for.
func shortName(path string) string { return strings.TrimSuffix(filepath.Base(path), ".gz") }

// next returns the source whose head is the next frame, or io.EOF. The head and its data stay valid until the next call.
func (m *merger) next() (*source, error) {
	if !m.started {
		m.started = true
		if err := m.start(); err != nil {
			return nil, err
		}
	} else if len(m.heap) > 0 {
		more, err := m.heap[0].advance()
		if err != nil {
			return nil, err
		}
		if more {
			heap.Fix(&m.heap, 0)
		} else {
			heap.Pop(&m.heap)
		}
	}
	if len(m.heap) == 0 {
		return nil, io.EOF
	}
	return m.heap[0], nil
}

// start reads the first frame of each source.
func (m *merger) start() error {
	for _, s := range m.all {
		more, err := s.advance()
		if err != nil {
			return err
		}
		if more {
			m.heap = append(m.heap, s)
		}
	}
	heap.Init(&m.heap)
	return nil
}

// progress returns how many bytes of the files have been read. If the size of a file is unknown, total is 0.
func (m *merger) progress() (read, total int64) {
	for _, s := range m.all {
		r, t := s.reader.Progress()
		if t == 0 {
			return 0, 0
		}
		read += r
		total += t
	}
	return read, total
}

func (m *merger) close() {
	for _, s := range m.all {
		_ = s.reader.Close() // an error of closing does not matter after reading
	}
}

// advance reads the next frame into head. At the end of the recording, more is false.
func (s *source) advance() (more bool, err error) {
	s.head, err = s.reader.Next()
	if errors.Is(err, io.EOF) {
		return false, nil
	}
	return err == nil, err
}

// sources is a heap ordered by time, then by the order of the files.
type sources []*source

func (h sources) Len() int { return len(h) }

func (h sources) Less(i, j int) bool {
	if h[i].head.Time != h[j].head.Time {
		return h[i].head.Time < h[j].head.Time
	}
	return h[i].index < h[j].index
}

func (h sources) Swap(i, j int) { h[i], h[j] = h[j], h[i] }

func (h *sources) Push(x any) { *h = append(*h, x.(*source)) }

func (h *sources) Pop() any {
	old := *h
	last := old[len(old)-1]
	*h = old[:len(old)-1]
	return last
}
