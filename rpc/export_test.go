package rpc

// Tick does what the connection does once per heartbeat. Nothing may arrive meanwhile.
func (c *Conn) Tick() { c.tick(c.session) }
