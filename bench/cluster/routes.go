package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"net/http"
	"slices"

	"github.com/sluice-push/sluice/bench/internal/cluster"
	"github.com/sluice-push/sluice/bench/internal/measure"
	"github.com/sluice-push/sluice/bench/internal/report"
)

// canaryShare is the share of the users that a canary has in the trial routes.
const canaryShare = 0.2

// routed is one run of the trial routes.
type routed struct {
	shares   []float64 // of the clients, by gateway
	differ   int       // users for which two gateways have different answers
	asked    int
	expected []float64
}

// deviation is how far a share is from the one that was to be, at most.
func (r *routed) deviation() float64 {
	most := 0.0
	for i, share := range r.shares {
		most = max(most, math.Abs(share-r.expected[i]))
	}
	return most
}

// relative is deviation as a part of the share that was to be.
func (r *routed) relative() float64 {
	most := 0.0
	for i, share := range r.shares {
		most = max(most, math.Abs(share/r.expected[i]-1))
	}
	return most
}

// routes counts which clients go where under several policies, when all of them connect one after the other, and asks all gateways for the routes of the same
// users.
func routes(ctx context.Context, s *settings) (*report.Table, error) {
	t := &report.Table{
		Title: fmt.Sprintf("routes: %d clients with a user each, at 4 gateways", s.clients),
		Head:  []string{"policy", "shares of the gateways", "furthest from the right one", "as a part of it", "users that gateways disagree about"},
		Note:  fmt.Sprintf("Of %d runs; shares of the last one. canary: the last gateway is for %.0f %% of the users.", s.rounds, canaryShare*100),
	}
	for _, policy := range []string{"user", "least_loaded", "canary"} {
		var all []routed
		for range s.rounds {
			r, err := s.routeOnce(ctx, policy)
			if err != nil {
				return nil, fmt.Errorf("%s: %w", policy, err)
			}
			all = append(all, *r)
		}
		last := &all[len(all)-1]
		var shares string
		for _, share := range last.shares {
			shares += fmt.Sprintf("%.3f ", share)
		}
		differ := measure.Over(all, func(r *routed) float64 { return float64(r.differ) })
		agree := fmt.Sprintf("%.0f of %d", differ.Max, last.asked)
		if policy == "least_loaded" {
			agree = "random by design"
		}
		t.Add(policy, shares, fmt.Sprintf("%.4f", measure.Over(all, (*routed).deviation).Max), fmt.Sprintf("%.3f", measure.Over(all, (*routed).relative).Max), agree)
	}
	return t, nil
}

// routeOnce is one run.
func (s *settings) routeOnce(ctx context.Context, policy string) (*routed, error) {
	const gateways = 4
	block, expected := "route: {policy: "+policy+"}", slices.Repeat([]float64{1.0 / gateways}, gateways)
	if policy == "canary" {
		block = fmt.Sprintf("route: {policy: user, canary: {name: next, share: %g, labels: {release: next}}}", canaryShare)
		expected = append(slices.Repeat([]float64{(1 - canaryShare) / (gateways - 1)}, gateways-1), canaryShare)
	}
	c, err := cluster.Start(ctx, s.plan(gateways-1, block))
	if err != nil {
		return nil, err
	}
	defer c.Stop()
	if _, err := c.Join("labels: {release: next}"); err != nil {
		return nil, err
	}
	r, err := s.startUsers(ctx, c, "--shape", "idle")
	if err != nil {
		return nil, err
	}
	defer r.stop()
	if err := r.connected(ctx, c, s.clients); err != nil {
		return nil, err
	}
	have, err := sessions(c.Hubs[0])
	if err != nil {
		return nil, err
	}
	out := &routed{expected: expected, asked: min(s.clients, 500)}
	for i := range gateways {
		out.shares = append(out.shares, float64(have[fmt.Sprintf("gateway%d", i+1)])/float64(s.clients))
	}
	for i := range out.asked {
		answers := make(map[string]bool)
		for _, g := range c.Gateways {
			first, err := route(ctx, g.Public, user(i))
			if err != nil {
				return nil, err
			}
			answers[first] = true
		}
		if len(answers) > 1 {
			out.differ++
		}
	}
	return out, nil
}

// route asks a gateway where a user should go first.
func route(ctx context.Context, gateway, user string) (string, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+gateway+"/connection/route", http.NoBody)
	if err != nil {
		return "", err
	}
	req.Header.Set("Authorization", "Bearer "+token(user))
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return "", err
	}
	defer resp.Body.Close() //nolint:errcheck // it is read
	var answer struct {
		Routes []struct {
			URL string `json:"url"`
		} `json:"routes"`
	}
	if err := json.NewDecoder(resp.Body).Decode(&answer); err != nil {
		return "", err
	}
	if len(answer.Routes) == 0 {
		return "", errors.New("no routes")
	}
	return answer.Routes[0].URL, nil
}
