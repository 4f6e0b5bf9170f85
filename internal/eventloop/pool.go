package eventloop

import (
	"slices"
	"sync"
)

// Pool runs work that may block on goroutines that are kept for more: a stack that has grown is worth more than a new one. Each piece of work begins
// at once, on a spare goroutine or a new one. All methods may be called concurrently. A Pool must not be copied.
type Pool[T any] struct {
	maxIdle int
	do      func(T)
	onIdle  func()

	mu     sync.Mutex
	idle   []chan T // of the spare goroutines; the last one to come is the first to go
	unused int      // how many have been idle since the last TrimIdle
	closed bool

	running sync.WaitGroup
}

// NewPool returns a Pool that keeps at most maxIdle goroutines. do does one piece of work. onIdle is called when a goroutine has become idle, so that
// TrimIdle is called some time later; it must not block, and must not call the Pool.
func NewPool[T any](maxIdle int, do func(T), onIdle func()) *Pool[T] {
	return &Pool[T]{maxIdle: maxIdle, do: do, onIdle: onIdle}
}

// Run has a piece of work done, and does not wait. After TrimIdle for good it is still done.
func (p *Pool[T]) Run(piece T) {
	p.mu.Lock()
	if n := len(p.idle); n > 0 {
		next := p.idle[n-1]
		p.idle = p.idle[:n-1]
		p.unused = min(p.unused, n-1)
		p.mu.Unlock()
		next <- piece
		return
	}
	p.mu.Unlock()
	p.running.Add(1)
	go p.run(piece)
}

// run does a first piece of work, which may need the whole stack that a goroutine begins with.
func (p *Pool[T]) run(piece T) {
	defer p.running.Done()
	p.do(piece)
	p.doMore()
}

func (p *Pool[T]) doMore() {
	for next := make(chan T, 1); p.rest(next); {
		piece, more := <-next
		if !more {
			return
		}
		p.do(piece)
	}
}

// rest makes the calling goroutine a spare one, and reports whether it has. It has not if there are enough.
func (p *Pool[T]) rest(next chan T) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.closed || len(p.idle) >= p.maxIdle {
		return false
	}
	p.idle = append(p.idle, next)
	p.onIdle()
	return true
}

// TrimIdle ends the spare goroutines that were not needed since it was called last, and reports whether there are others. If it is for good, it ends
// all, and those at work end with their work.
func (p *Pool[T]) TrimIdle(forGood bool) (others bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.closed = p.closed || forGood; p.closed {
		p.unused = len(p.idle)
	}
	for _, next := range p.idle[:p.unused] {
		close(next)
	}
	p.idle = slices.Delete(p.idle, 0, p.unused)
	p.unused = len(p.idle)
	return p.unused > 0
}

// Wait waits until all goroutines have ended, which they do after TrimIdle for good.
func (p *Pool[T]) Wait() { p.running.Wait() }
