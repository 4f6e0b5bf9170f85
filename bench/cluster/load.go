package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"time"

	"github.com/sluice-push/sluice/bench/internal/cluster"
	"github.com/sluice-push/sluice/bench/internal/load"
)

// running is a run of sluice bench.
type running struct {
	cmd    *exec.Cmd
	file   string
	out    bytes.Buffer
	cancel context.CancelFunc
}

// result is what a trial looks at of a run.
type result struct {
	Deliveries struct {
		Expected, Received, Lost, Announced, Duplicated, Disordered, Corrupt uint64
	}
	Publications struct{ Due, Sent, Refused uint64 }
	Connects     struct {
		Clients, Failed, Cut, Resets int
		NotRejoined                  int `json:"not_rejoined"`
	}
	Latency struct {
		P99 float64 `json:"p99_ms"`
		Max float64 `json:"max_ms"`
	}
	Moments []moment
	Server  struct {
		CPU float64 `json:"cpu_s"`
	}
	Spec struct {
		Duration time.Duration `json:"duration_ns"`
	}
}

// moment is a second of a run.
type moment struct {
	Second float64 `json:"s"` // its end, since the first publication that counts
	P99    float64 `json:"p99_ms"`
}

// startLoad lets clients connect to the gateways that a cluster has now. Each goes where these say, comes back when its connection ends, and resumes.
func startLoad(ctx context.Context, s *settings, c *cluster.Cluster, args ...string) (*running, error) {
	if err := acquainted(ctx, c); err != nil {
		return nil, err
	}
	ctx, cancel := context.WithCancel(ctx)
	r := &running{file: filepath.Join(s.folder, "result.json"), cancel: cancel}
	all := []string{"bench", "--plain", "--route", "--clients", strconv.Itoa(s.clients), "--json", r.file, "--settle", settles.String(), "--warmup", warms.String()}
	for i, g := range c.Gateways {
		flag := "--node"
		if i == 0 {
			flag = "--url"
		}
		all = append(all, flag, "http://"+g.Public)
	}
	r.cmd = exec.CommandContext(ctx, s.programs.Sluice, append(all, args...)...)
	r.cmd.Env = append(os.Environ(), "SLUICE_API_KEY="+apiKey)
	r.cmd.Stdout, r.cmd.Stderr = &r.out, &r.out
	r.cmd.WaitDelay = 10 * time.Second // its client processes end with it
	if err := r.cmd.Start(); err != nil {
		cancel()
		return nil, err
	}
	return r, nil
}

// wait returns the result of the run, which is an error if anything was lost, came twice, or was published to nobody, or if the run ended before needed, in
// seconds since its publications began.
func (r *running) wait(needed float64) (*result, error) {
	defer r.cancel()
	if err := r.cmd.Wait(); err != nil {
		return nil, fmt.Errorf("sluice bench: %w\n%s", err, r.out.String())
	}
	out := new(result)
	text, err := os.ReadFile(r.file)
	if err == nil {
		err = json.Unmarshal(text, out)
	}
	if err != nil {
		return nil, err
	}
	if lasted := out.Spec.Duration.Seconds(); lasted < needed {
		return nil, fmt.Errorf("the load ended after %.0f s, before what was to happen within it had, after %.0f s: nodes need longer to start or end than was thought", lasted, needed)
	}
	d := &out.Deliveries
	if d.Expected == 0 || d.Received != d.Expected || d.Lost+d.Announced+d.Duplicated+d.Disordered+d.Corrupt > 0 || out.Connects.NotRejoined > 0 {
		return nil, fmt.Errorf("not everything arrived once: %+v, %+v", out.Deliveries, out.Connects)
	}
	return out, nil
}

// stop ends a run whose result does not matter.
func (r *running) stop() {
	r.cancel()
	_ = r.cmd.Wait()
}

// member is what the cluster knows of a node.
type member struct {
	ID       string
	Role     string
	Sessions int
	Draining bool
}

// sessions returns how many clients each gateway has that takes clients, as a node knows it, by the gateway's ID.
func sessions(n *cluster.Member) (map[string]int, error) {
	page, err := n.Get("/cluster")
	if err != nil {
		return nil, err
	}
	var view struct{ Members []member }
	if err := json.Unmarshal(page, &view); err != nil {
		return nil, err
	}
	all := make(map[string]int)
	for _, m := range view.Members {
		if m.Role == "gateway" && !m.Draining {
			all[m.ID] = m.Sessions
		}
	}
	return all, nil
}

// acquainted waits until all gateways know each other.
func acquainted(ctx context.Context, c *cluster.Cluster) error {
	return eventually(ctx, "the gateways do not know each other", func() (bool, error) {
		for _, g := range c.Gateways {
			if all, err := sessions(g); err != nil || len(all) < len(c.Gateways) {
				return false, err
			}
		}
		return true, nil
	})
}

// eventually waits until something holds, for two minutes. The error is otherwise.
func eventually(ctx context.Context, otherwise string, holds func() (bool, error)) error {
	for range 1200 {
		if ok, err := holds(); ok || err != nil {
			return err
		}
		if err := load.Pause(ctx, 100*time.Millisecond); err != nil { // other processes can only be asked again
			return err
		}
	}
	return errors.New(otherwise)
}

// connected waits until a hub has heard of all clients.
func (r *running) connected(ctx context.Context, c *cluster.Cluster, clients int) error {
	return eventually(ctx, "the clients do not connect", func() (bool, error) {
		all, err := sessions(c.Hubs[0])
		total := 0
		for _, n := range all {
			total += n
		}
		return total >= clients, err
	})
}

// The times of a run of sluice bench between the last connection and the first publication that counts.
const (
	settles = 3 * time.Second
	warms   = time.Second
)

// measuring waits until publications count, and returns since when, to about a second.
func (r *running) measuring(ctx context.Context, c *cluster.Cluster, clients int) (time.Time, error) {
	if err := r.connected(ctx, c, clients); err != nil {
		return time.Time{}, err
	}
	return time.Now().Add(settles + warms), load.Pause(ctx, settles+warms)
}

// skew is how many times its fair share the gateway with the most clients has.
func skew(all map[string]int) float64 {
	var counts []int
	total := 0
	for _, n := range all {
		counts = append(counts, n)
		total += n
	}
	if total == 0 {
		return 0
	}
	return float64(slices.Max(counts)) * float64(len(counts)) / float64(total)
}

// worst returns the highest p99 of the seconds from one until another.
func (r *result) worst(from, to float64) float64 {
	p99 := 0.0
	for _, m := range r.Moments {
		if m.Second > from && m.Second <= to {
			p99 = max(p99, m.P99)
		}
	}
	return p99
}
