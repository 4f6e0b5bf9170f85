package replay_test

import (
	"bytes"
	"context"
	"crypto/sha256"
	"errors"
	"io"
	"os"
	"path/filepath"
	"strconv"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/sluice-push/sluice/cmd/sluice/internal/recording"
	"github.com/sluice-push/sluice/cmd/sluice/internal/replay"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// sink is a publisher that stores the publications. It fails the test if the rules of Publisher are broken.
type sink struct {
	t     testing.TB
	start time.Time

	mu      sync.Mutex
	got     []publication // in the order of acceptance
	busy    map[string]bool
	atOnce  int
	most    int                                                   // the largest number of concurrent publications
	process func(ctx context.Context, p replay.Publication) error // nil accepts everything at once
}

type publication struct {
	channel, key, data string
	after              time.Duration
}

func newSink(t testing.TB) *sink {
	return &sink{t: t, start: time.Now(), busy: map[string]bool{}}
}

func (s *sink) Publish(ctx context.Context, p replay.Publication) error {
	s.mu.Lock()
	if s.busy[p.Channel] {
		s.t.Errorf("two publications to %s at once", p.Channel)
	}
	s.busy[p.Channel] = true
	s.atOnce++
	s.most = max(s.most, s.atOnce)
	s.mu.Unlock()

	var err error
	if s.process != nil {
		err = s.process(ctx, p)
	}

	s.mu.Lock()
	defer s.mu.Unlock()
	s.busy[p.Channel] = false
	s.atOnce--
	if err == nil {
		s.got = append(s.got, publication{p.Channel, p.Key, string(p.Data), time.Since(s.start)})
	}
	return err
}

// channels returns the data of each channel in order.
func (s *sink) channels() map[string][]string {
	out := map[string][]string{}
	for _, p := range s.got {
		out[p.channel] = append(out[p.channel], p.data)
	}
	return out
}

// check compares a summary with the stored publications.
func (s *sink) check(sum replay.Summary) {
	s.t.Helper()
	var published, size int64
	for name, data := range s.channels() {
		h := sha256.New()
		var n int64
		for _, d := range data {
			h.Write([]byte(d))
			h.Write([]byte("\n"))
			n += int64(len(d))
		}
		want := replay.ChannelSummary{Published: int64(len(data)), Bytes: n, SHA256: [32]byte(h.Sum(nil))}
		if sum.Channels[name] != want {
			s.t.Errorf("channel %s: the summary says %+v, want %+v", name, sum.Channels[name], want)
		}
		published += want.Published
		size += n
	}
	if sum.Published != published || sum.Bytes != size || len(sum.Channels) != len(s.channels()) {
		s.t.Errorf("the summary says %d publications, %d bytes, %d channels; want %d, %d, %d",
			sum.Published, sum.Bytes, len(sum.Channels), published, size, len(s.channels()))
	}
}

// write writes a recording and returns its path.
func write(t testing.TB, name, text string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), name)
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

// frames reads a recording.
func frames(t testing.TB, path string) []recording.Frame {
	t.Helper()
	r, err := recording.Open(path, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	var out []recording.Frame
	for {
		f, err := r.Next()
		if errors.Is(err, io.EOF) {
			return out
		}
		if err != nil {
			t.Fatal(err)
		}
		f.Data = bytes.Clone(f.Data)
		out = append(out, f)
	}
}

// refusal is an error that may be temporary.
type refusal struct{ temporary bool }

func (r refusal) Error() string   { return "refused" }
func (r refusal) Temporary() bool { return r.temporary }

func stamp(t time.Time) string { return strconv.FormatInt(t.UnixNano(), 10) }
