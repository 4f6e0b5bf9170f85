package nats_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/sluice-push/sluice/push"
	"github.com/sluice-push/sluice/push/broker"
	"github.com/sluice-push/sluice/push/broker/nats"
)

// logged is an output for a logger that a test can read.
type logged struct {
	mu   sync.Mutex
	text bytes.Buffer
}

func (l *logged) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.Write(p)
}

func (l *logged) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.String()
}

func newLog() (*logged, *slog.Logger) {
	l := new(logged)
	return l, slog.New(slog.NewTextHandler(l, nil))
}

// blocks returns the files below a folder with a stream's messages, the oldest first.
func blocks(t *testing.T, dir, stream string) []string {
	t.Helper()
	var out []string
	err := filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err == nil && filepath.Ext(path) == ".blk" && filepath.Base(filepath.Dir(filepath.Dir(path))) == stream {
			out = append(out, path)
		}
		return err
	})
	if err != nil || len(out) == 0 {
		t.Fatalf("no blocks of %s: %v", stream, err)
	}
	return out
}

// damages are ways to damage a file while no process uses it.
var damages = []struct {
	name string
	do   func(data []byte) []byte
}{
	{"cut off in a message", func(data []byte) []byte { return data[:len(data)-10] }},
	{"cut off by half", func(data []byte) []byte { return data[:len(data)/2] }},
	{"empty", func([]byte) []byte { return nil }},
	{"a byte in the middle", func(data []byte) []byte {
		data[len(data)/2] ^= 0x40
		return data
	}},
	{"the last page of zeros", func(data []byte) []byte {
		clear(data[max(0, len(data)-4096):])
		return data
	}},
	{"gone", nil},
}

// TestDamagedFolder: with a damaged file of messages the broker still starts. Either all acknowledged publications are there, or the broker logs
// the loss and clients begin afresh in another epoch. The one exception is a process that was killed: a program that cuts off the end of a file
// can remove the acknowledged publications of the last second unnoticed.
func TestDamagedFolder(t *testing.T) {
	t.Parallel()
	for _, isClean := range []bool{false, true} {
		for _, damage := range damages {
			name := damage.name + ", killed"
			if isClean {
				name = damage.name + ", closed"
			}
			t.Run(name, func(t *testing.T) {
				t.Parallel()
				dir := t.TempDir()
				all := killedWhen(t, dir, func(all []acked) bool { return len(all)%100 == 0 && (isClean || noted(dir) > 0) })
				if isClean {
					b := reopen(t, dir, nil)
					if err := b.Close(); err != nil {
						t.Fatal(err)
					}
				}
				files := blocks(t, dir, "sluice_s_0")
				spoil(t, files[len(files)-1], damage.do)
				checkSpoiled(t, dir, all, damage.name == "a byte in the middle" || damage.name == "cut off by half")
			})
		}
	}
}

// TestDamagedBlock: if one of several files of a stream is damaged, the messages in later files are kept, in another epoch. Other streams keep
// their epochs. The server silently leaves out the messages after the damage in its file.
func TestDamagedBlock(t *testing.T) {
	t.Setenv(childPadding, "60000") // some 140 publications a file
	for _, damage := range damages[3:5] {
		for n := range 2 {
			t.Run(fmt.Sprintf("%s, file %d", damage.name, n+1), func(t *testing.T) {
				dir := t.TempDir()
				all := killedChild(t, dir, 800)
				spoil(t, blocks(t, dir, "sluice_s_0")[n], damage.do)
				text, logger := newLog()
				checkBlock(t, reopen(t, dir, logger), all, n)
				if !strings.Contains(text.String(), "publications lost in the broker") {
					t.Errorf("logged: %s", text)
				}
			})
		}
	}
}

// checkBlock checks the publications that are left after the file n of a stream was damaged.
func checkBlock(t *testing.T, b *nats.Broker, all []acked, n int) {
	t.Helper()
	before := map[string]bool{}
	var damaged, after, others []acked
	for _, a := range all {
		before[a.At.Epoch] = true
		switch {
		case push.Namespace(a.Channel) != "s":
			others = append(others, a)
		case a.At.Offset > uint64((n+1)*140):
			after = append(after, a)
		default:
			damaged = append(damaged, a)
		}
	}
	gone, epochs := missing(t, b, damaged)
	for e := range epochs {
		if before[e] || gone == 0 {
			t.Errorf("%d of %d are gone, in epoch %q", gone, len(damaged), e)
		}
	}
	if gone, _ := missing(t, b, after); gone > 0 || len(after) == 0 {
		t.Errorf("%d of %d in other files are gone", gone, len(after))
	}
	gone, epochs = missing(t, b, others)
	for e := range epochs {
		if !before[e] || gone > 0 {
			t.Errorf("of other streams %d are gone, in epoch %q", gone, e)
		}
	}
}

// noted returns how far the stream has come, according to the mark of a data folder.
func noted(dir string) uint64 {
	text, _ := os.ReadFile(filepath.Join(dir, "sluice.json"))
	var mark struct {
		Heads map[string]struct{ Offset uint64 }
	}
	_ = json.Unmarshal(text, &mark) // it may not exist yet
	return mark.Heads["sluice_s_0"].Offset
}

// spoil changes a file; a nil change removes it.
func spoil(t *testing.T, path string, change func([]byte) []byte) {
	t.Helper()
	if change == nil {
		removeAll(t, path)
		return
	}
	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, change(data), 0o600); err != nil {
		t.Fatal(err)
	}
}

func checkSpoiled(t *testing.T, dir string, all []acked, keepsSome bool) {
	t.Helper()
	until := noted(dir) // a cut above it goes unnoticed
	all = slices.DeleteFunc(all, func(a acked) bool { return push.Namespace(a.Channel) == "s" && a.At.Offset > until })
	text, logger := newLog()
	b := reopen(t, dir, logger)
	n, epochs := missing(t, b, all)
	isNew := false
	before := make(map[string]bool)
	for _, a := range all {
		before[a.At.Epoch] = true
	}
	for e := range epochs {
		isNew = isNew || !before[e]
	}
	if n > 0 && !isNew {
		t.Errorf("%d of %d acknowledged publications are gone, in the same epoch", n, len(all))
	}
	early := slices.DeleteFunc(slices.Clone(all), func(a acked) bool { return a.At.Offset > 5 })
	if n, _ := missing(t, b, early); n > 0 && keepsSome {
		t.Errorf("%d of %d publications before the damage are gone", n, len(early))
	}
	if n > 0 && text.String() == "" {
		t.Error("nothing was logged")
	}
	// And it goes on.
	at, err := b.Publish(t.Context(), "s:after", push.Publication{Data: []byte("after")}, broker.PublishOptions{})
	if err != nil {
		t.Fatal(err)
	}
	for _, a := range all {
		if a.At.Epoch == at.Epoch && a.At.Offset >= at.Offset {
			t.Fatalf("published at %v, where %s was", at, a.Data)
		}
	}
}
