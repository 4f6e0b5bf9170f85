package main

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"strconv"
	"time"

	"github.com/sluice-push/sluice/bench/internal/cluster"
	"github.com/sluice-push/sluice/bench/internal/load"
	"github.com/sluice-push/sluice/bench/internal/measure"
	"github.com/sluice-push/sluice/bench/internal/report"
)

// config is that of all nodes. Its arguments are the secret of tokens, the hash of the key that publishes, and for how long clients of a gateway that ends are
// moved.
const config = `
auth: {jwt: {algorithms: [HS256], secret: %q}}
api: {keys: [{name: bench, hash: "sha256:%x", scopes: [publish]}]}
limits: {commands_per_session: 0, commands_per_address: 0}
shutdown: {delay: 1s, spread: %v}
namespaces:
  - {name: ticks, partitions: 8, durable: false, history: {size: 10000, age: 10m}, allow: {subscribe: [user], publish: [api], history: [], presence: []}}
`

const (
	hubs          = 2
	firstGateways = 3
	rebindRate    = 5   // publications a second
	moveRate      = 500 // clients a second that a gateway moves
)

// plan is a cluster with settings in its block cluster.
func (s *settings) plan(gateways int, block string) *cluster.Plan {
	return &cluster.Plan{Programs: s.programs, Config: fmt.Sprintf(config, tokenSecret, sha256.Sum256([]byte(apiKey)), s.spread), Cluster: block, Hubs: hubs, Gateways: gateways}
}

// moves is what came of a gateway that joined, left or came back.
type moves struct {
	moved float64 // clients that gateways have more than before
	share float64 // of all clients
	skew  float64 // afterwards
	p99   float64 // the highest of a second, in milliseconds
}

// events are what happens to a gateway, in this order.
func events() []string { return []string{"joins", "leaves", "comes back"} }

// rebound is what came of one run.
type rebound struct {
	events     []moves
	reconnects float64
	longest    float64 // milliseconds from when a publication was due until the last client had it
}

// rebind lets a gateway join, leave and come back while clients are connected.
func rebind(ctx context.Context, s *settings) (*report.Table, error) {
	t := &report.Table{
		Title: fmt.Sprintf("rebind: %d clients of a channel with %d publications a second, %d gateways and one more, which joins, leaves and comes back",
			s.clients, rebindRate, firstGateways),
		Head: []string{"policy", "event", "clients moved", "share", "skew afterwards", "highest p99 of a second, ms", "reconnects in the run", "longest delay in the run, ms"},
		Note: fmt.Sprintf("Of %d runs. The fair share is 1/%d. skew: the clients of the fullest gateway against its fair share. Nothing was lost or came twice.",
			s.rounds, firstGateways+1),
	}
	for _, policy := range s.policies {
		var all []rebound
		for range s.rounds {
			r, err := s.rebindOnce(ctx, policy)
			if err != nil {
				return nil, fmt.Errorf("policy %s: %w", policy, err)
			}
			all = append(all, *r)
		}
		for i, event := range events() {
			over := func(of func(*moves) float64) string {
				return measure.Over(all, func(r *rebound) float64 { return of(&r.events[i]) }).String()
			}
			t.Add(policy, event, over(func(m *moves) float64 { return m.moved }), over(func(m *moves) float64 { return m.share }),
				over(func(m *moves) float64 { return m.skew }), over(func(m *moves) float64 { return m.p99 }),
				measure.Over(all, func(r *rebound) float64 { return r.reconnects }).String(), measure.Over(all, func(r *rebound) float64 { return r.longest }).String())
		}
	}
	return t, nil
}

// rebindOnce is one run.
func (s *settings) rebindOnce(ctx context.Context, policy string) (*rebound, error) {
	c, err := cluster.Start(ctx, s.plan(firstGateways, fmt.Sprintf("rebind: {rate: %d, cooldown: 1s}, route: {policy: %s}", moveRate, policy)))
	if err != nil {
		return nil, err
	}
	defer c.Stop()
	duration := s.calm/3 + time.Duration(len(events()))*(s.calm+s.slack())
	r, err := s.startUsers(ctx, c, "--rate", strconv.Itoa(rebindRate), "--duration", duration.String())
	if err != nil {
		return nil, err
	}
	out, clock, err := s.shake(ctx, c, r)
	if err != nil {
		r.stop()
		return nil, err
	}
	res, err := r.wait(clock[len(clock)-1])
	if err != nil {
		return nil, err
	}
	for i := range out.events {
		out.events[i].p99 = res.worst(clock[i], clock[i+1])
	}
	out.reconnects, out.longest = float64(res.Connects.Resets), res.Latency.Max
	return out, nil
}

// slack is how long the end and the start of a node take at most.
func (s *settings) slack() time.Duration { return s.spread + 4*time.Second }

// shake lets a gateway join, leave and come back. It also returns the seconds since the publications began: before the first event, and after each.
func (s *settings) shake(ctx context.Context, c *cluster.Cluster, r *running) (*rebound, []float64, error) {
	began, err := r.measuring(ctx, c, s.clients)
	if err != nil {
		return nil, nil, err
	}
	var gateway *cluster.Member
	happen := []func() error{
		func() (err error) { gateway, err = c.Join(); return err },
		func() error { return gateway.Terminate() },
		func() error { return gateway.Start() },
	}
	if err := load.Pause(ctx, s.calm/3); err != nil {
		return nil, nil, err
	}
	out, clock := new(rebound), []float64{time.Since(began).Seconds()}
	for _, event := range happen {
		before, err := sessions(c.Hubs[0])
		if err != nil {
			return nil, nil, err
		}
		if err := errors.Join(event(), load.Pause(ctx, s.calm)); err != nil {
			return nil, nil, err
		}
		after, err := sessions(c.Hubs[0])
		if err != nil {
			return nil, nil, err
		}
		m := moves{skew: skew(after)}
		for id, n := range after {
			m.moved += float64(max(0, n-before[id]))
		}
		m.share = m.moved / float64(s.clients)
		out.events = append(out.events, m)
		clock = append(clock, time.Since(began).Seconds())
	}
	return out, clock, nil
}
