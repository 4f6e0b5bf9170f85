package replay_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/sluice-push/sluice/cmd/sluice/internal/replay"
)

func manySymbols(n int) string {
	var text strings.Builder
	for i := range n {
		fmt.Fprintf(&text, "%d {\"s\":\"S%d\",\"i\":%d}\n", i, i%50, i)
	}
	return text.String()
}

// TestWindow: different channels are published to concurrently, and never more at once than there are workers.
func TestWindow(t *testing.T) {
	file := write(t, "feed", manySymbols(1000))
	for _, tt := range []struct{ workers, most int }{{0, 16}, {4, 4}, {-1, 1}} {
		t.Run(fmt.Sprint(tt.workers), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := newSink(t)
				s.process = func(context.Context, replay.Publication) error {
					<-time.After(time.Millisecond)
					return nil
				}
				sum, err := replay.Run(t.Context(), replay.Options{
					Files: []string{file}, Publisher: s, Channel: "{symbol}", Speed: replay.Max, Workers: tt.workers,
				})
				if err != nil {
					t.Fatal(err)
				}
				s.check(sum)
				if s.most > tt.most || s.most < (tt.most+1)/2 || sum.Published != 1000 {
					t.Errorf("%d publications, up to %d at once, want %d", sum.Published, s.most, tt.most)
				}
			})
		})
	}
}

func TestTemporaryRefusals(t *testing.T) {
	file := write(t, "feed", manySymbols(200))
	synctest.Test(t, func(t *testing.T) {
		s := newSink(t)
		tries := map[string]int{}
		s.process = func(_ context.Context, p replay.Publication) error {
			s.mu.Lock()
			defer s.mu.Unlock()
			if tries[string(p.Data)]++; tries[string(p.Data)] <= 3 {
				return fmt.Errorf("publish: %w", refusal{temporary: true})
			}
			return nil
		}
		sum, err := replay.Run(t.Context(), replay.Options{Files: []string{file}, Publisher: s, Channel: "{symbol}", Speed: replay.Max})
		if err != nil {
			t.Fatal(err)
		}
		s.check(sum)
		if sum.Published != 200 || sum.Retried != 600 {
			t.Errorf("%d publications after %d refusals", sum.Published, sum.Retried)
		}
		for name, data := range s.channels() {
			for i, d := range data {
				if want := fmt.Sprintf(`{"s":"%s","i":`, name); !strings.HasPrefix(d, want) {
					t.Errorf("%s got %s", name, d)
				}
				if i > 0 && len(d) == len(data[i-1]) && d < data[i-1] {
					t.Errorf("%s got %s after %s", name, d, data[i-1])
				}
			}
		}
	})
}

// TestPauses: the pauses between attempts grow up to a bound.
func TestPauses(t *testing.T) {
	file := write(t, "feed", "1 {}\n")
	synctest.Test(t, func(t *testing.T) {
		s := newSink(t)
		var tries []time.Time
		s.process = func(context.Context, replay.Publication) error {
			if tries = append(tries, time.Now()); len(tries) <= 500 {
				return refusal{temporary: true}
			}
			return nil
		}
		if _, err := replay.Run(t.Context(), replay.Options{Files: []string{file}, Publisher: s, Channel: "x"}); err != nil {
			t.Fatal(err)
		}
		longest := time.Duration(0)
		for i := range len(tries) - 1 {
			d := tries[i+1].Sub(tries[i])
			if bound := min(10*time.Millisecond<<min(i, 10), time.Second); d > bound {
				t.Errorf("pause %d is %v, at most %v is allowed", i, d, bound)
			}
			longest = max(longest, d)
		}
		if longest < 900*time.Millisecond {
			t.Errorf("the longest of %d pauses is %v", len(tries)-1, longest)
		}
	})
}

func TestFinalErrors(t *testing.T) {
	file := write(t, "feed", "1 {\"n\":1}\n\n2 {\"n\":2}\n3 {\"n\":3}\n4 {\"n\":4}\n")
	tests := []struct {
		name string
		err  error
	}{
		{"not temporary by type", errors.New("channel is unknown")},
		{"not temporary by answer", refusal{}},
		{"cancelled by somebody else", context.Canceled},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			s := newSink(t)
			s.process = func(_ context.Context, p replay.Publication) error {
				if string(p.Data) == `{"n":3}` {
					return tt.err
				}
				return nil
			}
			sum, err := replay.Run(t.Context(), replay.Options{Files: []string{file}, Publisher: s, Channel: "x:y", Speed: replay.Max})
			want := fmt.Sprintf("replay: %s:4: publish to \"x:y\": %v", file, tt.err)
			if err == nil || err.Error() != want || !errors.Is(err, tt.err) {
				t.Errorf("got error %v, want %s", err, want)
			}
			s.check(sum)
			if sum.Published != 2 || sum.Retried != 0 {
				t.Errorf("%d publications, %d retries", sum.Published, sum.Retried)
			}
		})
	}
}

// TestFinalErrorStopsAll: an error of one worker ends the waits of the others and of the reader.
func TestFinalErrorStopsAll(t *testing.T) {
	file := write(t, "feed", manySymbols(1000)+"9000000000000 {\"s\":\"LATE\"}\n")
	synctest.Test(t, func(t *testing.T) {
		s := newSink(t)
		cause := errors.New("no")
		s.process = func(ctx context.Context, p replay.Publication) error {
			if p.Channel == "S7" {
				<-time.After(time.Second)
				return cause // at line 8, which is due after 7 ns
			}
			<-ctx.Done()
			return ctx.Err()
		}
		sum, err := replay.Run(t.Context(), replay.Options{Files: []string{file}, Publisher: s, Channel: "{symbol}", Workers: 50})
		var typed *replay.Error
		if !errors.As(err, &typed) || typed.Channel != "S7" || typed.Line != 8 || !errors.Is(err, cause) {
			t.Errorf("got error %v", err)
		}
		if sum.Published != 0 || len(sum.Channels) != 0 || sum.Duration != time.Second+7 {
			t.Errorf("%d publications in %v", sum.Published, sum.Duration)
		}
	})
}
