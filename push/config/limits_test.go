package config_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/sluice-push/sluice/push/config"
)

// TestLimitRanges: every limit is valid at both ends of its range, and not one beyond them.
func TestLimitRanges(t *testing.T) {
	const none = -1 // the range has no end that a configuration could reach
	tests := []struct {
		key       string
		broker    string
		low, high int64
	}{
		{"message_bytes", "memory", 128, 64 << 20},
		{"message_bytes", "nats", 128, 31 << 20},
		{"send_buffer", "nats", 4 << 10, 64 << 20},
		{"backlog", "nats", 1 << 20, 1 << 50}, // and 0
		{"sessions", "nats", 0, none},
		{"sessions_per_address", "nats", 0, none},
		{"sessions_per_user", "nats", 0, none},
		{"connects", "nats", 0, 1_000_000},
		{"connects_per_address", "nats", 0, 1_000_000},
		{"commands_per_session", "nats", 0, 1_000_000},
		{"commands_per_address", "nats", 0, 1_000_000},
		{"bytes_per_session", "nats", 0, 4 << 30},
		{"subscriptions_per_session", "nats", 0, none},
		{"bandwidth", "nats", 0, 4 << 30},
		{"token_checks", "nats", 0, 10_000},
	}
	for _, tt := range tests {
		t.Run(tt.broker+"/"+tt.key, func(t *testing.T) {
			check := func(value int64, want bool) {
				t.Helper()
				text := fmt.Sprintf("broker: {kind: %s}\nlimits: {%s: %d}\n", tt.broker, tt.key, value)
				_, err := config.Parse("config.yaml", []byte(text), nil, nil)
				if want && err != nil {
					t.Errorf("%d: %v", value, err)
				}
				if e := new(config.Error); !want && (!errors.As(err, &e) || strings.Count(err.Error(), "limits."+tt.key+":") != 1) {
					t.Errorf("%d: %v, want one error about limits.%s", value, err, tt.key)
				}
			}
			check(tt.low, true)
			check(tt.low-1, false)
			if tt.high != none {
				check(tt.high, true)
				check(tt.high+1, false)
			}
		})
	}
}
