package outbox

import "github.com/sluice-push/sluice/push"

// Ends returns why the server ends the connection, nil if it does not.
func (o *Outbox) Ends() *push.Disconnect {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.ends
}

// Waiting returns how many bytes wait that Take has not returned.
func (o *Outbox) Waiting() int {
	o.mu.Lock()
	defer o.mu.Unlock()
	return len(o.buf)
}
