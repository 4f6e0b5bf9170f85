package replay_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"pgregory.net/rapid"

	"github.com/sluice-push/sluice/cmd/sluice/internal/replay"
)

// memory is a publisher that stores each publication once, however often it is repeated, and interrupts the replay at some point.
type memory struct {
	mu       sync.Mutex
	ids      map[string]bool
	got      map[string][]string // by channel
	repeated int
	left     int // publications until the replay is interrupted
	stop     func()
}

func (m *memory) Publish(ctx context.Context, p replay.Publication) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.ids[p.ID] {
		m.repeated++
		return ctx.Err()
	}
	m.ids[p.ID] = true
	m.got[p.Channel] = append(m.got[p.Channel], string(p.Data))
	if m.left--; m.left == 0 {
		m.stop()
	}
	return ctx.Err() // whether or not p was stored, the replay gets only this error
}

// TestInterruptions replays random recordings in several runs. Each run is interrupted, either in order or as if it was killed. After a kill,
// the checkpoint is the present content of the file, perhaps with half a line at its end. At the end every channel has received everything once,
// in order.
func TestInterruptions(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		frames := rapid.IntRange(1, 300).Draw(rt, "frames")
		symbols := rapid.IntRange(1, 8).Draw(rt, "symbols")
		workers := rapid.IntRange(1, 5)
		var text strings.Builder
		want := map[string][]string{}
		for i := range frames {
			symbol := fmt.Sprintf("s%d", rand.N(symbols))
			data := fmt.Sprintf(`{"s":"%s","i":%d}`, symbol, i)
			fmt.Fprintf(&text, "%d %s\n%d {}\n", i, data, i)
			name := "\"" + strings.ToUpper(symbol) + "\"\n" // the file quotes such names, so that they fit on a line
			want[name] = append(want[name], data)
		}
		o := replay.Options{Files: []string{write(t, "feed", text.String())}, Channel: "\"{symbol}\"\n", Speed: replay.Max}
		store := &memory{ids: map[string]bool{}, got: map[string][]string{}}
		path := filepath.Join(t.TempDir(), "checkpoint")
		for ended := false; !ended; {
			o.Workers, store.left, store.repeated = workers.Draw(rt, "workers"), rapid.IntRange(1, 100).Draw(rt, "left"), 0
			before := o.Workers
			ended = runToInterruption(rt, &o, store, path)
			if store.repeated > max(before, 5) {
				rt.Errorf("%d publications came again", store.repeated)
			}
		}
		for name, data := range want {
			if !slices.Equal(store.got[name], data) {
				rt.Errorf("%s got\n%v, want\n%v", name, store.got[name], data)
			}
		}
	})
}

// runToInterruption runs a replay until it is interrupted, and reports whether it was completed.
func runToInterruption(rt *rapid.T, o *replay.Options, store *memory, path string) (ended bool) {
	checkpoint, err := replay.OpenCheckpoint(path, "here", *o)
	if err != nil {
		rt.Fatal(err)
	}
	defer func() { _ = checkpoint.Close() }()
	var found []byte
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	killed := rapid.Bool().Draw(rt, "killed")
	store.stop = func() {
		cancel()
		if killed {
			if found, err = os.ReadFile(path); err != nil {
				rt.Error(err)
			}
		}
	}
	o.Checkpoint, o.Publisher = checkpoint, store
	if _, err = replay.Run(ctx, *o); err == nil {
		if !checkpoint.Done() {
			rt.Error("the replay ended without an error, the mark says it did not")
		}
		return true
	}
	if !errors.Is(err, context.Canceled) {
		rt.Fatal(err)
	}
	if err := checkpoint.Close(); err != nil {
		rt.Fatal(err)
	}
	if killed {
		if rapid.Bool().Draw(rt, "torn") {
			found = append(found, `12 "S`...)
		}
		if err := os.WriteFile(path, found, 0o600); err != nil {
			rt.Fatal(err)
		}
	}
	return false
}

// TestCheckpointStaysSmall: after very many publications the file has a line for each channel, and the lines since the last rewrite.
func TestCheckpointStaysSmall(t *testing.T) {
	o := replay.Options{
		Files: []string{write(t, "feed", manySymbols(70_000))}, Channel: "{symbol}", Speed: replay.Max, Publisher: nowhere{},
	}
	path := filepath.Join(t.TempDir(), "checkpoint")
	most := int64(0)
	o.ProgressEvery = -1
	o.Publisher = publisherFunc(func() {
		if info, err := os.Stat(path); err == nil {
			most = max(most, info.Size())
		}
	})
	o.Workers = -1
	checkpoint, err := replay.OpenCheckpoint(path, "", o)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = checkpoint.Close() }()
	o.Checkpoint = checkpoint
	sum, err := replay.Run(t.Context(), o)
	if err != nil {
		t.Fatal(err)
	}
	info, err := os.Stat(path)
	if err != nil {
		t.Fatal(err)
	}
	if most > 1<<20 || info.Size() > 2000 || sum.Published != 70_000 {
		t.Errorf("after %d publications the mark has %d bytes, and had up to %d", sum.Published, info.Size(), most)
	}
	if files, err := filepath.Glob(path + "*"); len(files) != 1 || err != nil {
		t.Errorf("the mark left %v (%v)", files, err)
	}
}

type publisherFunc func()

func (f publisherFunc) Publish(context.Context, replay.Publication) error {
	f()
	return nil
}

// TestPassed: a second run reports what the first has published. It neither publishes these frames nor waits for them.
func TestPassed(t *testing.T) {
	o := replay.Options{
		Files: []string{write(t, "feed", "0 {\"s\":\"a\"}\n1 {}\n3600000000000 {\"s\":\"b\"}\n7200000000000 {\"s\":\"c\"}\n")}, Channel: "x", Key: "{symbol}",
	}
	path := filepath.Join(t.TempDir(), "checkpoint")
	store := &memory{ids: map[string]bool{}, got: map[string][]string{}, left: 2}
	run := func(speed replay.Speed) (replay.Summary, error) {
		checkpoint, err := replay.OpenCheckpoint(path, "", o)
		if err != nil {
			t.Fatal(err)
		}
		defer func() { _ = checkpoint.Close() }()
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		store.stop = cancel
		o := o
		o.Speed, o.Checkpoint, o.Publisher = speed, checkpoint, store
		return replay.Run(ctx, o)
	}
	if sum, err := run(replay.Max); !errors.Is(err, context.Canceled) || sum.Published != 1 {
		t.Errorf("the first run published %d (%v)", sum.Published, err)
	}
	sum, err := run(3600e9) // an hour of the recording in a nanosecond
	want := "2 publications to 1 channel in 0s; 1 frame without symbol skipped; 1 publication accepted earlier"
	if sum.Duration = 0; err != nil || sum.String() != want || store.repeated != 1 {
		t.Errorf("the second run says %q (%v), want %q; %d came again", sum, err, want, store.repeated)
	}
	if got := len(store.got["x"]); got != 3 {
		t.Errorf("%d publications were stored", got)
	}
	if sum, err := run(replay.RealTime); err != nil || sum.Published != 0 || sum.AlreadyPublished != 3 {
		t.Errorf("a run after the end published %d, passed %d over (%v)", sum.Published, sum.AlreadyPublished, err)
	}
}

// TestForeignCheckpoints: a checkpoint works only for the replay that it was made for.
func TestForeignCheckpoints(t *testing.T) {
	file := write(t, "feed", "1 {}\n")
	good := replay.Options{Files: []string{file}, Channel: "x", Key: "k"}
	path := filepath.Join(t.TempDir(), "checkpoint")
	for _, tt := range []struct {
		name, target string
		change       func(*replay.Options)
		want         string
	}{
		{name: "the same", target: "here"},
		{
			name: "the same, faster, elsewhere", target: "here", change: func(o *replay.Options) {
				o.Speed, o.Workers, o.Files = 2, 3, []string{write(t, "feed", "1 {}\n")}
			},
		},
		{name: "address", target: "there", want: "another address: here, not there;"},
		{name: "channel", target: "here", change: func(o *replay.Options) { o.Channel = "y" }, want: "another channel: x, not y;"},
		{name: "key", target: "here", change: func(o *replay.Options) { o.Key = "" }, want: `another key: "k", not "";`},
		{name: "files", target: "here", change: func(o *replay.Options) { o.Files = []string{file, file} }, want: "another number of files: 1, not 2;"},
		{
			name: "file", target: "here", change: func(o *replay.Options) { o.Files = []string{write(t, "food", "1 {}\n")} },
			want: "another file: feed, not food;",
		},
		{
			name: "content", target: "here", change: func(o *replay.Options) { o.Files = []string{write(t, "feed", "2 {}\n")} },
			want: "recording feed has changed;",
		},
		{name: "no file", target: "here", change: func(o *replay.Options) { o.Files = []string{"/does/not/exist"} }, want: "no such file"},
		{name: "folder", target: "here", change: func(o *replay.Options) { o.Files = []string{t.TempDir()} }, want: "is not a regular file"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			o := good
			if tt.change != nil {
				tt.change(&o)
			}
			checkpoint, err := replay.OpenCheckpoint(path, tt.target, o)
			switch {
			case tt.want == "" && err != nil:
				t.Fatal(err)
			case tt.want == "":
				if err := errors.Join(checkpoint.Close(), checkpoint.Close()); err != nil || checkpoint.Done() || checkpoint.Begun() {
					t.Errorf("%v, done: %t, begun: %t", err, checkpoint.Done(), checkpoint.Begun())
				}
			case err == nil || !strings.Contains(err.Error(), tt.want) || !strings.HasPrefix(err.Error(), "replay: checkpoint "+path):
				t.Errorf("got error %v, want %q", err, tt.want)
			}
		})
	}
}

// TestCheckpointCannotBeWritten: if an acceptance cannot be recorded, the replay ends.
func TestCheckpointCannotBeWritten(t *testing.T) {
	o := replay.Options{Files: []string{write(t, "feed", "1 {}\n")}, Channel: "x", Publisher: nowhere{}}
	if _, err := replay.OpenCheckpoint(filepath.Join(t.TempDir(), "none", "checkpoint"), "", o); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("a folder that does not exist: %v", err)
	}
	checkpoint, err := replay.OpenCheckpoint(filepath.Join(t.TempDir(), "checkpoint"), "", o)
	if err != nil {
		t.Fatal(err)
	}
	if err := checkpoint.Close(); err != nil {
		t.Fatal(err)
	}
	o.Checkpoint = checkpoint
	if _, err := replay.Run(t.Context(), o); !errors.Is(err, os.ErrInvalid) {
		t.Errorf("a closed mark: %v", err)
	}
}

// FuzzCheckpoint: if a file can be opened as a checkpoint, it means the same after a rewrite, whatever it contains.
func FuzzCheckpoint(f *testing.F) {
	const head = `{"run":"R","target":"","files":[],"channel":"","key":""}` + "\n"
	for _, text := range []string{"", head, head + "12 \"a\"\n", head + "12 \"a b\\n\"\n7 \"\"\ndone\n3 \"x", head + "0 \"a\"\n", "{}\n", head + "-\n"} {
		f.Add([]byte(text))
	}
	path := filepath.Join(f.TempDir(), "checkpoint")
	f.Fuzz(func(t *testing.T, text []byte) {
		if err := os.WriteFile(path, text, 0o600); err != nil {
			t.Fatal(err)
		}
		m, err := replay.OpenCheckpoint(path, "", replay.Options{})
		if err != nil {
			return
		}
		defer func() { _ = m.Close() }()
		once, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		again, err := replay.OpenCheckpoint(path, "", replay.Options{})
		if err != nil {
			t.Fatalf("%q became %q: %v", text, once, err)
		}
		defer func() { _ = again.Close() }()
		twice, err := os.ReadFile(path)
		if err != nil || string(once) != string(twice) || m.Done() != again.Done() {
			t.Errorf("%q became %q, then %q (%v)", text, once, twice, err)
		}
	})
}
