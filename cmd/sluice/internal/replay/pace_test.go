package replay_test

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/sluice-push/sluice/cmd/sluice/internal/replay"
)

// Frames at 0, 100 ms, 100 ms, 50 ms (a step back) and 1.1 s.
const paced = "1000000000 {\"n\":0}\n1100000000 {\"n\":1}\n1100000000 {\"n\":2}\n1050000000 {\"n\":3}\n2100000000 {\"n\":4}\n"

func TestPace(t *testing.T) {
	const ms = time.Millisecond
	tests := []struct {
		name  string
		speed replay.Speed
		want  []time.Duration
	}{
		{"default", 0, []time.Duration{0, 100 * ms, 100 * ms, 100 * ms, 1100 * ms}},
		{"real time", replay.RealTime, []time.Duration{0, 100 * ms, 100 * ms, 100 * ms, 1100 * ms}},
		{"ten times", 10, []time.Duration{0, 10 * ms, 10 * ms, 10 * ms, 110 * ms}},
		{"half", 0.5, []time.Duration{0, 200 * ms, 200 * ms, 200 * ms, 2200 * ms}},
		{"as fast as possible", replay.Max, []time.Duration{0, 0, 0, 0, 0}},
	}
	file := write(t, "feed", paced)
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := newSink(t)
				sum, err := replay.Run(t.Context(), replay.Options{Files: []string{file}, Publisher: s, Channel: "all", Speed: tt.speed})
				if err != nil {
					t.Fatal(err)
				}
				var got []time.Duration
				for _, p := range s.got {
					got = append(got, p.after)
				}
				if last := tt.want[len(tt.want)-1]; !slices.Equal(got, tt.want) || sum.Duration != last {
					t.Errorf("published at %v, ended after %v; want %v", got, sum.Duration, tt.want)
				}
			})
		})
	}
}

// TestHeldUp: if a publisher was slow for a while, the replay catches up as soon as it can.
func TestHeldUp(t *testing.T) {
	file := write(t, "feed", paced)
	synctest.Test(t, func(t *testing.T) {
		s := newSink(t)
		first := true
		s.process = func(context.Context, replay.Publication) error {
			if first {
				<-time.After(time.Second)
			}
			first = false
			return nil
		}
		var behind []time.Duration
		_, err := replay.Run(t.Context(), replay.Options{
			Files: []string{file}, Publisher: s, Channel: "all", Workers: -1, Queue: -1,
			ProgressEvery: 1050 * time.Millisecond, Progress: func(p replay.Progress) { behind = append(behind, p.Behind) },
		})
		if err != nil {
			t.Fatal(err)
		}
		var got []time.Duration
		for _, p := range s.got {
			got = append(got, p.after)
		}
		want := []time.Duration{1000, 1000, 1000, 1000, 1100}
		for i := range want {
			want[i] *= time.Millisecond
		}
		if !slices.Equal(got, want) {
			t.Errorf("published at %v, want %v", got, want)
		}
		// The frame of 50 ms was due at once, and was passed on when the second worker had room, at 1 s.
		if want := []time.Duration{950 * time.Millisecond, 0}; !slices.Equal(behind, want) {
			t.Errorf("behind by %v, want %v", behind, want)
		}
	})
}

// TestStop ends the context in every situation in which a replay waits.
func TestStop(t *testing.T) {
	block := func(ctx context.Context, _ replay.Publication) error {
		<-ctx.Done()
		return ctx.Err()
	}
	refuse := func(context.Context, replay.Publication) error { return refusal{temporary: true} }
	many := strings.Repeat("1 {\"s\":\"A\"}\n", 200)
	tests := []struct {
		name, text string
		process    func(context.Context, replay.Publication) error
		speed      replay.Speed
		published  int64
	}{
		{"waiting for the next frame", "1 {}\n5000000000 {}\n9000000000000 {}\n", nil, replay.RealTime, 2},
		{"waiting for the publisher", "1 {}\n", block, replay.Max, 0},
		{"waiting for room", many, block, replay.Max, 0},
		{"waiting to try again", many, refuse, replay.Max, 0},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			file := write(t, "feed", tt.text)
			synctest.Test(t, func(t *testing.T) {
				ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
				defer cancel()
				s := newSink(t)
				s.process = tt.process
				sum, err := replay.Run(ctx, replay.Options{Files: []string{file}, Publisher: s, Channel: "all", Speed: tt.speed})
				if !errors.Is(err, context.DeadlineExceeded) || err.Error() != "replay: stopped: context deadline exceeded" {
					t.Errorf("got error %v", err)
				}
				s.check(sum)
				if sum.Published != tt.published || sum.Duration != time.Minute {
					t.Errorf("%d publications in %v", sum.Published, sum.Duration)
				}
			})
		})
	}
	t.Run("nothing to publish", func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		s := newSink(t)
		_, err := replay.Run(ctx, replay.Options{Files: []string{write(t, "feed", "1 {}\n")}, Publisher: s, Channel: "{symbol}"})
		if !errors.Is(err, context.Canceled) {
			t.Errorf("got error %v", err)
		}
	})
}

func TestSpeedText(t *testing.T) {
	for text, want := range map[string]replay.Speed{"1": 1, "10": 10, "0.5": 0.5, "max": replay.Max} {
		var s replay.Speed
		if err := s.UnmarshalText([]byte(text)); err != nil || s != want {
			t.Errorf("%s is %v, error %v", text, s, err)
		}
		back, err := s.MarshalText()
		if err != nil || string(back) != text {
			t.Errorf("%v is written %s, error %v", s, back, err)
		}
	}
	var times replay.Speed
	if err := times.UnmarshalText([]byte("10x")); err != nil || times != 10 {
		t.Errorf("10x is %v, error %v", times, err)
	}
	for _, text := range []string{"", "0", "-1", "fast", "NaN", "Inf", "1e999", "max "} {
		s := replay.Speed(7)
		if err := s.UnmarshalText([]byte(text)); err == nil || s != 7 {
			t.Errorf("%q is taken for %v", text, s)
		}
	}
}
