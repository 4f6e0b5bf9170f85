package loadtest

import (
	"fmt"
	"math"
	"runtime/debug"
	"slices"
	"time"

	"github.com/sluice-push/sluice/cmd/sluice/internal/loadtest/delivery"
	"github.com/sluice-push/sluice/cmd/sluice/internal/loadtest/hostclock"
	"github.com/sluice-push/sluice/cmd/sluice/internal/loadtest/reasoncount"
)

// result combines the results of the workers and the publisher.
func (r *run) result() *Result {
	p := r.publisher
	out := &Result{Format: resultFormat, Version: version(), Began: r.began, Spec: r.spec.redacted(), Moments: r.monitor.moments}
	sum := r.total()
	out.Connects = Connects{Clients: sum.Clients, Failed: sum.Failed, Cut: sum.Cut, Resets: sum.Resets, NotRejoined: sum.NotRejoined, Reasons: sum.Reasons}
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
		Late: float64(p.maxLate.Load()) / 1e6,
	}
	c := &sum.Counts
	out.Deliveries = Deliveries{
		Expected: sum.Expected, Received: c.Received, PerSecond: ratio(float64(c.Received), out.Seconds),
		Lost: sum.Missing.Lost, Announced: sum.Missing.Announced, Duplicated: c.Duplicated, Disordered: c.Disordered, Corrupt: c.Corrupt,
	}
	out.Latency, out.Last = latency(delivery.HistogramOf(sum.Live)), slowest(sum.Slowest)
	if sum.Stalled != nil {
		stalled := latency(delivery.HistogramOf(sum.Stalled))
		out.Stalled = &stalled
	}
	if sum.CutAt != 0 {
		out.Storm = &Recovery{Cut: sum.WasCut, Back: sum.Back, Resumed: sum.Resumed, NotResumed: sum.NotResumed}
		if sum.Back > 0 {
			out.Storm.BackAfter = seconds(sum.BackAt - sum.CutAt)
			out.Storm.CaughtUp = seconds(max(sum.BackAt, sum.CaughtUp) - sum.CutAt)
		}
	}
	out.Problems = r.allProblems(sum)
	return out
}

// resultFormat is the value of Result.Format.
const resultFormat = 1

// total adds the results of all workers.
func (r *run) total() *workerResult {
	out := &workerResult{CutAt: math.MaxInt64}
	var why reasoncount.Counts
	for _, s := range r.results {
		out.Clients += s.Clients
		out.Failed += s.Failed
		out.Cut += s.Cut
		for reason, n := range s.Reasons {
			why.Add(reason, n)
		}
		out.Counts.add(&s.Counts)
		out.Expected += s.Expected
		out.Missing.Lost += s.Missing.Lost
		out.Missing.Announced += s.Missing.Announced
		out.WarmLost += s.WarmLost
		out.LastAt = max(out.LastAt, s.LastAt)
		out.Live, out.Stalled = delivery.SumCounts(out.Live, s.Live), delivery.SumCounts(out.Stalled, s.Stalled)
		for len(out.Slowest) < len(s.Slowest) {
			out.Slowest = append(out.Slowest, 0)
		}
		for i, n := range s.Slowest {
			out.Slowest[i] = max(out.Slowest[i], n)
		}
		out.Resets += s.Resets
		out.NotRejoined += s.NotRejoined
		out.WasCut += s.WasCut
		out.Back += s.Back
		out.Resumed += s.Resumed
		out.NotResumed += s.NotResumed
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

// slowest returns the distribution of latencies that delivery.PubStats.Slowest has returned.
func slowest(micros []uint32) Latency {
	h := delivery.NewHistogram()
	for _, m := range micros {
		if m > 0 {
			delivery.RecordLatency(h, int64(m)-1)
		}
	}
	return latency(h)
}

// allProblems returns the problems of the run, one sentence each.
func (r *run) allProblems(s *workerResult) []string {
	out := r.problems
	say := func(format string, args ...any) { out = append(out, fmt.Sprintf(format, args...)) }
	if r.interrupted != "" {
		say("the run was interrupted while %s: the figures cover the time until then", r.interrupted)
	}
	if r.spec.Network != "" {
		say("latencies include the network: %s", r.spec.conditions())
	}
	if s.Failed > 0 {
		say("%d of %d clients did not get all their subscriptions", s.Failed, r.spec.Clients)
	}
	if s.Cut > 0 {
		say("%d connections were closed by the server or the network", s.Cut)
	}
	if s.NotRejoined > 0 {
		say("%d clients that the network reset had not reconnected at the end", s.NotRejoined)
	}
	if s.Missing.Announced > 0 {
		say("the server reported %d deliveries as skipped", s.Missing.Announced)
	}
	if s.WarmLost > 0 {
		say("%d of the lost deliveries belong to the warm-up, which is not counted as expected", s.WarmLost)
	}
	if s.Counts.Foreign > 0 {
		say("%d publications of other runs arrived in the channels of this run: use another --prefix", s.Counts.Foreign)
	}
	if left := s.WasCut - s.Back; left > 0 {
		say("%d of %d disconnected clients did not reconnect", left, s.WasCut)
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

// version returns the version of this program from its build information.
func version() string {
	if info, ok := debug.ReadBuildInfo(); ok && info.Main.Version != "" {
		return info.Main.Version
	}
	return "unknown"
}
