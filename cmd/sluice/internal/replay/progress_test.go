package replay_test

import (
	"context"
	"errors"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/sluice-push/sluice/cmd/sluice/internal/replay"
)

// TestProgress replays twenty frames, one every second, of a file that is smaller than every buffer.
func TestProgress(t *testing.T) {
	start := time.Date(2024, 8, 8, 23, 54, 0, 0, time.UTC)
	var text strings.Builder
	for i := range 20 {
		text.WriteString(stamp(start.Add(time.Duration(i)*time.Second)) + " {\"s\":\"A\"}\n")
	}
	file := write(t, "feed", text.String())
	synctest.Test(t, func(t *testing.T) {
		s := newSink(t)
		var got []replay.Progress
		_, err := replay.Run(t.Context(), replay.Options{
			Files: []string{file}, Publisher: s, Channel: "ticks:{symbol}", ProgressEvery: 4300 * time.Millisecond,
			Progress: func(p replay.Progress) { got = append(got, p) },
		})
		if err != nil {
			t.Fatal(err)
		}
		if len(got) != 5 {
			t.Fatalf("%d reports, want 5", len(got))
		}
		for i, p := range got[:4] {
			elapsed := time.Duration(i+1) * 4300 * time.Millisecond
			frames := int64(elapsed/time.Second) + 1
			want := replay.Position{Frame: frames, Time: start.Add(time.Duration(frames-1) * time.Second).UnixNano()}
			if p.Elapsed != elapsed || p.Published != frames || p.Bytes != 9*frames || p.Position != want || p.Done {
				t.Errorf("report %d is %+v", i, p)
			}
			// The reader is one frame ahead: it has read that frame and waits until it is due.
			if f := float64(frames+1) / 20; math.Abs(p.Fraction-f) > 1e-9 {
				t.Errorf("report %d: fraction %v, want %v", i, p.Fraction, f)
			}
			if left := float64(elapsed) * (1 - p.Fraction) / p.Fraction; math.Abs(float64(p.Left)-left) > 1 {
				t.Errorf("report %d: left %v", i, p.Left)
			}
			if p.Rate < 4/4.3-1e-9 || p.Rate > 5/4.3+1e-9 {
				t.Errorf("report %d: %v publications a second", i, p.Rate)
			}
		}
		if end := got[4]; !end.Done || end.Published != 20 || end.Fraction != 1 || end.Left != 0 || end.Elapsed != 19*time.Second {
			t.Errorf("the last report is %+v", end)
		}
	})
}

// TestProgressOfCompressed: the fraction also grows evenly for a compressed file.
func TestProgressOfCompressed(t *testing.T) {
	file := filepath.Join("../../../../testdata", "binance-2024-08-08", "spot_btcusdt_20240808.gz")
	synctest.Test(t, func(t *testing.T) {
		s := newSink(t)
		var got []replay.Progress
		_, err := replay.Run(t.Context(), replay.Options{
			Files: []string{file}, Publisher: s, Channel: "all", Speed: replay.RealTime,
			Progress: func(p replay.Progress) { got = append(got, p) },
		})
		if err != nil {
			t.Fatal(err)
		}
		before := 0.0
		for _, p := range got {
			if p.Fraction < before || p.Fraction > 1 {
				t.Errorf("after %v the fraction is %v, before it was %v", p.Elapsed, p.Fraction, before)
			}
			if want := float64(p.Published) / 5509; math.Abs(p.Fraction-want) > 0.2 {
				t.Errorf("after %v the fraction is %v, of the frames %v are published", p.Elapsed, p.Fraction, want)
			}
			before = p.Fraction
		}
		if len(got) < 50 || before != 1 {
			t.Errorf("%d reports, the last at %v", len(got), before)
		}
	})
}

// TestRetryError: a report has the reason if nothing is accepted, and only then.
func TestRetryError(t *testing.T) {
	file := write(t, "feed", "0 {}\n3500000000 {}\n9000000000 {}\n")
	synctest.Test(t, func(t *testing.T) {
		s := newSink(t)
		var accepted time.Duration // time of the first acceptance; the pauses between attempts are random
		s.process = func(context.Context, replay.Publication) error {
			since := time.Since(s.start)
			if since < 2500*time.Millisecond {
				return fmt.Errorf("publish: %w", refusal{temporary: true})
			}
			if accepted == 0 {
				accepted = since
			}
			return nil
		}
		var got []string
		_, err := replay.Run(t.Context(), replay.Options{Files: []string{file}, Publisher: s, Channel: "x", Progress: func(p replay.Progress) {
			if p.RetryError != nil {
				got = append(got, fmt.Sprint(p.Elapsed, " ", p.RetryError))
			}
		}})
		var want []string
		for at := time.Second; at <= accepted; at += time.Second {
			want = append(want, at.String()+" publish: "+refusal{}.Error())
		}
		if err != nil || len(want) < 2 || !slices.Equal(got, want) {
			t.Errorf("got %q, want %q, %v", got, want, err)
		}
	})
}

func TestProgressAtTheEndOnly(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newSink(t)
		s.process = func(context.Context, replay.Publication) error { <-time.After(time.Minute); return refusal{} }
		var got []bool
		_, err := replay.Run(t.Context(), replay.Options{
			Files: []string{write(t, "feed", "1 {}\n")}, Publisher: s, Channel: "x", ProgressEvery: -1,
			Progress: func(p replay.Progress) { got = append(got, p.Done) },
		})
		if err == nil || !slices.Equal(got, []bool{true}) {
			t.Errorf("reports %v, error %v", got, err)
		}
	})
}

var shown = []replay.Progress{
	{Fraction: -1, Left: -1, Elapsed: 900 * time.Millisecond},
	{
		Published: 1999, Rate: 1999.4, Fraction: 0.019, Elapsed: time.Second, Left: 51*time.Second + 630*time.Millisecond,
		Position: replay.Position{Frame: 2001, Time: time.Date(2024, 8, 8, 23, 54, 14, 999, time.UTC).UnixNano()}, Skipped: 2,
	},
	{
		Published: 1_234_567, Rate: 246_000, Fraction: 0.99, Elapsed: 5100 * time.Millisecond, Left: time.Hour + 2*time.Minute + 3*time.Second,
		Position: replay.Position{Frame: 1_234_569, Time: time.Date(2024, 8, 9, 0, 0, 0, 0, time.UTC).UnixNano()}, Skipped: 2,
		Retried: 1000, Behind: 2345 * time.Millisecond,
	},
	{Published: 1_234_568, Rate: 1, Fraction: 0.99, Left: -1, Elapsed: 9 * time.Second, Behind: 999 * time.Millisecond},
	{Published: 2_000_000, Rate: 2, Fraction: 1, Left: -1, Elapsed: 10 * time.Second, RetryError: errors.New("busy")},
	{Published: 2_500_000, Rate: 210_000, Fraction: 1, Elapsed: 11*time.Second + 940*time.Millisecond, Behind: time.Minute, Done: true},
}

func TestProgressLine(t *testing.T) {
	tests := []struct {
		name     string
		terminal bool
		want     []string
	}{
		{"terminal", true, []string{
			"\r0 published  0/s\x1b[K",
			"\r  1%  1,999 published  1,999/s  at 2024-08-08 23:54:14  left 51.6s  2 without symbol\x1b[K",
			"\r 99%  1,234,567 published  246,000/s  at 2024-08-09 00:00:00  left 1h2m3s  behind 2.3s  2 without symbol  1,000 retried\x1b[K",
			"\r 99%  1,234,568 published  1/s\x1b[K",
			"\r100%  2,000,000 published  2/s  retrying: busy\x1b[K",
			"\r100%  2,500,000 published  210,000/s  in 11.9s\x1b[K\n",
		}},
		{"elsewhere", false, []string{
			" 99%  1,234,567 published  246,000/s  at 2024-08-09 00:00:00  left 1h2m3s  behind 2.3s  2 without symbol  1,000 retried\n",
			"100%  2,000,000 published  2/s  retrying: busy\n",
			"100%  2,500,000 published  210,000/s  in 11.9s\n",
		}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			var out strings.Builder
			l := replay.NewProgressLine(&out, tt.terminal)
			for _, p := range shown {
				l.Show(p)
			}
			if want := strings.Join(tt.want, ""); out.String() != want {
				t.Errorf("got\n%q, want\n%q", out.String(), want)
			}
		})
	}
}

func TestIsTerminal(t *testing.T) {
	f, err := os.Create(filepath.Join(t.TempDir(), "out"))
	if err != nil {
		t.Fatal(err)
	}
	if replay.IsTerminal(f) {
		t.Error("a file is taken for a terminal")
	}
	if err := f.Close(); err != nil {
		t.Fatal(err)
	}
	if replay.IsTerminal(f) {
		t.Error("a closed file is taken for a terminal")
	}
}

func TestSummaryText(t *testing.T) {
	two := map[string]replay.ChannelSummary{"a": {}, "b": {}}
	tests := []struct {
		sum  replay.Summary
		want string
	}{
		{replay.Summary{}, "0 publications to 0 channels in 0s"},
		{
			replay.Summary{Published: 1, Bytes: 50_000, Duration: 500 * time.Millisecond, Channels: map[string]replay.ChannelSummary{"a": {}}},
			"1 publication to 1 channel in 500ms, 2/s, 0.1 MB/s",
		},
		{
			replay.Summary{Published: 396_195, SkippedNoSymbol: 1, Retried: 1234, Bytes: 115e6, Duration: 10 * time.Second, Channels: two},
			"396,195 publications to 2 channels in 10s, 39,619/s, 11.5 MB/s; 1 frame without symbol skipped; 1,234 refusals retried",
		},
		{
			replay.Summary{Published: 1000, Duration: 100 * time.Second, Channels: two},
			"1,000 publications to 2 channels in 1m40s, 10/s, 0.0 MB/s",
		},
	}
	for _, tt := range tests {
		if got := tt.sum.String(); got != tt.want {
			t.Errorf("got\n%s, want\n%s", got, tt.want)
		}
	}
}
