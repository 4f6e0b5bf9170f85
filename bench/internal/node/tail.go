package node

import "sync"

// tail keeps the end of what is written to it. Its methods may be called concurrently.
type tail struct {
	mu   sync.Mutex
	text []byte
}

// maxTail is how much is kept.
const maxTail = 4 << 10

// Write implements io.Writer.
func (t *tail) Write(p []byte) (int, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.text = append(t.text, p...)
	if more := len(t.text) - maxTail; more > 0 {
		t.text = append(t.text[:0], t.text[more:]...)
	}
	return len(p), nil
}

// String returns what was kept.
func (t *tail) String() string {
	t.mu.Lock()
	defer t.mu.Unlock()
	return string(t.text)
}
