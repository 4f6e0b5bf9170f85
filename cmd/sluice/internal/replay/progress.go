package replay

import (
	"crypto/sha256"
	"fmt"
	"math"
	"strconv"
	"strings"
	"time"
)

// Position is a place in the merged recordings. The same files in the same order always merge to the same positions.
type Position struct {
	Frame int64 // number of frames up to this place, including those without a symbol; 0 before the first
	Time  int64 // when the last of these frames was recorded, in Unix nanoseconds
}

// Progress describes the state of a replay.
type Progress struct {
	Published        int64 // accepted publications
	Skipped          int64 // frames that were not published because they have no symbol
	AlreadyPublished int64 // frames that were not published because an earlier run had published them
	Retried          int64 // attempts after the first
	Bytes            int64 // of published data

	Rate       float64       // publications a second since the last report; if Done is set, since the start
	Position   Position      // how far the recordings have been read; some of these frames may not be published yet
	Fraction   float64       // share of the files' bytes that have been read, 0 to 1; negative if unknown
	Elapsed    time.Duration // since the start
	Left       time.Duration // estimated time until the end, at the average speed so far; negative if unknown
	Behind     time.Duration // how late the replay is because the publisher is slower than the requested speed
	RetryError error         // why publications are tried again; set only if none was accepted since the last report
	Done       bool          // the replay has ended
}

// progress returns a Progress without Done. Its rate counts from the start.
func (r *run) progress() Progress {
	p := Progress{
		Published:        r.published.Load(),
		Skipped:          r.skipped.Load(),
		AlreadyPublished: r.alreadyPublished.Load(),
		Retried:          r.retried.Load(),
		Bytes:            r.bytes.Load(),
		Position:         r.position(),
		Fraction:         -1,
		Elapsed:          time.Since(r.started),
		Left:             -1,
		Behind:           time.Duration(r.behind.Load()),
	}
	if p.Elapsed > 0 {
		p.Rate = float64(p.Published) / p.Elapsed.Seconds()
	}
	if read, total := r.merge.progress(); total > 0 {
		p.Fraction = min(float64(read)/float64(total), 1) // the files may have grown since they were opened
	}
	if p.Fraction > 0 {
		left := float64(p.Elapsed) * (1 - p.Fraction) / p.Fraction
		p.Left = time.Duration(min(left, math.MaxInt64/2))
	}
	return p
}

func (r *run) position() Position {
	return Position{Frame: r.frames.Load(), Time: r.recorded.Load()}
}

// report calls Progress at regular intervals until ended is closed.
func (r *run) report(ended <-chan struct{}) {
	t := time.NewTicker(r.opts.ProgressEvery)
	defer t.Stop()
	var before Progress
	for {
		select {
		case <-t.C:
		case <-ended:
			return
		}
		p := r.progress()
		if d := p.Elapsed - before.Elapsed; d > 0 {
			p.Rate = float64(p.Published-before.Published) / d.Seconds()
		}
		if retryError := r.retryError.Load(); retryError != nil && p.Published == before.Published && p.Retried > before.Retried {
			p.RetryError = *retryError
		}
		before = p
		r.opts.Progress(p)
	}
}

// Summary describes what a replay has published.
type Summary struct {
	Published        int64
	SkippedNoSymbol  int64 // frames that were not published because a template needs a symbol and they have none
	AlreadyPublished int64 // frames that were not published because an earlier run had published them
	Retried          int64 // attempts after the first
	Bytes            int64 // of published data
	Duration         time.Duration
	Position         Position // how far the recordings were read; after an error, some of these frames may not have been published
	Channels         map[string]ChannelSummary
}

// ChannelSummary describes what a replay has published to one channel.
type ChannelSummary struct {
	Published int64
	Bytes     int64
	// SHA256 is the hash of the data of all publications in their order, with a newline after each.
	SHA256 [sha256.Size]byte
}

func (r *run) summary() Summary {
	s := Summary{
		Published:        r.published.Load(),
		SkippedNoSymbol:  r.skipped.Load(),
		AlreadyPublished: r.alreadyPublished.Load(),
		Retried:          r.retried.Load(),
		Bytes:            r.bytes.Load(),
		Duration:         time.Since(r.started),
		Position:         r.position(),
		Channels:         make(map[string]ChannelSummary, len(r.channels)),
	}
	for name, c := range r.channels {
		if c.published > 0 {
			s.Channels[name] = ChannelSummary{Published: c.published, Bytes: c.bytes, SHA256: [sha256.Size]byte(c.hash.Sum(nil))}
		}
	}
	return s
}

// String returns the summary as one line of text.
func (s Summary) String() string {
	var b strings.Builder
	fmt.Fprintf(&b, "%s to %s in %v", count(s.Published, "publication"), count(int64(len(s.Channels)), "channel"), round(s.Duration))
	if s.Duration > 0 {
		fmt.Fprintf(&b, ", %s/s, %.1f MB/s", thousands(int64(float64(s.Published)/s.Duration.Seconds())),
			float64(s.Bytes)/1e6/s.Duration.Seconds())
	}
	if s.SkippedNoSymbol > 0 {
		fmt.Fprintf(&b, "; %s without symbol skipped", count(s.SkippedNoSymbol, "frame"))
	}
	if s.AlreadyPublished > 0 {
		fmt.Fprintf(&b, "; %s accepted earlier", count(s.AlreadyPublished, "publication"))
	}
	if s.Retried > 0 {
		fmt.Fprintf(&b, "; %s retried", count(s.Retried, "refusal"))
	}
	return b.String()
}

func count(n int64, noun string) string {
	if n != 1 {
		noun += "s"
	}
	return thousands(n) + " " + noun
}

// thousands formats a non-negative number with commas.
func thousands(n int64) string {
	s := strconv.FormatInt(n, 10)
	for i := len(s) - 3; i > 0; i -= 3 {
		s = s[:i] + "," + s[i:]
	}
	return s
}

// round rounds a duration to a precision for display.
func round(d time.Duration) time.Duration {
	switch {
	case d >= time.Minute:
		return d.Round(time.Second)
	case d >= time.Second:
		return d.Round(100 * time.Millisecond)
	}
	return d.Round(time.Millisecond)
}
