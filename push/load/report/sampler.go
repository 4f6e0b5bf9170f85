package report

import (
	"fmt"
	"os"
	"slices"
	"sort"
	"time"

	"github.com/sluice-push/sluice/push/load"
)

// Sampler says what a run costs: the server's processes, this one with those it starts, and the host. It reads /proc when it is told to
// look and keeps what it saw, about a hundred bytes a look. One goroutine at a time may use it. Times are the caller's, and never go back.
type Sampler struct {
	proc      proc
	server    group
	generator group
	cores     int
	began     map[load.Phase]time.Time
	hosts     []hostLook
}

// hostLook is what the host has used by a moment.
type hostLook struct {
	at      time.Time
	sockets int64
	processors
}

// NewSampler returns a sampler of the processes of a server, by their numbers. There may be none: then the rest is measured. Processes that
// do not exist, now or later, are told by [Sampler.Fill] as a problem.
func NewSampler(server ...int) *Sampler { return newSampler(theProc(), server) }

func newSampler(p proc, server []int) *Sampler {
	s := &Sampler{proc: p, cores: p.host().Cores, began: make(map[load.Phase]time.Time)}
	s.server.add(p, server...)
	s.generator.add(p, os.Getpid())
	return s
}

// Phase tells that a phase begins now, and looks at the processes, closely if nothing is measured just then: their memory is added up page
// by page.
func (s *Sampler) Phase(phase load.Phase, now time.Time) {
	if _, again := s.began[phase]; again {
		return
	}
	s.began[phase] = now
	_, warm := s.began[load.Warming]
	busy := phase == load.Draining || phase == load.Measuring && warm
	s.generator.add(s.proc, s.proc.family(os.Getpid())...) // those that run its clients may have been started meanwhile
	s.look(now, !busy)
}

// Sample looks at the processes and the host. Four times a second are plenty; each look costs some 20 µs and as much for each process.
func (s *Sampler) Sample(now time.Time) { s.look(now, false) }

func (s *Sampler) look(now time.Time, exact bool) {
	s.server.look(s.proc, now, exact)
	s.generator.look(s.proc, now, exact)
	s.hosts = append(s.hosts, hostLook{now, s.proc.sockets(), s.proc.processors()})
}

// Fill puts into a result what was seen: Server, Generator, Host.Stolen, CPU, Memory and Sockets of the moments, and into Problems what that says
// about how far the result can be believed. Call it once, when the run has ended. What is unknown stays as it is.
func (s *Sampler) Fill(r *load.Result) {
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
		if before, ok := s.began[load.Connecting]; ok {
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

// measured returns when the measured part began and when it ended: when closing began, or at the last look of a run that did not come so
// far.
func (s *Sampler) measured() (begin, end time.Time, ok bool) {
	begin, ok = s.began[load.Measuring]
	if !ok || len(s.hosts) == 0 {
		return begin, end, false
	}
	end, closed := s.began[load.Closing]
	if !closed {
		end = s.hosts[len(s.hosts)-1].at
	}
	return begin, end, true
}

// hostAt returns the last look that is not after a moment, the first of all when there is none.
func (s *Sampler) hostAt(t time.Time) hostLook {
	i := sort.Search(len(s.hosts), func(i int) bool { return s.hosts[i].at.After(t) })
	return s.hosts[max(i-1, 0)]
}

// usage says what a group has cost, nil when nothing is known of it.
func (s *Sampler) usage(g *group, r *load.Result) *load.Usage {
	if !g.known() {
		return nil
	}
	begin, end, _ := s.measured()
	u := &load.Usage{
		Processes: len(g.members),
		CPU:       (g.at(end).cpu - g.at(begin).cpu).Seconds(),
		After:     g.at(end).rss,
	}
	if r.Deliveries.Received > 0 {
		u.PerDelivery = u.CPU * 1e6 / float64(r.Deliveries.Received)
	}
	for _, l := range g.looks {
		if !l.at.After(end) {
			u.Peak = max(u.Peak, l.rss)
		}
	}
	before, ok := s.began[load.Connecting]
	if !ok {
		return u
	}
	u.Before = g.at(before).rss
	for _, h := range s.hosts {
		u.Sockets = max(u.Sockets, h.sockets-s.hostAt(before).sockets)
	}
	idle := begin
	if warming, ok := s.began[load.Warming]; ok {
		idle = warming
	}
	u.Idle = g.at(idle).rss
	if r.Connects.Clients > 0 {
		u.PerClient = (u.Idle - u.Before) / int64(r.Connects.Clients)
	}
	return u
}

// What the host may do before a result says that it is not to be trusted.
const (
	muchStolen = 0.05 // share of the processors' time that other machines took
	muchUsed   = 0.9  // share of it that the generator took, with a server elsewhere or not
	muchLoad   = 0.5  // load average before the run, for each core
)

// problems says what makes the figures doubtful.
func (s *Sampler) problems(r *load.Result, took time.Duration) []string {
	var all []string
	for _, m := range s.server.members {
		switch {
		case m.missing:
			all = append(all, fmt.Sprintf("there was no process %d, which was named as the server's", m.pid))
		case m.ended:
			all = append(all, fmt.Sprintf("the server's process %d ended during the run", m.pid))
		}
		if slices.ContainsFunc(s.generator.members, func(g *member) bool { return g.pid == m.pid }) {
			all = append(all, "server and clients were in one process: what each of them used is what both used")
		}
	}
	if r.Host != nil && r.Host.Stolen > muchStolen {
		all = append(all, fmt.Sprintf("other machines took %s of the processors' time: latencies are worse than this host's own",
			percent(r.Host.Stolen)))
	}
	if r.Host != nil && r.Host.Load > muchLoad*float64(s.cores) {
		all = append(all, fmt.Sprintf("the host was not idle before the run: load %s on %s",
			significant(r.Host.Load), plural(s.cores, "core", "cores")))
	}
	if g := r.Generator; g != nil && took > 0 && s.cores > 0 {
		if used := g.CPU / took.Seconds() / float64(s.cores); used > muchUsed {
			all = append(all, fmt.Sprintf("the clients used %s of the host's processors: latencies may be theirs, run them elsewhere or fewer",
				percent(used)))
		}
	}
	return all
}

// group is some processes that are looked at together.
type group struct {
	members []*member
	looks   []look
}

// member is a process of a group.
type member struct {
	pid     int
	last    process
	missing bool // it never was
	ended   bool
}

// look is what a group has used by a moment.
type look struct {
	at  time.Time
	cpu time.Duration // of those that have ended, as far as it was seen
	rss int64
}

// add takes processes into a group that it does not have yet.
func (g *group) add(p proc, pids ...int) {
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

// known reports whether anything is known of a process of the group.
func (g *group) known() bool {
	return slices.ContainsFunc(g.members, func(m *member) bool { return !m.missing })
}

// look looks at each process of the group.
func (g *group) look(p proc, now time.Time, exact bool) {
	l := look{at: now}
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
	g.looks = append(g.looks, l)
}

// at returns what the group had used by a moment: its processors' time between two looks is taken to have passed evenly, its memory is that
// of the last look.
func (g *group) at(t time.Time) look {
	if len(g.looks) == 0 {
		return look{at: t}
	}
	i := sort.Search(len(g.looks), func(i int) bool { return g.looks[i].at.After(t) })
	if i == 0 {
		return g.looks[0]
	}
	l := g.looks[i-1]
	if i < len(g.looks) {
		next := g.looks[i]
		share := float64(t.Sub(l.at)) / float64(next.at.Sub(l.at))
		l.cpu += time.Duration(share * float64(next.cpu-l.cpu))
	}
	l.at = t
	return l
}

// during returns how many cores the group used on average between two moments, and its memory at the end.
func (g *group) during(from, to time.Time) (cores float64, rss int64) {
	last := g.at(to)
	if d := to.Sub(from); d > 0 {
		cores = float64(last.cpu-g.at(from).cpu) / float64(d)
	}
	return cores, last.rss
}
