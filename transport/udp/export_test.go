package udp

// Slow makes a socket read and write one datagram at a time, as on systems without batches.
func Slow(c *Conn) { c.slow.Store(true) }

// Unsupported stands for the number of an option that the system does not have.
const Unsupported = unsupported
