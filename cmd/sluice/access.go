package main

import (
	"context"
	"net/http"
	"slices"
	"time"

	"github.com/sluice-push/sluice/push"
	"github.com/sluice-push/sluice/push/api"
	"github.com/sluice-push/sluice/push/broker"
	"github.com/sluice-push/sluice/push/config"
	"github.com/sluice-push/sluice/push/gateway"
	"github.com/sluice-push/sluice/push/hub"
)

// access says who may do what, as the configuration has it.
type access struct {
	insecure   bool
	rules      map[string]config.Allow // by namespace
	keys       []config.APIKey
	namespaces []hub.Namespace
}

func newAccess(cfg *config.Config, insecure bool) *access {
	a := &access{insecure: insecure, rules: map[string]config.Allow{}, keys: cfg.API.Keys}
	for _, ns := range cfg.Namespaces {
		a.rules[ns.Name] = ns.Allow
		a.namespaces = append(a.namespaces, hub.Namespace{
			Namespace: broker.Namespace{
				Name: ns.Name, Mode: ns.Mode, History: ns.History.Push(), Partitions: 1, Durable: ns.Durable.With(cfg.Broker.Kind),
			},
			Presence:    insecure || len(ns.Allow.Presence) > 0,
			Interval:    time.Duration(ns.Interval),
			MinInterval: time.Duration(ns.MinInterval),
			Priority:    ns.Priority,
			Deltas:      ns.Delta,
			Slow:        ns.Slow,
		})
	}
	return a
}

// authenticate implements gateway.Options.Authenticate. A token is for nobody to check yet: a client that has one is not anonymous, and must not
// be taken for that. With --insecure everybody is let in.
func (a *access) authenticate(_ context.Context, token string, _ *http.Request) (push.ClientInfo, error) {
	if token != "" && !a.insecure {
		return push.ClientInfo{}, push.DisconnectInvalidToken
	}
	return push.ClientInfo{}, nil
}

// permit implements gateway.Options.Permit.
func (a *access) permit(c push.ClientInfo, channel string, action gateway.Action) error {
	rule, ok := a.rules[push.Namespace(channel)]
	if !ok {
		return push.UnknownChannel(channel)
	}
	var allowed []config.Caller
	switch action {
	case gateway.Subscribe:
		allowed = rule.Subscribe
	case gateway.Publish:
		allowed = rule.Publish
	case gateway.History:
		allowed = rule.History
	case gateway.Presence:
		allowed = rule.Presence
	}
	caller := config.CallerUser
	if c.User == "" {
		caller = config.CallerAnonymous
	}
	if a.insecure || slices.Contains(allowed, caller) {
		return nil
	}
	return push.ErrPermissionDenied
}

// allow implements api.Options.Allow. Unknown namespaces are left for the hub to refuse.
func (a *access) allow(channel string, action api.Action) bool {
	rule, ok := a.rules[push.Namespace(channel)]
	if !ok || a.insecure {
		return true
	}
	switch action {
	case api.Publish:
		return slices.Contains(rule.Publish, config.CallerAPI)
	case api.History:
		return slices.Contains(rule.History, config.CallerAPI)
	default:
		return slices.Contains(rule.Presence, config.CallerAPI)
	}
}

// authorize implements api.Options.Authorize.
func (a *access) authorize(key string, scope api.Scope) (known, allowed bool) {
	if a.insecure {
		return true, true
	}
	for i := range a.keys {
		if a.keys[i].Hash.Match(key) { // all are compared, so that the time says nothing about which
			known = true
			allowed = slices.Contains(a.keys[i].Scopes, config.Scope(scope))
		}
	}
	return known, allowed
}
