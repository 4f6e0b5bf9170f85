package gateway

import (
	"context"
	"sync"
	"time"
)

// mostStrange is how many frames may be on their way to nodes that are not in the list of nodes. Such a node has just started, or it is gone and does
// not answer: without the bound, requests that name nodes that do not exist would use up mostQuestions for answerTimeout.
const mostStrange = 64

// nodeListAge is for how long a list of nodes is used.
const nodeListAge = time.Second

// nodeList is the list of the other nodes that share the broker, as of a short time ago. The zero nodeList is ready.
type nodeList struct {
	mu      sync.Mutex    // guards what follows
	at      int64         // when the list was asked for, by the gateway's clock; 0: never
	reading chan struct{} // closed when the list has been read; nil: it is not being read
	ids     map[string]bool
}

// has reports whether a node is in the list, which is read again if it is old. If the node is not in the old list, has waits for the new one.
func (l *nodeList) has(ctx context.Context, g *Gateway, id string) bool {
	l.mu.Lock()
	if now := g.clock(); l.reading == nil && (l.at == 0 || now-l.at >= nodeListAge.Milliseconds()) {
		done := make(chan struct{})
		if g.goUnlessClosing(func() { l.read(g, done) }) {
			l.at, l.reading = now, done
		}
	}
	known, reading := l.ids[id], l.reading
	l.mu.Unlock()
	if known || reading == nil {
		return known
	}
	select {
	case <-reading:
	case <-ctx.Done():
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.ids[id]
}

// read reads the list. It does not end with the context of a request: a client could cut requests short so that the list is never read.
func (l *nodeList) read(g *Gateway, done chan struct{}) {
	defer close(done)
	limited, cancel := context.WithTimeout(g.ctx, answerTimeout)
	defer cancel()
	nodes, err := g.hub.OtherNodes(limited)
	l.mu.Lock()
	defer l.mu.Unlock()
	l.reading = nil
	if err != nil {
		return // the old list is better than none
	}
	l.ids = make(map[string]bool, len(nodes))
	for i := range nodes {
		l.ids[nodes[i].ID] = true
	}
}
