package main_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"os/exec"
	"path/filepath"
	"testing"
	"time"
)

// showing is the replay of a tape, and who watches it.
type showing struct {
	name       string
	program    func() (string, error) // for the node and the replay
	tape       *tape
	table      bool
	websockets int
	sse        int
	rough      bool          // clients are cut; the node and the replay are killed
	speed      string        // empty: the highest
	time       time.Duration // how long it may take; 0: feedTime
}

func (s showing) pace() string {
	if s.speed == "" {
		return "max"
	}
	return s.speed
}

func (s showing) run(t *testing.T) {
	path, err := s.program()
	if err != nil {
		t.Fatal(err)
	}
	config, args, want := streamConfig, []string{"--speed", s.pace(), "--channel", "ticks:{symbol}"}, s.tape.streams()
	if s.table {
		config, args, want = tableConfig, []string{"--speed", s.pace(), "--channel", "ticks:all", "--key", "{symbol}"}, s.tape.table()
	}
	node := startService(t, path, config)
	clients := s.viewers(node, want)
	var way meter
	for _, a := range clients[0].book.accounts {
		a.moved = way.move
	}
	if s.rough {
		s.cutSome(clients, &way)
	}
	viewing := startCrowd(t, clients...)
	before := time.Now()
	show := play(t, path, node.public, s.tape, args...)
	ctx, cancel := context.WithTimeout(context.Background(), max(feedTime, s.time))
	defer cancel()
	if s.rough {
		s.strike(ctx, node, show, &way)
	}
	show.await(ctx, s.tape)
	way.end()
	viewing.awaitComplete()
	wall := time.Since(before)
	checkReplay(viewing, node.process, want)
	if s.rough {
		checkCuts(t, clients)
	}
	t.Logf("%d publications to %d clients in %v, %.0f/s; %d cuts, the node died %d times and used %v of CPU",
		s.tape.frames, len(clients), wall.Round(time.Millisecond), float64(s.tape.frames)/wall.Seconds(),
		viewing.cuts(), node.outages.number(), node.cpu())
}

// strike kills the node and breaks off the replay, each twice, in the course of the tape.
func (s showing) strike(ctx context.Context, node *service, show *playback, way *meter) {
	for i, blow := range []func(){node.crash, show.interrupt, node.crash, show.crash} {
		due, cancel := context.WithCancel(ctx)
		ended := show.ended
		go func() {
			select {
			case <-ended: // there is nothing more to come
				cancel()
			case <-due.Done():
			}
		}()
		if !way.reach(due, s.tape.frames*(i+1)/5) {
			show.t.Errorf("the replay ended before blow %d:\n%s", i+1, show.stderr)
		}
		cancel()
		blow()
	}
}

// viewers returns clients with the same expectations.
func (s showing) viewers(node *service, want map[string]*expectation) []*feedClient {
	var clients []*feedClient
	for i := range s.websockets {
		clients = append(clients, newFeedClient(fmt.Sprintf("WebSocket client %d", i), node.public, overWebSocket, want))
	}
	for i := range s.sse {
		clients = append(clients, newFeedClient(fmt.Sprintf("SSE client %d", i), node.public, overSSE, want))
	}
	for _, c := range clients {
		c.outages = node.outages
	}
	return clients
}

// cutEach says which clients are cut: a third of them, of either kind, but not the first of all. By the way that one has come, the
// others are measured.
const cutEach = 3

func isCut(client int) bool { return client%cutEach == cutEach-1 }

// cutSome gives some clients blades that cut them about 20 times in the course of a tape.
func (s showing) cutSome(clients []*feedClient, way *meter) {
	for i, c := range clients {
		if isCut(i) {
			c.blade = &blade{random: rand.New(rand.NewPCG(uint64(i), 2)), life: s.tape.bytes / 20, meter: way, gap: s.tape.frames / 50}
		}
	}
}

// checkCuts fails the test if a client that was to be cut was not, or did not resume.
func checkCuts(t *testing.T, clients []*feedClient) {
	t.Helper()
	for i, c := range clients {
		switch {
		case c.book.resumed() == 0:
			t.Errorf("%s has not resumed", c.name)
		case !isCut(i) && c.lost < 2: // the others may have been away anyway
			t.Errorf("%s lost the node %d times", c.name, c.lost)
		case isCut(i) && c.cuts == 0:
			t.Errorf("%s was not cut", c.name)
		case !isCut(i) && c.cuts > 0:
			t.Errorf("%s was cut", c.name)
		}
	}
}

// runPlain runs tests of this package in a process without the race detector.
func runPlain(t *testing.T, tests string) {
	t.Helper()
	dir, err := built()
	if err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(dir, "plain.test")
	if out, err := exec.Command("go", "test", "-c", "-o", path, ".").CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	cmd := exec.Command(path, "-test.run", tests, "-test.v", "-test.timeout", "10m")
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Error(err)
	}
	t.Logf("without the race detector:\n%s", out)
}
