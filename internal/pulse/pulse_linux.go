package pulse

import (
	"syscall"
	"time"
)

// Pulse beats until it is closed. It belongs to one goroutine.
type Pulse struct{ timer *timer }

// New makes one that beats every so often, for the first time after so long. It takes a descriptor, and fails where there is none, or
// where the interval is not positive.
func New(every time.Duration) (*Pulse, error) {
	if every <= 0 {
		return nil, syscall.EINVAL
	}
	t, err := newTimer()
	if err != nil {
		return nil, err
	}
	t.set(every, every)
	return &Pulse{t}, nil
}

// Wait waits for the next beat. It returns at once if there was one since the last time; several count as one.
func (p *Pulse) Wait() error { return p.timer.wait() }

// Close gives the descriptor back.
func (p *Pulse) Close() error { return p.timer.file.Close() }
