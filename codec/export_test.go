package codec

// ReleaseTwice returns one buffer to the pool twice.
func ReleaseTwice(c *Compression) {
	b := c.buffer()
	c.putBuffer(b)
	c.putBuffer(b)
}
