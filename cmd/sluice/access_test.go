package main

import (
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"testing"

	"github.com/sluice-push/sluice/push"
	"github.com/sluice-push/sluice/push/admission"
	"github.com/sluice-push/sluice/push/auth"
	"github.com/sluice-push/sluice/push/cluster"
	"github.com/sluice-push/sluice/push/config"
	"github.com/sluice-push/sluice/push/gateway"
)

// Hubs have the namespace of revocations, although they know no users: their gateways may.
func TestHubsHaveRevocations(t *testing.T) {
	for _, tt := range []struct {
		role cluster.Role
		want bool
	}{{cluster.Hub, true}, {cluster.Gateway, false}, {cluster.All, false}} {
		cfg := config.Default()
		cfg.Role = tt.role
		if got := len(newAccess(cfg, false, nil, nil).namespaces) > len(cfg.Namespaces); got != tt.want {
			t.Errorf("%v: has it: %t", tt.role, got)
		}
	}
}

// A file with keys that does not exist is an error that names it and the setting.
func TestNoFileWithKeys(t *testing.T) {
	for _, key := range []string{"jwt", "subscription_jwt"} {
		text := fmt.Sprintf("auth: {jwt: {algorithms: [HS256], secret: %q}, %s: {algorithms: [HS256], secret_file: /nowhere}}", strings.Repeat("s", 32), key)
		if key == "jwt" {
			text = "auth: {jwt: {algorithms: [HS256], secret_file: /nowhere}}"
		}
		cfg, err := config.Parse("", []byte(text), nil, nil)
		if err != nil {
			t.Fatal(err)
		}
		_, err = openTokens(cfg, newTokenGate(admission.NewLimits(nil), 0), slog.New(slog.DiscardHandler))
		if err == nil || !strings.Contains(err.Error(), "/nowhere") || !strings.Contains(err.Error(), `setting "auth.`+key+`"`) {
			t.Errorf("%s: %v", key, err)
		}
	}
}

// A client with a token is not treated as anonymous if nothing can check the token.
func TestTokensAreNotPassedOver(t *testing.T) {
	cfg := config.Default()
	cfg.Auth.Anonymous = true
	tokens, err := openTokens(cfg, newTokenGate(admission.NewLimits(nil), 0), slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	defer tokens.close()
	for _, insecure := range []bool{false, true} {
		a := newAccess(cfg, insecure, tokens, nil)
		if _, err := a.authenticate(t.Context(), "", nil); err != nil {
			t.Errorf("insecure %t, no token: %v", insecure, err)
		}
		_, err := a.authenticate(t.Context(), "bogus", nil)
		if (err == nil) != insecure || err != nil && !errors.Is(err, push.DisconnectInvalidToken) {
			t.Errorf("insecure %t, a token: %v", insecure, err)
		}
	}
}

// joinConfig returns a configuration with a namespace for each rule of joins.
func joinConfig() *config.Config {
	cfg := config.Default()
	cfg.Namespaces = nil
	for _, ns := range []struct {
		name        string
		join, force bool
		presence    []config.Caller
	}{
		{"open", true, false, []config.Caller{config.CallerUser}},
		{"closed", true, false, nil},
		{"forced", true, true, nil},
		{"without", false, false, []config.Caller{config.CallerUser}},
	} {
		n := config.DefaultNamespace(ns.name)
		n.JoinLeave, n.ForcePushJoinLeave, n.Allow.Presence = ns.join, ns.force, ns.presence
		cfg.Namespaces = append(cfg.Namespaces, n)
	}
	return cfg
}

// A client gets join and leave pushes if the namespace has them, and the client may read the presence of the channel or all subscribers get them.
func TestJoinLeaveRules(t *testing.T) {
	cfg := joinConfig()
	granted := auth.Connection{Token: auth.Token{User: "ann"}, Subscriptions: []auth.ServerSubscription{{Channel: "open:a"}, {Channel: "forced:a"}}}
	a := newAccess(cfg, false, nil, nil)
	id, err := a.identify(&granted)
	if err != nil {
		t.Fatal(err)
	}
	for _, s := range id.Subscriptions {
		if s.JoinLeave != (s.Channel == "forced:a") {
			t.Errorf("the server's subscription to %s has joins: %t", s.Channel, s.JoinLeave)
		}
	}
	no, yes := false, true
	granted.Subscriptions = []auth.ServerSubscription{
		{Channel: "open:a", Override: auth.Override{ForcePushJoinLeave: &yes}},
		{Channel: "forced:a", Override: auth.Override{ForcePushJoinLeave: &no}},
		{Channel: "without:a", Override: auth.Override{ForcePushJoinLeave: &yes}},
	}
	changed, err := a.identify(&granted)
	if err != nil {
		t.Fatal(err)
	}
	for _, s := range changed.Subscriptions {
		if s.JoinLeave != (s.Channel == "open:a") {
			t.Errorf("with an override, the server's subscription to %s has joins: %t", s.Channel, s.JoinLeave)
		}
	}
	capable := id
	capable.Rights = &rights{capabilities: []auth.Capability{{Channels: []string{"closed:*"}, Actions: push.Actions(1 << push.ActionPresence)}}}
	for _, tt := range []struct {
		name       string
		id         *gateway.Identity
		insecure   bool
		channel    string
		may, force bool
	}{
		{"who may read the presence", &id, false, "open:a", true, false},
		{"who may not", &id, false, "closed:a", false, false},
		{"by a capability", &capable, false, "closed:a", true, false},
		{"all", &id, false, "forced:a", false, true},
		{"a namespace without", &id, false, "without:a", false, false},
		{"an insecure node", &gateway.Identity{}, true, "closed:a", true, false},
		{"all of an insecure node", &gateway.Identity{}, true, "forced:a", true, true},
	} {
		a := newAccess(cfg, tt.insecure, nil, nil)
		got, err := a.permit(t.Context(), tt.id, &gateway.PermitRequest{Channel: tt.channel, Action: push.ActionSubscribe})
		if err != nil || got.JoinLeave != tt.may || got.ForceJoinLeave != tt.force {
			t.Errorf("%s: %+v, %v", tt.name, got, err)
		}
	}
	for _, ns := range a.namespaces {
		if ns.Name == "open" && !ns.JoinLeave || ns.Name == "without" && ns.JoinLeave {
			t.Errorf("the hub's namespace %q has joins: %t", ns.Name, ns.JoinLeave)
		}
	}
}
