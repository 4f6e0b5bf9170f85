package main

import (
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"

	"github.com/sluice-push/sluice/bench/internal/measure"
	"github.com/sluice-push/sluice/bench/internal/report"
)

// result is what sluice bench says of a storm. Memory is in bytes.
type result struct {
	Connects struct {
		Clients, Failed, Cut int
		Reasons              map[string]int // of the attempts that failed after the cut
	}
	Publications struct{ Due, Sent, Refused uint64 }
	Deliveries   struct{ Expected, Received, Lost, Announced, Duplicated, Disordered, Corrupt uint64 }
	Storm        struct {
		Cut, Back, Resumed int
		BackAfter          float64 `json:"back_s"`
		CaughtUp           float64 `json:"caught_up_s"`
	}
	Server struct {
		Idle    int64 `json:"rss_subscribed"`
		Sockets int64 `json:"socket_bytes"`
	}
	Moments []struct {
		Second float64 `json:"s"`
		CPU    float64 `json:"server_cpu"` // cores, since the moment before
	}
	Peak  int64   `json:"-"` // the most resident memory that the node had
	cutAt float64 // seconds after the first publication that counts
}

// check returns an error unless all clients were cut, came back and resumed, and got every publication once.
func (r *result) check(s *storms) error {
	d, w := &r.Deliveries, &r.Storm
	switch {
	case r.Connects.Clients != s.clients || w.Cut != s.clients || w.Back != s.clients || w.Resumed != s.clients:
		return fmt.Errorf("of %d clients %d connected, %d were cut, %d came back, %d resumed", s.clients, r.Connects.Clients, w.Cut, w.Back, w.Resumed)
	case r.Publications.Sent == 0 || r.Publications.Sent != r.Publications.Due:
		return fmt.Errorf("of %d publications %d were accepted", r.Publications.Due, r.Publications.Sent)
	case d.Expected == 0 || d.Received != d.Expected || d.Lost+d.Announced+d.Duplicated+d.Disordered+d.Corrupt > 0:
		return fmt.Errorf("deliveries are not exact: %+v", *d)
	case len(r.Moments) == 0:
		return fmt.Errorf("sluice bench says nothing of the node's CPU time")
	}
	return nil
}

// cpu returns the CPU seconds that the node used from the cut, so many seconds after the first publication, until the last client had caught up, and
// how many cores it used on average before.
func (r *result) cpu(cut float64) (seconds, before float64) {
	end, last := cut+r.Storm.CaughtUp, 0.0
	for _, m := range r.Moments {
		before += m.CPU * max(min(m.Second, cut)-last, 0)
		seconds += m.CPU * max(min(m.Second, end)-max(last, cut), 0)
		last = m.Second
	}
	return seconds, before / max(min(last, cut), 1)
}

// code finds the status of HTTP or the code of the protocol in the reason for which an attempt failed.
var code = regexp.MustCompile(`(?:status|code|server:) (\d{3,4})\b`)

// refusals returns how many attempts failed, by status or code; reasons without any stand as they are.
func refusals(reasons map[string]int) map[string]int {
	all := map[string]int{}
	for reason, n := range reasons {
		if found := code.FindStringSubmatch(reason); found != nil {
			reason = found[1]
		}
		all[reason] += n
	}
	return all
}

// table shows the medians of the rounds, and from where to where they reach.
func table(title string, connects []int, results [][]result) *report.Table {
	t := &report.Table{
		Title: title,
		Head: []string{
			"`limits.connects`", "last back, s", "last caught up, s", "node before, MB", "peak, MB", "kernel's sockets, peak, MB", "CPU s until caught up",
			"cores before", "attempts that failed",
		},
	}
	var deliveries uint64
	for i, limit := range connects {
		rs := results[i]
		over := func(figure func(*result) float64) string { return measure.Over(rs, figure).String() }
		name := "none"
		if limit > 0 {
			name = fmt.Sprintf("%d a second", limit)
		}
		failed := map[string][]float64{}
		for at := range rs {
			for why, n := range refusals(rs[at].Connects.Reasons) {
				if failed[why] == nil {
					failed[why] = make([]float64, len(rs))
				}
				failed[why][at] = float64(n)
			}
			deliveries += rs[at].Deliveries.Received
		}
		var refused []string
		for _, why := range slices.Sorted(maps.Keys(failed)) {
			refused = append(refused, why+": "+measure.NewSpread(failed[why]).String())
		}
		if refused == nil {
			refused = []string{"0"}
		}
		t.Add(name, over(func(r *result) float64 { return r.Storm.BackAfter }), over(func(r *result) float64 { return r.Storm.CaughtUp }),
			over(func(r *result) float64 { return float64(r.Server.Idle) / 1e6 }), over(func(r *result) float64 { return float64(r.Peak) / 1e6 }),
			over(func(r *result) float64 { return float64(r.Server.Sockets) / 1e6 }),
			over(func(r *result) float64 { seconds, _ := r.cpu(r.cutAt); return seconds }),
			over(func(r *result) float64 { _, before := r.cpu(r.cutAt); return before }), strings.Join(refused, ", "))
	}
	t.Note = fmt.Sprintf("Medians. Seconds count from the cut. The kernel's memory is that of both sides. All clients resumed: of %d deliveries none was lost, "+
		"doubled, out of order or changed.", deliveries)
	return t
}
