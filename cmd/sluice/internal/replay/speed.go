package replay

import (
	"context"
	"fmt"
	"math"
	"strconv"
	"strings"
	"time"
)

// Speed is the speed of a replay relative to the recording. At 10, ten seconds of the recording take one second. Zero means [RealTime].
type Speed float64

// The named speeds. Every negative speed means Max.
const (
	RealTime Speed = 1
	Max      Speed = -1 // as fast as the publisher accepts
)

// UnmarshalText accepts "max" and positive numbers such as 1, 0.5 and 10x.
func (s *Speed) UnmarshalText(text []byte) error {
	if string(text) == "max" {
		*s = Max
		return nil
	}
	v, err := strconv.ParseFloat(strings.TrimSuffix(string(text), "x"), 64)
	if err != nil || !(v > 0) || math.IsInf(v, 0) {
		return fmt.Errorf("unknown speed %q: use a number greater than 0, or max", text)
	}
	*s = Speed(v)
	return nil
}

// String returns what UnmarshalText accepts.
func (s Speed) String() string {
	if s < 0 {
		return "max"
	}
	return strconv.FormatFloat(float64(s), 'g', -1, 64)
}

// MarshalText returns the same as String.
func (s Speed) MarshalText() ([]byte, error) { return []byte(s.String()), nil }

// pacer delays frames until they are due. The first frame starts the clock, and the due times of all others follow from it. So a replay that was
// held up catches up as fast as it can.
type pacer struct {
	speed   Speed
	started bool
	first   int64     // the recorded time of the first frame
	start   time.Time // when the first frame was due
}

// wait waits until the frame recorded at t is due. It returns how late the frame already is, and 0 if it had to wait.
func (p *pacer) wait(ctx context.Context, t int64) (late time.Duration, err error) {
	if p.speed < 0 {
		return 0, nil
	}
	if !p.started {
		p.started, p.first, p.start = true, t, time.Now()
	}
	// Rounding to a float64 costs less than a microsecond for a recording of months.
	after := float64(t-p.first) / float64(p.speed)
	due := p.start.Add(time.Duration(min(max(after, 0), math.MaxInt64/2)))
	if early := time.Until(due); early > 0 {
		return 0, pause(ctx, early)
	}
	return time.Since(due), nil
}
