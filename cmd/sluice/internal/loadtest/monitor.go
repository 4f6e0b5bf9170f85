package loadtest

import (
	"time"

	"github.com/sluice-push/sluice/cmd/sluice/internal/loadtest/delivery"
	"github.com/sluice-push/sluice/cmd/sluice/internal/loadtest/hostclock"
)

// monitor computes the moments and the progress of a run from the status reports of the workers. It is not safe for concurrent use.
type monitor struct {
	statuses   map[int]*status // by worker: its latest report
	from       int64           // host clock; when the measured part begins; 0: not known yet
	latest     sample
	lastSecond []sample // the samples of the last second, oldest first

	moments    []Moment
	lastMoment sample // taken when the last moment was added
}

// sample is the sum of all status reports at one time. Its values never decrease, except for subscribed and counts.Open.
type sample struct {
	at         int64 // host clock
	published  uint64
	subscribed int
	counts     counts
	live       []int64 // counts of a histogram
}

func (m *monitor) begin(from int64) { m.from = from }

// setStatus replaces the latest status report of a worker.
func (m *monitor) setStatus(from int, s *status) {
	if m.statuses == nil {
		m.statuses = map[int]*status{}
	}
	m.statuses[from] = s
}

// takeSample takes a sample and, once a second in the measured part, adds a moment.
func (m *monitor) takeSample(published uint64) {
	s := sample{at: hostclock.Now(), published: published}
	for _, st := range m.statuses {
		s.subscribed += st.Subscribed
		s.counts.add(&st.Counts)
		s.live = delivery.SumCounts(s.live, st.Live)
	}
	m.latest = s
	m.lastSecond = append(m.lastSecond, s)
	for len(m.lastSecond) > 1 && s.at-m.lastSecond[1].at >= int64(time.Second) {
		m.lastSecond = m.lastSecond[1:]
	}
	if m.from == 0 || s.at < m.from {
		m.lastMoment = s
		return
	}
	if m.lastMoment.at < m.from {
		m.lastMoment.at = m.from
	}
	if s.at-m.lastMoment.at >= int64(time.Second)-int64(statusInterval)/2 {
		m.addMoment()
	}
}

// addMoment adds a moment for the time since the last one.
func (m *monitor) addMoment() {
	s, before := &m.latest, &m.lastMoment
	recent := latency(delivery.HistogramBetween(s.live, before.live))
	m.moments = append(m.moments, Moment{
		Second: float64(s.at-m.from) / 1e9, Published: s.published - before.published,
		Delivered: s.counts.Received - before.counts.Received, Connected: s.subscribed, P50: recent.P50, P99: recent.P99,
	})
	m.lastMoment = *s
}

// fillProgress sets the fields of p that follow from the samples.
func (m *monitor) fillProgress(p *Progress) {
	p.Clients, p.Delivered, p.Wrong = m.latest.subscribed, m.latest.counts.Received, m.latest.counts.wrong()
	p.Latency = latency(delivery.HistogramBetween(m.latest.live, nil))
	if len(m.lastSecond) < 2 {
		return
	}
	before := &m.lastSecond[0]
	seconds := float64(m.latest.at-before.at) / 1e9
	p.Publishing = float64(m.latest.published-before.published) / seconds
	p.Delivering = float64(m.latest.counts.Received-before.counts.Received) / seconds
	p.Recent = latency(delivery.HistogramBetween(m.latest.live, before.live))
}
