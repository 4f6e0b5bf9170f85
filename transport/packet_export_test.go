package transport

// Slow makes a socket read and write one by one, as systems without batches do.
func Slow(c *PacketConn) { c.slow.Store(true) }

// Unsupported is the number of an option that the system does not have.
const Unsupported = unsupported
