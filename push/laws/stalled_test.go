package laws_test

import (
	"fmt"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/sluice-push/sluice/push"
)

// heap returns how many bytes of the heap are in use.
func heap() int64 {
	runtime.GC()
	runtime.GC() // the second collection frees what pools hold
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return int64(m.HeapAlloc) //nolint:gosec // far less
}

// TestStalled tests law 4 with clients that do not read at all, while far more is published than may wait for them. Afterwards the clients read,
// and must get the current state.
func TestStalled(t *testing.T) {
	const publications, size, channel = 500, 32 << 10, "value:a"
	w := newCluster(t, *first)
	w.onMemory(t, nil)
	var clients []*client
	for i := range 8 {
		c := newClient(w, i)
		clients = append(clients, c)
		for deadline := time.Now().Add(*patience); !c.subscribes(channel); pause(w.ctx, time.Millisecond) {
			if time.Now().After(deadline) {
				t.Fatalf("%s does not get to subscribe", c.name)
			}
			if c.conn == nil {
				c.connect()
				continue
			}
			c.subscribe(c.feed(channel))
		}
		c.conn.gate.set(true, 0)
	}
	data := func(i int) []byte { return fmt.Appendf(nil, `"%d%s"`, i, strings.Repeat("x", size)) }
	before := heap()
	var at [publications]push.Position
	for i := range publications {
		var err error
		at[i], err = w.node(i%2).hub.Publish(w.ctx, channel, push.Publication{Data: data(i)}, "")
		must(t, err)
	}
	// A node that is behind holds more than this for a while.
	most, grown := int64(len(clients)*mostQueued+4<<20), heap()-before
	for deadline := time.Now().Add(*patience); grown > most && time.Now().Before(deadline); grown = heap() - before {
		pause(w.ctx, 10*time.Millisecond)
	}
	if grown > most {
		t.Errorf("%d bytes are held for %d clients that do not read, of %d that were published", grown, len(clients), publications*size)
	}
	for i := range publications {
		w.published.add(channel, at[i], push.Publication{Data: data(i)})
	}
	var participants []participant
	for _, c := range clients {
		participants = append(participants, c)
	}
	w.checkQuiescent(participants)
	for _, c := range clients {
		c.end()
	}
	if t.Failed() {
		t.Fatalf("again: go test -run TestStalled ./push/laws -laws.seed %d", *first)
	}
}

// subscribes reports whether the client is subscribed to a channel.
func (c *client) subscribes(name string) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.feed(name).live
}
