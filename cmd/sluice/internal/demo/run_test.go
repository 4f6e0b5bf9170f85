package demo_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"log/slog"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/sluice-push/sluice/cmd/sluice/internal/demo"
)

func TestRun(t *testing.T) {
	tests := []struct {
		name    string
		opts    *demo.Options
		channel func(symbol string) string
	}{
		{"defaults", nil, func(string) string { return "quotes:all" }},
		{"a channel for each", &demo.Options{Channel: "ticks:{symbol}", Interval: time.Second}, func(s string) string { return "ticks:" + s }},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
				defer cancel()
				f := demo.New(1)
				seen := map[string]bool{}
				n := int64(0)
				f.Run(ctx, func(channel, key string, data []byte) error {
					n++
					seen[key] = true
					if channel != tt.channel(key) || !json.Valid(data) || !bytes.HasPrefix(data, []byte(`{"symbol":"`+key+`",`)) {
						t.Errorf("%s, %s: %s", channel, key, data)
					}
					return nil
				}, tt.opts)
				if got := f.Stats(); got != (demo.Stats{Published: n}) || n < 5500 || n > 6500 || len(seen) != 50 {
					t.Errorf("%+v, %d publications of %d symbols in a minute", got, n, len(seen))
				}
			})
		})
	}
}

// TestRunErrors: errors are counted and sometimes logged, and do not end the feed.
func TestRunErrors(t *testing.T) {
	ticks := make(chan time.Time)
	go func() {
		defer close(ticks)
		for i := range 21 {
			ticks <- start.Add(time.Duration(i) * time.Second)
		}
	}()
	var log strings.Builder
	f := demo.New(1)
	n := int64(0)
	f.Run(t.Context(), func(string, string, []byte) error {
		if n++; n%2 == 0 {
			return errors.New("namespace is unknown")
		}
		return nil
	}, &demo.Options{Ticks: ticks, Logger: slog.New(slog.NewTextHandler(&log, nil))})
	if got := f.Stats(); got.Published+got.Failed != n || got.Failed != n/2 || n < 1500 {
		t.Errorf("%+v of %d", got, n)
	}
	want := `level=WARN msg="demo feed failed to publish" channel=quotes:all failed=1 error="namespace is unknown"`
	if got := log.String(); strings.Count(got, "\n") != 3 || !strings.Contains(got, want) {
		t.Errorf("the log has\n%s, want three lines, the first with\n%s", got, want)
	}
}

// TestRunEnds: a feed stops in the middle of a step.
func TestRunEnds(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	ticks := make(chan time.Time, 1)
	ticks <- start
	f := demo.New(1)
	f.Run(ctx, func(string, string, []byte) error {
		cancel()
		return nil
	}, &demo.Options{Ticks: ticks})
	if got := f.Stats(); got.Published != 1 {
		t.Errorf("%+v after the end", got)
	}
}
