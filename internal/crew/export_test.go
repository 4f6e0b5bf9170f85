package crew

// Idle returns how many wait for work.
func Idle[T any](c *Crew[T]) int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return len(c.idle)
}
