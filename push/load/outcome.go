package load

import (
	"fmt"
	"math"
	"runtime/debug"
	"slices"
	"time"

	"github.com/sluice-push/sluice/internal/count"
	"github.com/sluice-push/sluice/internal/hostclock"
)

// result puts together what the members of the crew and the publisher say.
func (r *run) result() *Result {
	p := r.publisher
	out := &Result{Form: resultForm, Version: version(), Began: r.began, Spec: r.spec.public(), Moments: r.watch.moments}
	sum := r.total()
	out.Connects = Connects{Clients: sum.Clients, Failed: sum.Failed, Cut: sum.Cut, Resets: sum.Resets, Away: sum.Away, Reasons: sum.Reasons}
	joined := int64(0)
	for _, c := range r.connected {
		joined = max(joined, c.Joined)
	}
	if joined > 0 {
		out.Connects.Seconds = seconds(joined - (hostclock.Now() - int64(time.Since(r.began))))
	}
	end := p.to
	if r.interrupted != "" {
		end = min(hostclock.Now(), end)
	}
	out.Seconds = max(seconds(max(end, sum.LastAt)-p.from), 0)
	published := max(seconds(end-p.from), 0)
	out.Publications = Publications{
		Due: p.due.Load(), Sent: p.counted.Load(), Refused: p.refused.Load(), Rate: ratio(float64(p.counted.Load()), published),
		Late: float64(p.late.Load()) / 1e6,
	}
	c := &sum.Counts
	out.Deliveries = Deliveries{
		Expected: sum.Expected, Received: c.Received, PerSecond: ratio(float64(c.Received), out.Seconds),
		Lost: sum.Missing.Lost, Told: sum.Missing.Told, Duplicated: c.Duplicated, Disordered: c.Disordered, Corrupt: c.Corrupt,
	}
	out.Latency, out.Last = latency(histogramOf(sum.Live)), slowest(sum.Slowest)
	if sum.Stalled != nil {
		stalled := latency(histogramOf(sum.Stalled))
		out.Stalled = &stalled
	}
	if sum.CutAt != 0 {
		out.Storm = &Recovery{Cut: sum.WasCut, Back: sum.Back, Resumed: sum.Resumed, Fresh: sum.Fresh}
		if sum.Back > 0 {
			out.Storm.BackAfter = seconds(sum.BackAt - sum.CutAt)
			out.Storm.CaughtUp = seconds(max(sum.BackAt, sum.CaughtUp) - sum.CutAt)
		}
	}
	out.Problems = r.worthKnowing(sum)
	return out
}

// resultForm is the form of the fields of a Result.
const resultForm = 1

// total adds up what the members say.
func (r *run) total() *share {
	out := &share{CutAt: math.MaxInt64}
	var why count.Words
	for _, s := range r.shares {
		out.Clients += s.Clients
		out.Failed += s.Failed
		out.Cut += s.Cut
		for reason, n := range s.Reasons {
			why.Add(reason, n)
		}
		out.Counts.add(&s.Counts)
		out.Expected += s.Expected
		out.Missing.Lost += s.Missing.Lost
		out.Missing.Told += s.Missing.Told
		out.WarmLost += s.WarmLost
		out.LastAt = max(out.LastAt, s.LastAt)
		out.Live, out.Stalled = added(out.Live, s.Live), added(out.Stalled, s.Stalled)
		for len(out.Slowest) < len(s.Slowest) {
			out.Slowest = append(out.Slowest, 0)
		}
		for i, n := range s.Slowest {
			out.Slowest[i] = max(out.Slowest[i], n)
		}
		out.Resets += s.Resets
		out.Away += s.Away
		out.WasCut += s.WasCut
		out.Back += s.Back
		out.Resumed += s.Resumed
		out.Fresh += s.Fresh
		if s.CutAt != 0 {
			out.CutAt = min(out.CutAt, s.CutAt)
		}
		out.BackAt, out.CaughtUp = max(out.BackAt, s.BackAt), max(out.CaughtUp, s.CaughtUp)
	}
	if out.CutAt == math.MaxInt64 {
		out.CutAt = 0
	}
	out.Reasons = why.All()
	return out
}

// added is sum of the counts of two histograms, nil when there is none.
func added(to, counts []int64) []int64 {
	if counts == nil {
		return to
	}
	return sum(to, counts)
}

// slowest is the distribution of how long the last client waited.
func slowest(micros []uint32) Latency {
	h := newHistogram()
	for _, m := range micros {
		if m > 0 {
			record(h, int64(m)-1)
		}
	}
	return latency(h)
}

// worthKnowing is what a reader of the figures should know first.
func (r *run) worthKnowing(s *share) []string {
	out := r.problems
	say := func(format string, args ...any) { out = append(out, fmt.Sprintf(format, args...)) }
	if r.interrupted != "" {
		say("the run was interrupted while %s: the figures are of what there was until then", r.interrupted)
	}
	if r.spec.Network != "" {
		say("latencies include the network: %s", r.spec.conditions())
	}
	if s.Failed > 0 {
		say("%d of %d clients were never subscribed to all they want", s.Failed, r.spec.Clients)
	}
	if s.Cut > 0 {
		say("%d connections ended without our doing", s.Cut)
	}
	if s.Away > 0 {
		say("%d clients that the network had cut were not back in the end", s.Away)
	}
	if s.Missing.Told > 0 {
		say("the server said that it left out %d deliveries", s.Missing.Told)
	}
	if s.WarmLost > 0 {
		say("%d of what was lost were publications of the warm-up, which are not among those expected", s.WarmLost)
	}
	if s.Counts.Foreign > 0 {
		say("%d publications of other runs came in our channels: does another load run use the same prefix?", s.Counts.Foreign)
	}
	if left := s.WasCut - s.Back; left > 0 {
		say("%d of %d clients that were cut did not come back", left, s.WasCut)
	}
	problems := r.publisher.problems()
	slices.Sort(problems)
	return append(out, problems...)
}

func seconds(nanoseconds int64) float64 { return float64(nanoseconds) / 1e9 }

func ratio(a, b float64) float64 {
	if b <= 0 {
		return 0
	}
	return a / b
}

// version is that of this program, as the toolchain knows it.
func version() string {
	if info, ok := debug.ReadBuildInfo(); ok && info.Main.Version != "" {
		return info.Main.Version
	}
	return "unknown"
}
