//go:build !linux

package goroutineconn

// rawState is empty: on other systems than Linux every connection has a net stream, and sends by copying.
type rawState struct{}

func newRawStream(*Conn) Stream { return nil }

// Socket returns -1: there is no descriptor to write to.
func (c *Conn) Socket() int32 { return -1 }
