package eventloop

// Idle returns how many spare goroutines a Pool has.
func Idle[T any](p *Pool[T]) int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return len(p.idle)
}
