package main

import (
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/sluice-push/sluice/cmd/sluice/internal/recording"
)

// TestFeed applies recordings and compares each book with the exchange's quotes. It uses the excerpt in the repository, and the full recordings
// if SLUICE_DATA names their folder.
func TestFeed(t *testing.T) {
	type tape struct {
		name    string
		changes int
		quotes  int // number of updates with a best quote of the exchange
	}
	all := map[string][]tape{cut: {{cutName, 5385, 24}}}
	if folder := os.Getenv("SLUICE_DATA"); folder != "" {
		all[filepath.Join(folder, "binance-2024-08-08")] = []tape{
			{"spot_btcusdt_20240808", 124048, 564},
			{"spot_ethusdt_20240808", 106759, 577},
			{"usdm_btcusdt_20240808", 443260, 629},
			{"cm_btcusd_perp_20240808", 295655, 1124},
		}
	}
	for folder, tapes := range all {
		for _, want := range tapes {
			t.Run(want.name, func(t *testing.T) {
				f, err := readFeed(filepath.Join(folder, want.name+".gz"), "books:x", isFutures(want.name), 0)
				if err != nil {
					t.Fatal(err)
				}
				got := tape{want.name, f.changed(), checkFeed(t, f)}
				if got != want || len(f.start) != 2000 {
					t.Errorf("%+v after %d levels, want %+v after 2000", got, len(f.start), want)
				}
			})
		}
	}
}

// checkFeed applies a feed, compares it with every quote, and returns the number of quotes.
func checkFeed(t *testing.T, f *feed) (quotes int) {
	t.Helper()
	b := book{}
	for _, c := range f.start {
		b.apply(c)
	}
	for i := range f.frames {
		frame := &f.frames[i]
		for _, c := range frame.changes {
			b.apply(c)
		}
		if frame.best == nil {
			continue
		}
		quotes++
		if got, err := b.quote(); err != nil || got != *frame.best {
			t.Fatalf("after update %d the best are %v (%v), the exchange says %v", frame.update, got, err, *frame.best)
		}
	}
	return quotes
}

// TestFeedTime: frames after the time limit are not read.
func TestFeedTime(t *testing.T) {
	f, err := readFeed(filepath.Join(cut, cutName+".gz"), "books:x", false, 5*time.Second)
	if err != nil {
		t.Fatal(err)
	}
	first, last := f.frames[0], f.frames[len(f.frames)-1]
	if took := time.Duration(last.at - first.at); took > 5*time.Second || took < time.Second || last.best == nil {
		t.Errorf("%v were read, and in the end the exchange says %v", took, last.best)
	}
	checkFeed(t, f)
}

// TestFeedRefuses: incomplete recordings are refused.
func TestFeedRefuses(t *testing.T) {
	lines := linesOf(t, filepath.Join(cut, cutName+".gz"))
	is := func(what string) func(string) bool { return func(l string) bool { return strings.Contains(l, what) } }
	for name, tt := range map[string]struct {
		leave func(i int, line string) bool
		want  string
	}{
		"a gap":       {func(i int, l string) bool { return i == 100 && is("@depth")(l) }, "does not follow"},
		"no straddle": {func(i int, l string) bool { return i < 10 && is("@depth")(l) }, "does not straddle"},
		"no snapshot": {func(_ int, l string) bool { return is("lastUpdateId")(l) }, "no snapshot"},
		"no quotes":   {func(_ int, l string) bool { return is("@bookTicker")(l) }, "no best quote"},
	} {
		t.Run(name, func(t *testing.T) {
			var kept []string
			for i, l := range lines {
				if !tt.leave(i, l) {
					kept = append(kept, l)
				}
			}
			if len(kept) == len(lines) {
				t.Fatal("no line was left out")
			}
			path := filepath.Join(t.TempDir(), "recording")
			if err := os.WriteFile(path, []byte(strings.Join(kept, "\n")), 0o600); err != nil {
				t.Fatal(err)
			}
			if _, err := readFeed(path, "books:x", false, 0); err == nil || !strings.Contains(err.Error(), tt.want) {
				t.Errorf("error %v, want one with %q", err, tt.want)
			}
		})
	}
}

// linesOf returns the lines of a recording.
func linesOf(t *testing.T, path string) (lines []string) {
	t.Helper()
	r, err := recording.Open(path, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	for f, err := r.Next(); err == nil; f, err = r.Next() {
		lines = append(lines, strconv.FormatInt(f.Time, 10)+" "+string(f.Data))
	}
	return lines
}
