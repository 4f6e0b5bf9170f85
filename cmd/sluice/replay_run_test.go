package main_test

import (
	"context"
	"math/rand/v2"
	"os/exec"
	"path/filepath"
	"testing"
	"time"
)

// replayTest is the replay of some traffic to subscribers.
type replayTest struct {
	name    string
	program func() (string, error) // of the node and the replay
	traffic *traffic
	table   bool
	clients int           // of all kinds, which take turns
	turn    int           // the number of the first client's kind
	cutEach int           // if rough, one client in so many is cut
	rough   bool          // some clients are cut; the node and the replay are killed
	speed   string        // empty: the highest speed
	time    time.Duration // time limit; 0: feedTime
}

func (s replayTest) pace() string {
	if s.speed == "" {
		return "max"
	}
	return s.speed
}

func (s replayTest) run(t *testing.T) {
	path, err := s.program()
	if err != nil {
		t.Fatal(err)
	}
	config, args, want := streamConfig, []string{"--speed", s.pace(), "--channel", "ticks:{symbol}"}, s.traffic.streams()
	if s.table {
		config, args, want = tableConfig, []string{"--speed", s.pace(), "--channel", "ticks:all", "--key", "{symbol}"}, s.traffic.table()
	}
	node := startRestartable(t, path, config)
	clients := s.subscribers(node, want)
	var way meter
	for _, a := range clients[0].checker.accounts {
		a.moved = way.move
	}
	if s.rough {
		s.cutSome(clients, &way)
	}
	viewing := startClients(t, clients...)
	before := time.Now()
	show := startReplay(t, path, node.public, s.traffic, args...)
	ctx, cancel := context.WithTimeout(context.Background(), max(feedTime, s.time))
	defer cancel()
	if s.rough {
		s.injectFaults(ctx, node, show, &way)
	}
	show.await(ctx, s.traffic)
	way.end()
	viewing.awaitComplete()
	wall := time.Since(before)
	checkReplay(viewing, node.process, want)
	if s.rough {
		s.checkCuts(t, clients)
	}
	t.Logf("%d publications to %d clients in %v, %.0f/s; %d cuts, the node died %d times and used %v of CPU",
		s.traffic.frames, len(clients), wall.Round(time.Millisecond), float64(s.traffic.frames)/wall.Seconds(),
		viewing.cuts(), node.outages.number(), node.cpu())
}

// injectFaults kills the node twice and interrupts the replay twice, in the course of the traffic.
func (s replayTest) injectFaults(ctx context.Context, node *restartableNode, show *replayProcess, way *meter) {
	for i, blow := range []func(){node.crash, show.interrupt, node.crash, show.crash} {
		due, cancel := context.WithCancel(ctx)
		ended := show.ended
		go func() {
			select {
			case <-ended: // no more publications will come
				cancel()
			case <-due.Done():
			}
		}()
		if !way.reach(due, s.traffic.frames*(i+1)/5) {
			show.t.Errorf("the replay ended before blow %d:\n%s", i+1, show.stderr)
		}
		cancel()
		blow()
	}
}

// subscribers returns clients with the same expectations.
func (s replayTest) subscribers(node *restartableNode, want map[string]*expectation) []*feedClient {
	clients := newFeedClients(s.turn, s.clients, node.process, want)
	for _, c := range clients {
		c.outages = node.outages
	}
	return clients
}

// isCut selects the clients that are cut. The first is not: its progress decides how long the others stay away.
func (s replayTest) isCut(client int) bool { return client%s.cutEach == s.cutEach-1 }

// cutSome gives some clients cutters that cut them about 20 times in the course of the traffic.
func (s replayTest) cutSome(clients []*feedClient, way *meter) {
	for i, c := range clients {
		if s.isCut(i) {
			c.cutter = &cutter{random: rand.New(rand.NewPCG(uint64(i), 2)), life: s.traffic.bytes / 20, meter: way, gap: s.traffic.frames / 50}
		}
	}
}

// checkCuts fails the test if a client that should have been cut was not, or did not resume.
func (s replayTest) checkCuts(t *testing.T, clients []*feedClient) {
	t.Helper()
	for i, c := range clients {
		switch {
		case c.checker.resumed() == 0:
			t.Errorf("%s has not resumed", c.name)
		case !s.isCut(i) && c.lost < 2: // node restarts may have disconnected the other clients
			t.Errorf("%s lost the node %d times", c.name, c.lost)
		case s.isCut(i) && c.cuts == 0:
			t.Errorf("%s was not cut", c.name)
		case !s.isCut(i) && c.cuts > 0:
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
