package main

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"time"

	"github.com/sluice-push/sluice/bench/internal/cluster"
	"github.com/sluice-push/sluice/bench/internal/load"
	"github.com/sluice-push/sluice/bench/internal/measure"
	"github.com/sluice-push/sluice/bench/internal/report"
)

// The shape of the trial restart.
const (
	restartGateways = 3
	channelCount    = 2000
	channelsEach    = 5
)

// restarted is one run of the trial restart.
type restarted struct {
	deliveries, reconnects, refused float64
	outside, during                 float64 // the highest p99 of a second, in milliseconds
	longest                         float64 // milliseconds from when a publication was due until the last client had it
	took                            float64 // seconds for all nodes
}

// restart restarts all hubs and gateways, one after the other.
func restart(ctx context.Context, s *settings) (*report.Table, error) {
	t := &report.Table{
		Title: fmt.Sprintf("restart: %d hubs and %d gateways restarted one after the other; %d clients of %d of %d channels each, %.0f publications a second",
			hubs, restartGateways, s.clients, channelsEach, channelCount, s.rate),
		Head: []string{"deliveries", "reconnects", "publications refused", "highest p99 of a second before, ms", "meanwhile", "longest delay, ms", "seconds for all nodes"},
		Note: fmt.Sprintf("Of %d runs. A publication that a gateway does not accept, because it ends, goes to the next one. Nothing was lost or came twice.", s.rounds),
	}
	var all []restarted
	for range s.rounds {
		r, err := s.restartOnce(ctx)
		if err != nil {
			return nil, err
		}
		all = append(all, *r)
	}
	over := func(of func(*restarted) float64) string { return measure.Over(all, of).String() }
	t.Add(over(func(r *restarted) float64 { return r.deliveries }), over(func(r *restarted) float64 { return r.reconnects }),
		over(func(r *restarted) float64 { return r.refused }), over(func(r *restarted) float64 { return r.outside }), over(func(r *restarted) float64 { return r.during }),
		over(func(r *restarted) float64 { return r.longest }), over(func(r *restarted) float64 { return r.took }))
	return t, nil
}

// restartOnce is one run.
func (s *settings) restartOnce(ctx context.Context) (*restarted, error) {
	c, err := cluster.Start(ctx, s.plan(restartGateways, fmt.Sprintf("rebind: {rate: %d, cooldown: 1s}", moveRate)))
	if err != nil {
		return nil, err
	}
	defer c.Stop()
	nodes := slices.Concat(c.Hubs, c.Gateways)
	duration := s.calm + time.Duration(len(nodes))*(s.calm/3+s.slack())
	r, err := s.startUsers(ctx, c, "--shape", "market", "--channels", strconv.Itoa(channelCount), "--each", strconv.Itoa(channelsEach),
		"--rate", strconv.FormatFloat(s.rate, 'g', -1, 64), "--duration", duration.String())
	if err != nil {
		return nil, err
	}
	from, to, err := s.rollOver(ctx, c, r, nodes)
	if err != nil {
		r.stop()
		return nil, err
	}
	res, err := r.wait(to)
	if err != nil {
		return nil, err
	}
	return &restarted{
		deliveries: float64(res.Deliveries.Received), reconnects: float64(res.Connects.Resets), refused: float64(res.Publications.Refused),
		outside: res.worst(0, from), during: res.worst(from, to), longest: res.Latency.Max, took: to - from,
	}, nil
}

// rollOver restarts nodes. It returns when that began and ended, in seconds since the publications began.
func (s *settings) rollOver(ctx context.Context, c *cluster.Cluster, r *running, nodes []*cluster.Member) (from, to float64, err error) {
	began, err := r.measuring(ctx, c, s.clients)
	if err != nil {
		return 0, 0, err
	}
	if err := load.Pause(ctx, s.calm/2); err != nil {
		return 0, 0, err
	}
	from = time.Since(began).Seconds()
	for _, n := range nodes {
		if err := n.Terminate(); err != nil {
			return 0, 0, err
		}
		if err := errors.Join(n.Start(), load.Pause(ctx, s.calm/3)); err != nil {
			return 0, 0, err
		}
	}
	return from, time.Since(began).Seconds(), nil
}
