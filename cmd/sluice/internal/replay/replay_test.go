package replay_test

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"pgregory.net/rapid"

	"github.com/sluice-push/sluice/cmd/sluice/internal/recording"
	"github.com/sluice-push/sluice/cmd/sluice/internal/replay"
)

// TestRealRecordings replays trades and quotes of two exchanges. Every channel receives exactly the frames of its symbol.
func TestRealRecordings(t *testing.T) {
	folder := "../../../../testdata"
	if full := os.Getenv("SLUICE_DATA"); full != "" {
		folder = full
	}
	var files []string
	for _, name := range []string{"spot_btcusdt_20240808.gz", "spot_ethusdt_20240808.gz"} {
		files = append(files, filepath.Join(folder, "binance-2024-08-08", name))
	}
	files = append(files, filepath.Join(folder, "exchange-frames", "COINBASE.ws.28.0.gz"))
	want := map[string][]string{}
	unnamed := int64(0)
	for _, file := range files {
		for _, f := range frames(t, file) {
			if f.Symbol == "" {
				unnamed++
				continue
			}
			want["ticks:"+f.Symbol] = append(want["ticks:"+f.Symbol], string(f.Data))
		}
	}
	s := newSink(t)
	sum, err := replay.Run(t.Context(), replay.Options{
		Files: files, Publisher: s, Channel: "ticks:{symbol}", Key: "{symbol}", Speed: replay.Max,
	})
	if err != nil {
		t.Fatal(err)
	}
	s.check(sum)
	got := s.channels()
	for name, data := range want {
		if !slices.Equal(got[name], data) {
			t.Errorf("%s got %d publications that are not the %d of the recording", name, len(got[name]), len(data))
		}
	}
	if len(got) != len(want) || sum.SkippedNoSymbol != unnamed {
		t.Errorf("%d channels, %d frames left out; want %d, %d", len(got), sum.SkippedNoSymbol, len(want), unnamed)
	}
	if sum.Position.Frame != sum.Published+unnamed {
		t.Errorf("the position is frame %d of %d", sum.Position.Frame, sum.Published+unnamed)
	}
	for _, p := range s.got {
		if p.channel != "ticks:"+p.key {
			t.Fatalf("channel %s got key %s", p.channel, p.key)
		}
	}
	t.Log(sum)
}

// TestMerge replays random recordings with publications of random duration. Some times are equal or go back. For each symbol the frames of each
// file keep their order, and a channel for all symbols receives them in the order of plainMerge.
func TestMerge(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		times := rapid.SliceOfN(rapid.SliceOfN(rapid.IntRange(0, 20), 0, 40), 1, 4).Draw(rt, "times by file")
		symbols := rapid.IntRange(1, 5).Draw(rt, "symbols")
		workers := rapid.IntRange(-1, 4).Draw(rt, "lanes")
		queue := rapid.IntRange(-1, 3).Draw(rt, "queue")
		seed := rapid.Uint64().Draw(rt, "seed")

		var files []string
		for f, list := range times {
			var text strings.Builder
			for i, at := range list {
				fmt.Fprintf(&text, "%d {\"s\":\"S%d\",\"file\":%d,\"i\":%d}\n", at, (i*7+f)%symbols, f, i)
			}
			files = append(files, write(t, fmt.Sprint("f", f), text.String()))
		}
		replayOnce := func(channel string) (got map[string][]string) {
			synctest.Test(t, func(t *testing.T) {
				random := rand.New(rand.NewPCG(seed, 0))
				s := newSink(t)
				s.process = func(ctx context.Context, _ replay.Publication) error {
					s.mu.Lock()
					d := time.Duration(random.IntN(3)) * time.Millisecond
					s.mu.Unlock()
					select {
					case <-time.After(d):
						return nil
					case <-ctx.Done():
						return ctx.Err()
					}
				}
				sum, err := replay.Run(t.Context(), replay.Options{
					Files: files, Publisher: s, Channel: channel, Speed: replay.Max, Workers: workers, Queue: queue,
				})
				if err != nil {
					t.Error(err)
				}
				s.check(sum)
				got = s.channels()
			})
			return got
		}

		merged := plainMerge(times, symbols)
		bySymbol := map[string][]string{}
		for _, m := range merged {
			bySymbol[m.symbol] = append(bySymbol[m.symbol], m.data)
		}
		got := replayOnce("{symbol}")
		for symbol, want := range bySymbol {
			if !slices.Equal(got[symbol], want) {
				rt.Errorf("%s got\n%v, want\n%v", symbol, got[symbol], want)
			}
		}
		var all []string
		for _, m := range merged {
			all = append(all, m.data)
		}
		if got := replayOnce("all")["all"]; !slices.Equal(got, all) {
			rt.Errorf("all got\n%v, want\n%v", got, all)
		}
	})
}

type mergedFrame struct{ symbol, data string }

// plainMerge repeatedly takes the earliest of the files' next frames, and among equal ones that of the first file.
func plainMerge(times [][]int, symbols int) (out []mergedFrame) {
	at := make([]int, len(times))
	for {
		best := -1
		for f, list := range times {
			if at[f] < len(list) && (best < 0 || list[at[f]] < times[best][at[best]]) {
				best = f
			}
		}
		if best < 0 {
			return out
		}
		i := at[best]
		at[best]++
		symbol := fmt.Sprintf("S%d", (i*7+best)%symbols)
		out = append(out, mergedFrame{symbol, fmt.Sprintf(`{"s":"%s","file":%d,"i":%d}`, symbol, best, i)})
	}
}

func TestTemplates(t *testing.T) {
	file := write(t, "feed.gz", "1 {\"s\":\"a\"}\n2 {\"x\":1}\n3 {\"s\":\"b\"}\n")
	tests := []struct {
		channel, key string
		want         []publication
		skipped      int64
	}{
		{channel: "ticks:{symbol}", want: []publication{{channel: "ticks:A"}, {channel: "ticks:B"}}, skipped: 1},
		{channel: "all", want: []publication{{channel: "all"}, {channel: "all"}, {channel: "all"}}},
		{channel: "all", key: "{symbol}", want: []publication{{channel: "all", key: "A"}, {channel: "all", key: "B"}}, skipped: 1},
		{
			channel: "{file}:x{file}", key: "k",
			want: []publication{{channel: "feed:xfeed", key: "k"}, {channel: "feed:xfeed", key: "k"}, {channel: "feed:xfeed", key: "k"}},
		},
		{channel: "{symbol}{symbol}", key: "{file}/{symbol}", want: []publication{{channel: "AA", key: "feed/A"}, {channel: "BB", key: "feed/B"}}, skipped: 1},
	}
	for _, tt := range tests {
		t.Run(tt.channel+" "+tt.key, func(t *testing.T) {
			s := newSink(t)
			sum, err := replay.Run(t.Context(), replay.Options{
				Files: []string{file}, Publisher: s, Channel: tt.channel, Key: tt.key, Speed: replay.Max, Workers: -1,
			})
			if err != nil {
				t.Fatal(err)
			}
			s.check(sum)
			var got []publication
			for _, p := range s.got {
				got = append(got, publication{channel: p.channel, key: p.key})
			}
			if !slices.Equal(got, tt.want) || sum.SkippedNoSymbol != tt.skipped {
				t.Errorf("got %v and %d left out, want %v and %d", got, sum.SkippedNoSymbol, tt.want, tt.skipped)
			}
		})
	}
}

func TestOptions(t *testing.T) {
	file := write(t, "feed", "1 {}\n")
	good := replay.Options{Files: []string{file}, Publisher: newSink(t), Channel: "all"}
	tests := []struct {
		name   string
		change func(*replay.Options)
		want   string
	}{
		{"no files", func(o *replay.Options) { o.Files = nil }, "replay: no files"},
		{"no publisher", func(o *replay.Options) { o.Publisher = nil }, "replay: no publisher"},
		{"no channel", func(o *replay.Options) { o.Channel = "" }, "replay: no channel"},
		{"no number", func(o *replay.Options) { o.Speed = replay.Speed(math.NaN()) }, "replay: speed NaN is not valid: use a number greater than 0, or max"},
		{"infinite", func(o *replay.Options) { o.Speed = replay.Speed(math.Inf(1)) }, "replay: speed +Inf is not valid: use a number greater than 0, or max"},
		{"unknown placeholder", func(o *replay.Options) { o.Channel = "a{sym}" }, `replay: channel: "a{sym}" has an unknown placeholder {sym}: use {symbol} or {file}`},
		{"open brace", func(o *replay.Options) { o.Key = "{symbol" }, `replay: key: "{symbol" has an unmatched brace: write {symbol} or {file}`},
		{"closing brace", func(o *replay.Options) { o.Key = "symbol}{file}" }, `replay: key: "symbol}{file}" has an unmatched brace: write {symbol} or {file}`},
		{
			"missing file", func(o *replay.Options) { o.Files = []string{file, "/does/not/exist"} },
			"recording: /does/not/exist: open: no such file or directory",
		},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			o := good
			tt.change(&o)
			if _, err := replay.Run(t.Context(), o); err == nil || err.Error() != tt.want {
				t.Errorf("got error %v, want %s", err, tt.want)
			}
		})
	}
	if _, err := replay.Run(t.Context(), replay.Options{Files: []string{"/does/not/exist"}, Publisher: newSink(t), Channel: "x"}); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("a missing file: %v", err)
	}
}

func TestBrokenRecording(t *testing.T) {
	good := write(t, "good", "1 {\"s\":\"A\"}\n9 {\"s\":\"A\"}\n")
	tests := []struct {
		name, text string
		opts       replay.Options
		published  int64
		line       int
	}{
		{name: "first line", text: "hello\n", line: 1},
		{name: "later line", text: "2 {}\n3 {}\n4 {\n", published: 3, line: 3},
		{name: "line too long", text: "2 {}\n3 \"aaaaaaaaaaa\"\n", opts: replay.Options{MaxLine: 12}, published: 2, line: 2},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			bad := write(t, "bad", tt.text)
			s := newSink(t)
			o := tt.opts
			o.Files, o.Publisher, o.Channel, o.Speed = []string{good, bad}, s, "all", replay.Max
			sum, err := replay.Run(t.Context(), o)
			var typed *recording.Error
			if !errors.As(err, &typed) || typed.File != bad || typed.Line != tt.line {
				t.Errorf("got error %v, want line %d of %s", err, tt.line, bad)
			}
			s.check(sum)
			if sum.Published != tt.published {
				t.Errorf("%d publications before the error, want %d", sum.Published, tt.published)
			}
		})
	}
}
