package load

import (
	"errors"
	"time"

	"github.com/sluice-push/sluice/bench/internal/measure"
	"github.com/sluice-push/sluice/bench/internal/server"
)

// Sample is one measurement of one server in one cell.
type Sample struct {
	Cell     string          `json:"cell"`
	Server   string          `json:"server"`
	Round    int             `json:"round"`
	Rate     float64         `json:"rate"`     // messages a second
	CPU      float64         `json:"cpu"`      // CPU seconds of the server's process for each million of messages
	Allocs   float64         `json:"allocs"`   // allocations of the server's process for each message
	GC       float64         `json:"gc"`       // share of the CPU seconds that collecting garbage took, as the runtime estimates it
	Resident int64           `json:"resident"` // bytes of the server's memory afterwards
	Latency  measure.Latency `json:"latency_ns"`
	Others   measure.Latency `json:"others_ns"` // see Load
}

// Sample measures a server.
func (p *Pair) Sample(w *Work, d time.Duration) (Sample, error) {
	if err := p.open(w); err != nil {
		return Sample{}, err
	}
	warm := w.Warm
	if warm == 0 {
		warm = min(d/4, time.Second)
	}
	if _, err := p.Run(w, warm); err != nil { // until buffers and pools are warm
		return Sample{}, err
	}
	var before, after server.Status
	if err := p.Server.Ask(&before, "stats"); err != nil {
		return Sample{}, err
	}
	l, err := p.Run(w, d)
	if err != nil {
		return Sample{}, err
	}
	if err := p.Server.Ask(&after, "stats"); err != nil {
		return Sample{}, err
	}
	s, err := NewSample(l, &before, &after)
	if err != nil {
		return Sample{}, err
	}
	s.Resident, err = p.Resident()
	return s, err
}

// NewSample puts together what client and server say.
func NewSample(l *Load, before, after *server.Status) (Sample, error) {
	n := float64(l.Messages)
	if l.Messages == 0 || l.NS == 0 || l.Messages != l.All.Total() {
		return Sample{}, errors.New("the client measured nothing")
	}
	s := Sample{
		Rate:    n / (float64(l.NS) / 1e9),
		CPU:     float64(after.CPU-before.CPU) / 1e9 / (n / 1e6),
		Allocs:  float64(after.Mallocs-before.Mallocs) / n,
		Latency: l.All.Latency(),
		Others:  l.Others.Latency(),
	}
	if cpu := after.CPU - before.CPU; cpu > 0 {
		s.GC = float64(after.GC-before.GC) / float64(cpu)
	}
	return s, nil
}
