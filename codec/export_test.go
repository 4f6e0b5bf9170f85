package codec

// ReleaseTwice gives one buffer back twice.
func ReleaseTwice(c *Compression) {
	b := c.buffer()
	c.putBuffer(b)
	c.putBuffer(b)
}
