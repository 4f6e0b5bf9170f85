package report

import (
	"fmt"
	"os"
	"slices"
	"sort"
	"time"

	"github.com/sluice-push/sluice/cmd/sluice/internal/loadtest"
)

// Sampler measures the resources that a run uses: those of the processes of the server, of this process and its descendants, and of the host. It
// reads /proc when a method asks for it, and keeps about 100 bytes for each sample. It is not safe for concurrent use. The caller gives the times,
// which must not go back.
type Sampler struct {
	proc      proc
	server    processGroup
	generator processGroup
	cores     int
	began     map[loadtest.Phase]time.Time
	hosts     []hostSample
}

// hostSample holds what the host had used at one time.
type hostSample struct {
	at      time.Time
	sockets int64
	processors
}

// NewSampler returns a sampler of the server processes with the given IDs. Without an ID it measures the rest. If a process does not exist, now
// or later, [Sampler.Fill] adds a problem.
func NewSampler(server ...int) *Sampler { return newSampler(hostProc(), server) }

func newSampler(p proc, server []int) *Sampler {
	s := &Sampler{proc: p, cores: p.host().Cores, began: make(map[loadtest.Phase]time.Time)}
	s.server.add(p, server...)
	s.generator.add(p, os.Getpid())
	return s
}

// Phase records that a phase begins now, and takes a sample. The memory in the sample is exact, unless that would disturb the measurement. A
// second call for a phase does nothing.
func (s *Sampler) Phase(phase loadtest.Phase, now time.Time) {
	if _, again := s.began[phase]; again {
		return
	}
	s.began[phase] = now
	_, warm := s.began[loadtest.Warming]
	busy := phase == loadtest.Draining || phase == loadtest.Measuring && warm
	s.generator.add(s.proc, s.proc.family(os.Getpid())...) // the client processes may have started meanwhile
	s.sample(now, !busy)
}

// Sample takes a sample of the processes and the host. Four samples a second are plenty. A sample takes about 20 µs, and as much for each process.
func (s *Sampler) Sample(now time.Time) { s.sample(now, false) }

// sample takes a sample. If exact is set, the memory is exact.
func (s *Sampler) sample(now time.Time, exact bool) {
	s.server.sample(s.proc, now, exact)
	s.generator.sample(s.proc, now, exact)
	s.hosts = append(s.hosts, hostSample{now, s.proc.sockets(), s.proc.processors()})
}

// Fill adds the measured figures to a result. It sets Server, Generator, Host.Stolen, and CPU, Memory and Sockets of the moments. It adds to
// Problems what makes the result doubtful. Call it once, after the run. Unknown figures stay as they are.
func (s *Sampler) Fill(r *loadtest.Result) {
	begin, end, ok := s.measured()
	if !ok {
		return
	}
	r.Server = s.usage(&s.server, r)
	r.Generator = s.usage(&s.generator, r)
	for i := range r.Moments {
		m := &r.Moments[i]
		from := 0.0
		if i > 0 {
			from = r.Moments[i-1].Second
		}
		m.CPU, m.Memory = s.server.during(after(begin, from), after(begin, m.Second))
		if before, ok := s.began[loadtest.Connecting]; ok {
			m.Sockets = max(s.hostAt(after(begin, m.Second)).sockets-s.hostAt(before).sockets, 0)
		}
	}
	first, last := s.hostAt(begin), s.hostAt(end)
	if total := last.total - first.total; r.Host != nil && total > 0 {
		r.Host.Stolen = float64(last.stolen-first.stolen) / float64(total)
	}
	r.Problems = append(r.Problems, s.problems(r, end.Sub(begin))...)
}

func after(t time.Time, seconds float64) time.Time {
	return t.Add(time.Duration(seconds * float64(time.Second)))
}

// measured returns when the measured part began and ended. The end is the beginning of phase Closing or, if there was none, the last sample.
func (s *Sampler) measured() (begin, end time.Time, ok bool) {
	begin, ok = s.began[loadtest.Measuring]
	if !ok || len(s.hosts) == 0 {
		return begin, end, false
	}
	end, closed := s.began[loadtest.Closing]
	if !closed {
		end = s.hosts[len(s.hosts)-1].at
	}
	return begin, end, true
}

// hostAt returns the last sample of the host until t, or the first sample if there is none.
func (s *Sampler) hostAt(t time.Time) hostSample {
	i := sort.Search(len(s.hosts), func(i int) bool { return s.hosts[i].at.After(t) })
	return s.hosts[max(i-1, 0)]
}

// usage returns the usage of a group, or nil if no process of it is known.
func (s *Sampler) usage(g *processGroup, r *loadtest.Result) *loadtest.Usage {
	if !g.known() {
		return nil
	}
	begin, end, _ := s.measured()
	u := &loadtest.Usage{
		Processes: len(g.members),
		CPU:       (g.at(end).cpu - g.at(begin).cpu).Seconds(),
		After:     g.at(end).rss,
	}
	if r.Deliveries.Received > 0 {
		u.PerDelivery = u.CPU * 1e6 / float64(r.Deliveries.Received)
	}
	for _, l := range g.samples {
		if !l.at.After(end) {
			u.Peak = max(u.Peak, l.rss)
		}
	}
	before, ok := s.began[loadtest.Connecting]
	if !ok {
		return u
	}
	u.Before = g.at(before).rss
	for _, h := range s.hosts {
		u.Sockets = max(u.Sockets, h.sockets-s.hostAt(before).sockets)
	}
	idle := begin
	if warming, ok := s.began[loadtest.Warming]; ok {
		idle = warming
	}
	u.Idle = g.at(idle).rss
	if r.Connects.Clients > 0 {
		u.PerClient = (u.Idle - u.Before) / int64(r.Connects.Clients)
	}
	return u
}

// The bounds beyond which Fill adds a problem.
const (
	maxStolen = 0.05 // fraction of the CPU time that other virtual machines took
	maxUsed   = 0.9  // fraction of the CPU time that the generator took, wherever the server ran
	maxLoad   = 0.5  // load average before the run, per core
)

// problems returns what makes the figures doubtful, one sentence each.
func (s *Sampler) problems(r *loadtest.Result, took time.Duration) []string {
	var all []string
	for _, m := range s.server.members {
		switch {
		case m.missing:
			all = append(all, fmt.Sprintf("server process %d not found", m.pid))
		case m.ended:
			all = append(all, fmt.Sprintf("server process %d ended during the run", m.pid))
		}
		if slices.ContainsFunc(s.generator.members, func(g *member) bool { return g.pid == m.pid }) {
			all = append(all, "server and clients ran in one process: its usage counts for both")
		}
	}
	if r.Host != nil && r.Host.Stolen > maxStolen {
		all = append(all, fmt.Sprintf("other virtual machines took %s of the CPU time: latencies are higher than on an idle host",
			percent(r.Host.Stolen)))
	}
	if r.Host != nil && r.Host.Load > maxLoad*float64(s.cores) {
		all = append(all, fmt.Sprintf("the host was busy before the run: load %s on %s",
			significant(r.Host.Load), plural(s.cores, "core", "cores")))
	}
	if g := r.Generator; g != nil && took > 0 && s.cores > 0 {
		if used := g.CPU / took.Seconds() / float64(s.cores); used > maxUsed {
			all = append(all, fmt.Sprintf("the clients used %s of the host's CPUs and may have caused latency: use fewer clients, or another host",
				percent(used)))
		}
	}
	return all
}

// processGroup is a set of processes that are measured together.
type processGroup struct {
	members []*member
	samples []usageSample
}

// member is a process of a processGroup.
type member struct {
	pid     int
	last    process
	missing bool // it did not exist when it was added
	ended   bool
}

// usageSample holds what a group had used at one time.
type usageSample struct {
	at  time.Time
	cpu time.Duration // processes that have ended count with their last sample
	rss int64
}

// add adds processes to a group and skips the ones that it already has.
func (g *processGroup) add(p proc, pids ...int) {
	for _, pid := range pids {
		if slices.ContainsFunc(g.members, func(m *member) bool { return m.pid == pid }) {
			continue
		}
		m := &member{pid: pid}
		var err error
		if m.last, err = p.process(pid, false); err != nil {
			m.missing = true
		}
		g.members = append(g.members, m)
	}
}

// known reports whether the group has a process that existed.
func (g *processGroup) known() bool {
	return slices.ContainsFunc(g.members, func(m *member) bool { return !m.missing })
}

// sample takes a sample of all processes of the group.
func (g *processGroup) sample(p proc, now time.Time, exact bool) {
	l := usageSample{at: now}
	for _, m := range g.members {
		if m.missing {
			continue
		}
		if !m.ended {
			u, err := p.process(m.pid, exact)
			if m.ended = err != nil || u.started != m.last.started; m.ended {
				m.last.rss = 0
			} else {
				m.last = u
			}
		}
		l.cpu += m.last.cpu
		l.rss += m.last.rss
	}
	g.samples = append(g.samples, l)
}

// at returns what the group had used at t. The CPU time is interpolated between two samples. The memory is that of the last sample until t.
func (g *processGroup) at(t time.Time) usageSample {
	if len(g.samples) == 0 {
		return usageSample{at: t}
	}
	i := sort.Search(len(g.samples), func(i int) bool { return g.samples[i].at.After(t) })
	if i == 0 {
		return g.samples[0]
	}
	l := g.samples[i-1]
	if i < len(g.samples) {
		next := g.samples[i]
		share := float64(t.Sub(l.at)) / float64(next.at.Sub(l.at))
		l.cpu += time.Duration(share * float64(next.cpu-l.cpu))
	}
	l.at = t
	return l
}

// during returns how many cores the group used on average from from to to, and its memory at the end.
func (g *processGroup) during(from, to time.Time) (cores float64, rss int64) {
	last := g.at(to)
	if d := to.Sub(from); d > 0 {
		cores = float64(last.cpu-g.at(from).cpu) / float64(d)
	}
	return cores, last.rss
}
