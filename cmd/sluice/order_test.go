package main_test

import (
	"bytes"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/sluice-push/sluice/internal/testwait"
)

// publishAll publishes data to a channel over the HTTP API with several concurrent publishers. Each publishes its part in order.
func (p *process) publishAll(publishers, each int, body func(publisher, i int) string) {
	p.t.Helper()
	transport := &http.Transport{MaxIdleConnsPerHost: publishers}
	client := &http.Client{Transport: transport}
	defer transport.CloseIdleConnections()
	var running sync.WaitGroup
	for publisher := range publishers {
		running.Go(func() {
			for i := range each {
				resp, err := client.Post("http://"+p.public+"/api/publish", "application/json", strings.NewReader(body(publisher, i)))
				if err != nil {
					p.t.Error(err)
					return
				}
				var answer bytes.Buffer
				_, err = answer.ReadFrom(resp.Body)
				_ = resp.Body.Close()
				if err != nil || !strings.Contains(answer.String(), `"offset"`) {
					p.t.Errorf("publish answers %s %v", &answer, err)
					return
				}
			}
		})
	}
	testwait.Return(p.t, running.Wait)
}

// TestOrder: ten publishers publish to one channel at once. Twenty subscribers receive the publications in the same order, each once, and those
// of each publisher in its order.
func TestOrder(t *testing.T) {
	const publishers, each, subscribers = 10, 1000, 20
	node := startNodeWith(t, streamConfig)
	want := map[string]*expectation{"ticks:one": {count: publishers * each}}
	var clients []*feedClient
	for i := range subscribers {
		clients = append(clients, newFeedClient(fmt.Sprintf("client %d", i), node.public, overWebSocket, want))
	}
	next := make([]int, publishers)
	clients[0].checker.accounts["ticks:one"].taken = func(data []byte) {
		var publisher, i int
		if _, err := fmt.Sscanf(string(data), "[%d,%d]", &publisher, &i); err != nil || next[publisher] != i {
			t.Errorf("%s came when publisher %d was at %d (%v)", data, publisher, next[publisher], err)
		}
		next[publisher]++
	}
	watching := startClients(t, clients...)
	node.publishAll(publishers, each, func(publisher, i int) string {
		return fmt.Sprintf(`{"channel":"ticks:one","data":[%d,%d]}`, publisher, i)
	})
	watching.awaitComplete()
	first := clients[0].checker.accounts["ticks:one"]
	for _, c := range clients[1:] {
		a := c.checker.accounts["ticks:one"]
		if a.count != first.count || !bytes.Equal(a.hash.Sum(nil), first.hash.Sum(nil)) {
			t.Errorf("%s got %d publications, %s %d, or in another order", c.name, a.count, clients[0].name, first.count)
		}
	}
}

// TestNeverReads: a subscriber that does not read does not disturb others, and its memory in the node is bounded. When it reads again, it gets
// the current rows of a table, or learns that publications of a stream were lost. If it took too long, the node has disconnected it.
func TestNeverReads(t *testing.T) {
	t.Parallel()
	const publishers, each, rows, lost = 4, 800, 20, 1
	pad := strings.Repeat("x", 2000)
	for name, tc := range map[string]struct {
		config      string
		hold, other *expectation
	}{
		"table": {tableConfig, &expectation{rows: map[string]string{}}, nil},
		"stream": {
			strings.Replace(streamConfig, "size: 200000", "size: 600", 1),
			&expectation{count: lost, lossy: true}, &expectation{count: publishers * each},
		},
	} {
		t.Run(name, func(t *testing.T) {
			if tc.other == nil {
				for i := range rows {
					tc.hold.rows[fmt.Sprint(i)] = fmt.Sprintf(`[%d,%q]`, each-1-(each-1-i)%rows, pad)
				}
				tc.other = tc.hold
			}
			node := startNodeWith(t, tc.config)
			read := make(chan struct{})
			held := newFeedClient("the one who does not read", node.public, overWebSocket, map[string]*expectation{"ticks:one": tc.hold})
			held.hold, held.narrow = read, true
			others := map[string]*expectation{"ticks:one": tc.other}
			clients := []*feedClient{
				newFeedClient("WebSocket client", node.public, overWebSocket, others), newFeedClient("SSE client", node.public, overSSE, others),
			}
			watching := startClients(t, clients...)
			holding := startClients(t, held)
			before := node.resident()
			node.publishAll(publishers, each, func(publisher, i int) string {
				key := ""
				if name == "table" { // every publisher publishes the same rows, so that the result does not depend on which publisher is the last
					key = fmt.Sprintf(`,"key":"%d"`, i%rows)
				}
				return fmt.Sprintf(`{"channel":"ticks:one","data":[%d,%q]%s}`, i, pad, key)
			})
			if name == "stream" {
				watching.awaitComplete()
			}
			after := node.resident()
			t.Logf("memory of the node: %d KiB before, %d KiB after %d publications of 2 KB", before>>10, after>>10, publishers*each)
			if after-before > 256<<20 {
				t.Errorf("the node grew by %d MiB", (after-before)>>20)
			}
			close(read)
			if name == "table" {
				settle(node, rows, each, pad)
				watching.awaitComplete()
			}
			select {
			case <-held.complete:
			case <-held.ended:
				if wrong := (*violation)(nil); errors.As(held.err, &wrong) {
					t.Error(wrong)
				}
				t.Logf("the node hung up: %v", held.err)
			case <-time.After(feedTime):
				t.Errorf("nothing became of the client that did not read:\n%v", held.checker)
			}
			holding.stop()
		})
	}
}

// settle publishes the last version of each row once more, because concurrent publishers may have ended with an older one.
func settle(node *process, rows, each int, pad string) {
	node.publishAll(1, rows, func(_, i int) string {
		return fmt.Sprintf(`{"channel":"ticks:one","data":[%d,%q],"key":"%d"}`, each-1-(each-1-i)%rows, pad, i)
	})
}
