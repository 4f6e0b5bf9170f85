package config_test

import (
	"strings"
	"testing"

	"github.com/sluice-push/sluice/push/cluster"
	"github.com/sluice-push/sluice/push/config"
)

// Limits that make each other unreachable cause warnings, and commands for all allowed subscriptions fit in one message.
func TestWarnings(t *testing.T) {
	for name, tt := range map[string]struct {
		limits config.Limits
		want   string // the subject of the only warning; empty if there is none
		frame  int
	}{
		"default":           {config.Default().Limits, "", 128 << 10},
		"many channels":     {config.Limits{SubscriptionsPerSession: 20_000, CommandsPerSession: 1000, CommandsPerAddress: 1000}, "commands_per_session", 16 << 20},
		"no bound":          {config.Limits{CommandsPerSession: 1000, CommandsPerAddress: 1000}, "commands_per_session", 16 << 20},
		"no rates":          {config.Limits{}, "", 16 << 20},
		"address":           {config.Limits{SubscriptionsPerSession: 1, CommandsPerSession: 10, CommandsPerAddress: 5}, "commands_per_address", 64 << 10},
		"more than all":     {config.Limits{SubscriptionsPerSession: 1, Sessions: 5, SessionsPerAddress: 6}, "sessions_per_address", 64 << 10},
		"more connects":     {config.Limits{SubscriptionsPerSession: 1, Connects: 5, ConnectsPerAddress: 6}, "connects_per_address", 64 << 10},
		"a slow connection": {config.Limits{SubscriptionsPerSession: 1, MessageBytes: 1 << 20, Bandwidth: 1 << 10}, "bandwidth", 1<<20 + 64<<10},
	} {
		t.Run(name, func(t *testing.T) {
			got := (&config.Config{Limits: tt.limits}).Warnings()
			if tt.want == "" && len(got) != 0 || tt.want != "" && (len(got) != 1 || !strings.Contains(got[0], "limits."+tt.want+":")) {
				t.Errorf("%q, want one about %q", got, tt.want)
			}
			if n := tt.limits.FrameBytes(); n != tt.frame {
				t.Errorf("a message of many commands may have %d bytes, want %d", n, tt.frame)
			}
		})
	}
}

// Hubs that share no broker do not have the same publications.
func TestWarningOfHubs(t *testing.T) {
	c := config.Default()
	c.Role = cluster.Hub
	if got := c.Warnings(); len(got) != 1 || !strings.Contains(got[0], "broker.nats.url") {
		t.Errorf("%q, want one about broker.nats.url", got)
	}
	if c.Broker.NATS.URL = "nats://h:4222"; len(c.Warnings()) != 0 {
		t.Errorf("%q, want none", c.Warnings())
	}
}
