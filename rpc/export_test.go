package rpc

// Tick does what the connection does once per heartbeat. Nothing may arrive meanwhile.
func (c *Conn) Tick() { c.tick(c.session) }

// IsCompleted reports whether a completion waits in the request.
func (r *Request) IsCompleted() bool { return len(r.done) > 0 }
