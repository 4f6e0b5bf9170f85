package main

import "errors"

// histogram is what the client knows of the latencies of a run. Counts are pairs of the largest latency of a bucket, in
// nanoseconds, and how many were in it, in order.
type histogram struct {
	Max    int64      `json:"max"`
	Counts [][2]int64 `json:"counts"`
}

// total is how many latencies there are.
func (h *histogram) total() int64 {
	var n int64
	for _, c := range h.Counts {
		n += c[1]
	}
	return n
}

// quantile returns the smallest latency that at least the fraction q does not exceed, 0 when there are none.
func (h *histogram) quantile(q float64) int64 {
	total, sum := h.total(), int64(0)
	for _, c := range h.Counts {
		sum += c[1]
		if float64(sum) >= q*float64(total) {
			return min(c[0], h.Max)
		}
	}
	return h.Max
}

// load is what the client says of a run.
type load struct {
	Messages int64     `json:"messages"` // answered
	NS       int64     `json:"ns"`       // how long it took until the last answer
	All      histogram `json:"all"`      // of all messages
	Others   histogram `json:"others"`   // of those whose handler did not sleep
}

// latency is a distribution, in nanoseconds.
type latency struct {
	P50  int64 `json:"p50"`
	P99  int64 `json:"p99"`
	P999 int64 `json:"p999"`
	Max  int64 `json:"max"`
}

func (h *histogram) latency() latency {
	return latency{P50: h.quantile(0.5), P99: h.quantile(0.99), P999: h.quantile(0.999), Max: h.Max}
}

// sample is one measurement of one server in one cell.
type sample struct {
	Cell    string  `json:"cell"`
	Server  string  `json:"server"`
	Round   int     `json:"round"`
	Rate    float64 `json:"rate"`   // messages a second
	CPU     float64 `json:"cpu"`    // CPU seconds of the server's process for each million of messages
	Allocs  float64 `json:"allocs"` // allocations of the server's process for each message
	Latency latency `json:"latency_ns"`
	Others  latency `json:"others_ns"` // of the messages whose handler did not sleep
}

// newSample puts together what client and server say.
func newSample(l *load, before, after *status) (sample, error) {
	n := float64(l.Messages)
	if l.Messages == 0 || l.NS == 0 || l.Messages != l.All.total() {
		return sample{}, errors.New("the client measured nothing")
	}
	return sample{
		Rate:    n / (float64(l.NS) / 1e9),
		CPU:     float64(after.CPU-before.CPU) / 1e9 / (n / 1e6),
		Allocs:  float64(after.Mallocs-before.Mallocs) / n,
		Latency: l.All.latency(),
		Others:  l.Others.latency(),
	}, nil
}
