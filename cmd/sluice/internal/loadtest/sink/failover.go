package sink

import (
	"context"
	"errors"
	"time"
)

// Failover publishes through one of several nodes, and through the next one when a node certainly has not accepted a publication, for now. It serves one
// goroutine.
type Failover struct {
	nodes   []*HTTP
	current int
	timeout time.Duration
}

// failoverPause is how long is waited before the next node is tried.
const failoverPause = 10 * time.Millisecond

// NewFailover returns a sink that publishes through one of nodes, of which there is at least one, and which it owns. It tries others for at most timeout. With one
// node it is the same as that node.
func NewFailover(nodes []*HTTP, timeout time.Duration) *Failover {
	return &Failover{nodes: nodes, timeout: timeout}
}

// Publish publishes data as [HTTP.Publish] does. The error is that of the last node that was tried.
func (f *Failover) Publish(ctx context.Context, channel string, data []byte) error {
	for began := time.Now(); ; {
		err := f.nodes[f.current].Publish(ctx, channel, data)
		no, isRefusal := errors.AsType[*Refusal](err)
		if !isRefusal || !no.isTemporary || len(f.nodes) == 1 || time.Since(began) > f.timeout {
			return err
		}
		f.current = (f.current + 1) % len(f.nodes)
		pause := time.NewTimer(failoverPause)
		select {
		case <-pause.C:
		case <-ctx.Done():
			pause.Stop()
			return err
		}
	}
}

// Close closes all connections.
func (f *Failover) Close() {
	for _, node := range f.nodes {
		node.Close()
	}
}
