package report_test

import (
	"context"
	"fmt"
	"math"
	"net"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/sluice-push/sluice/cmd/sluice/internal/loadtest"
	"github.com/sluice-push/sluice/cmd/sluice/internal/loadtest/report"
)

// fakeProc is a folder that stands for /proc in a test.
type fakeProc struct {
	t    testing.TB
	root string
}

func newProc(t testing.TB) *fakeProc { return &fakeProc{t, t.TempDir()} }

func (p *fakeProc) write(name, format string, args ...any) {
	p.t.Helper()
	path := filepath.Join(p.root, name)
	must(p.t, os.MkdirAll(filepath.Dir(path), 0o755))
	must(p.t, os.WriteFile(path, fmt.Appendf(nil, format, args...), 0o644))
}

// fakeProcess is a process in a fakeProc.
type fakeProcess struct {
	pid, parent  int
	user, system int // ticks
	started      int
	pages        int // resident memory, by the fast counter
	exact        int // resident memory in KiB, by the exact counter; 0: it may not be read
}

func (p *fakeProc) process(f fakeProcess) {
	p.t.Helper()
	// The name has characters that a careless parser would trip over.
	p.write(fmt.Sprintf("%d/stat", f.pid), "%d (a) b (c 1 2) S %d 1 1 0 -1 0 10 0 20 0 %d %d 70 80 20 0 1 0 %d 1000 20",
		f.pid, f.parent, f.user, f.system, f.started)
	p.write(fmt.Sprintf("%d/statm", f.pid), "9999 %d 10 1 0 1 0\n", f.pages)
	if f.exact > 0 {
		p.write(fmt.Sprintf("%d/smaps_rollup", f.pid), "00400000-7fff ---p 00000000 00:00 0 [rollup]\nRss:  %8d kB\nPss:  1 kB\n", f.exact)
	}
}

// host writes the CPU times of the host, and how many pages its TCP sockets take.
func (p *fakeProc) host(busy, stolen, pages int) {
	p.t.Helper()
	p.write("stat", "cpu  %d 0 0 100 0 0 0 %d 7777 8888\ncpu0 1 2 3 4 5 6 7 8 9 10\n", busy, stolen)
	p.write("net/sockstat", "sockets: used 20\nTCP: inuse 2 orphan 0 tw 0 alloc 2 mem %d\nUDP: inuse 0 mem 3\n", pages)
}

var epoch = time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)

func at(seconds float64) time.Time { return epoch.Add(time.Duration(seconds * float64(time.Second))) }

// wholeRun returns a sampler that has sampled a whole run. The server is process 50. The clients are in this process and in a child of it.
func wholeRun(t *testing.T) *report.Sampler {
	p, self := newProc(t), os.Getpid()
	step := func(server, clients, worker fakeProcess) {
		server.pid, server.parent, server.started = 50, 1, 5
		clients.pid, clients.parent, clients.started = self, 1, 9
		p.process(server)
		p.process(clients)
		if worker.pages > 0 {
			worker.pid, worker.parent, worker.started = self+100_000, self, 20
			p.process(worker)
		}
	}
	step(fakeProcess{user: 10, system: 20, pages: 100}, fakeProcess{user: 1, pages: 10}, fakeProcess{})
	p.host(1000, 50, 10)
	s := report.NewSamplerOf(p.root, 50, 50)
	s.Phase(loadtest.Connecting, at(0))

	step(fakeProcess{user: 100, system: 100, pages: 350, exact: 4096}, fakeProcess{user: 51, pages: 10}, fakeProcess{user: 10, pages: 7})
	p.host(1500, 50, 30)
	s.Phase(loadtest.Settling, at(2))
	s.Phase(loadtest.Warming, at(4))
	s.Phase(loadtest.Warming, at(4.5)) // a second call for a phase has no effect

	step(fakeProcess{user: 120, system: 100, pages: 360, exact: 4000}, fakeProcess{user: 61, pages: 10}, fakeProcess{user: 20, pages: 7})
	p.host(2000, 100, 60)
	s.Phase(loadtest.Measuring, at(5))

	step(fakeProcess{user: 220, system: 160, pages: 9000}, fakeProcess{user: 111, pages: 10}, fakeProcess{user: 60, pages: 7})
	p.host(2400, 200, 45)
	s.Sample(at(7))

	step(fakeProcess{user: 300, system: 180, pages: 500, exact: 2048}, fakeProcess{user: 161, pages: 12}, fakeProcess{user: 110, pages: 8})
	p.host(3000, 1100, 20)
	s.Phase(loadtest.Closing, at(9))

	step(fakeProcess{user: 9999, pages: 99_999}, fakeProcess{user: 9999}, fakeProcess{})
	s.Sample(at(10)) // a sample after the run does not count
	return s
}

// The figures of a whole run equal those computed by hand.
func TestSampler(t *testing.T) {
	r := &loadtest.Result{
		Host:       &loadtest.Host{Load: 1000},
		Connects:   loadtest.Connects{Clients: 4},
		Deliveries: loadtest.Deliveries{Received: 1_000_000},
		Moments:    []loadtest.Moment{{Second: 1}, {Second: 2}, {Second: 3}, {Second: 4}},
	}
	wholeRun(t).Fill(r)
	page := int64(os.Getpagesize())
	wantServer := loadtest.Usage{
		Processes: 1, CPU: 2.6, PerDelivery: 2.6, Before: 100 * page, Idle: 4 << 20, Peak: 9000 * page, After: 2 << 20,
		PerClient: ((4 << 20) - 100*page) / 4, Sockets: 50 * page,
	}
	wantGenerator := loadtest.Usage{
		Processes: 2, CPU: 1.9, PerDelivery: 1.9, Before: 10 * page, Idle: 17 * page, Peak: 20 * page, After: 20 * page,
		PerClient: 7 * page / 4, Sockets: 50 * page,
	}
	if *r.Server != wantServer {
		t.Errorf("server: %+v\nwant    %+v", *r.Server, wantServer)
	}
	if *r.Generator != wantGenerator {
		t.Errorf("generator: %+v\nwant       %+v", *r.Generator, wantGenerator)
	}
	// 380 - 220 ticks in the first two seconds, 480 - 380 in the other two.
	for i, want := range []struct {
		cpu     float64
		rss     int64
		sockets int64
	}{{0.8, 360 * page, 50 * page}, {0.8, 9000 * page, 35 * page}, {0.5, 9000 * page, 35 * page}, {0.5, 2 << 20, 10 * page}} {
		if m := r.Moments[i]; math.Abs(m.CPU-want.cpu) > 1e-9 || m.Memory != want.rss || m.Sockets != want.sockets {
			t.Errorf("second %v: %v cores, %d and %d bytes, want %+v", m.Second, m.CPU, m.Memory, m.Sockets, want)
		}
	}
	if want := 1000.0 / 2000; r.Host.Stolen != want { // 1,000 of 2,000 ticks between 5 and 9
		t.Errorf("stolen %v, want %v", r.Host.Stolen, want)
	}
	text := strings.Join(r.Problems, "\n")
	if !strings.Contains(text, "other virtual machines took 50 %") || !strings.Contains(text, "load 1,000") || len(r.Problems) != 2 {
		t.Errorf("problems:\n%s", text)
	}
}

// Processes that do not exist, processes that end, and a process whose ID is reused.
func TestSamplerProcessesEnd(t *testing.T) {
	for name, end := range map[string]func(p *fakeProc){
		"gone":     func(p *fakeProc) { must(t, os.RemoveAll(filepath.Join(p.root, "50"))) },
		"replaced": func(p *fakeProc) { p.process(fakeProcess{pid: 50, user: 5000, started: 6, pages: 5000}) },
	} {
		t.Run(name, func(t *testing.T) {
			p := newProc(t)
			p.host(1000, 0, 0)
			p.process(fakeProcess{pid: os.Getpid(), parent: 1, started: 1, pages: 10})
			p.process(fakeProcess{pid: 50, user: 10, started: 5, pages: 100})
			s := report.NewSamplerOf(p.root, 50, 51)
			s.Phase(loadtest.Connecting, at(0))
			s.Phase(loadtest.Measuring, at(1))
			p.process(fakeProcess{pid: 50, user: 110, started: 5, pages: 200})
			s.Sample(at(2))
			end(p)
			s.Sample(at(3))
			s.Phase(loadtest.Closing, at(4))
			r := &loadtest.Result{Connects: loadtest.Connects{Clients: 1}}
			s.Fill(r)
			page := int64(os.Getpagesize())
			if r.Server == nil || r.Server.CPU != 1 || r.Server.Peak != 200*page || r.Server.After != 0 {
				t.Errorf("usage %+v, want a second of CPU, 200 pages at most, nothing at the end", r.Server)
			}
			text := strings.Join(r.Problems, "\n")
			if !strings.Contains(text, "process 50 ended") || !strings.Contains(text, "process 51 not found") || len(r.Problems) != 2 {
				t.Errorf("problems:\n%s", text)
			}
		})
	}
}

// On a system without /proc, and for a run that was not measured, the figures stay unknown.
func TestSamplerKnowsNothing(t *testing.T) {
	untouched := func(name string, s *report.Sampler) {
		t.Helper()
		r := &loadtest.Result{Host: &loadtest.Host{}, Moments: []loadtest.Moment{{Second: 1}}, Deliveries: loadtest.Deliveries{Received: 1}}
		s.Fill(r)
		if r.Server != nil || r.Generator != nil || r.Host.Stolen != 0 || r.Moments[0].CPU != 0 || r.Moments[0].Memory != 0 {
			t.Errorf("%s: %+v %+v", name, r.Server, r.Generator)
		}
	}
	nothing := report.NewSamplerOf("")
	for i, phase := range []loadtest.Phase{loadtest.Connecting, loadtest.Settling, loadtest.Measuring, loadtest.Draining, loadtest.Closing} {
		nothing.Phase(phase, at(float64(i)))
		nothing.Sample(at(float64(i) + 0.5))
	}
	untouched("no /proc", nothing)
	early := report.NewSampler(os.Getpid())
	early.Phase(loadtest.Connecting, at(0))
	early.Sample(at(1))
	untouched("never measured", early)
	untouched("never looked", report.NewSampler())
	if h := report.HostOf(""); h.CPU != "unknown" || !strings.Contains(h.System, runtime.GOARCH) || h.Memory != 0 || h.Load != 0 {
		t.Errorf("host: %+v", h)
	}
}

// A run that ended before phase Closing is measured up to the last sample.
func TestSamplerBrokenOff(t *testing.T) {
	p := newProc(t)
	p.host(1000, 0, 0)
	p.process(fakeProcess{pid: os.Getpid(), parent: 1, started: 1, user: 100, pages: 10})
	s := report.NewSamplerOf(p.root)
	s.Phase(loadtest.Measuring, at(1))
	p.process(fakeProcess{pid: os.Getpid(), parent: 1, started: 1, user: 150, pages: 10})
	s.Sample(at(2))
	r := &loadtest.Result{}
	s.Fill(r)
	if r.Server != nil || r.Generator == nil || r.Generator.CPU != 0.5 || r.Generator.Before != 0 {
		t.Errorf("server %+v, generator %+v", r.Server, r.Generator)
	}
}

// With the real /proc, the sampler sees the CPU time of this process. The process works until that time has advanced.
func TestSamplerSeesThisProcess(t *testing.T) {
	if runtime.GOOS != "linux" {
		return // TestSamplerKnowsNothing covers these systems
	}
	s := report.NewSampler(os.Getpid())
	s.Phase(loadtest.Connecting, at(0))
	s.Phase(loadtest.Measuring, at(1))
	sum, seen := uint64(1), 0.0
	for i := 0; i < 10_000 && seen == 0; i++ {
		for n := range uint64(1_000_000) {
			sum = sum*6364136223846793005 + n
		}
		s.Sample(at(2 + float64(i)))
		r := &loadtest.Result{}
		s.Fill(r)
		seen = min(r.Server.CPU, r.Generator.CPU) // both are this process, but sampled one after the other
	}
	if seen == 0 {
		t.Errorf("no CPU time was seen for 10,000,000,000 multiplications (%d)", sum)
	}
	r := &loadtest.Result{}
	s.Fill(r)
	if r.Server.Before < 1<<20 || r.Server.Peak < r.Server.Before {
		t.Errorf("memory: %+v", r.Server)
	}
	if !slices.ContainsFunc(r.Problems, func(p string) bool { return strings.Contains(p, "in one process") }) {
		t.Errorf("problems %q", r.Problems)
	}
}

func TestHost(t *testing.T) {
	h := report.Host()
	if h.Cores < 1 || h.Toolchain != runtime.Version() || h.CPU == "" || !strings.HasPrefix(h.System, runtime.GOOS) {
		t.Errorf("this host is %+v", h)
	}
	if runtime.GOOS == "linux" && h.Memory == 0 {
		t.Errorf("this host has no memory: %+v", h)
	}
	p := newProc(t)
	p.write("cpuinfo", "processor\t: 0\nmodel\t\t: 17\nmodel name\t: AMD  EPYC 9554\n\nprocessor\t: 1\nmodel name\t: other\n")
	p.write("sys/kernel/osrelease", "6.18.44-x\n")
	p.write("meminfo", "MemTotal:       24576 kB\nMemFree: 1 kB\n")
	p.write("loadavg", "1.25 0.80 0.50 1/234 5678\n")
	h = report.HostOf(p.root)
	if h.CPU != "AMD EPYC 9554" || h.System != runtime.GOOS+" 6.18.44-x "+runtime.GOARCH || h.Memory != 24<<20 || h.Load != 1.25 {
		t.Errorf("host: %+v", h)
	}
}

// socketTable has a line for each kind of socket: listeners on all addresses, on loopback and on another address, and a connection.
const socketTable = `  sl  local_address rem_address   st tx_queue rx_queue tr tm->when retrnsmt   uid  timeout inode
   0: 00000000:1F40 00000000:0000 0A 00000000:00000000 00:00000000 00000000     0        0 101 1 0
   1: 0100007F:1F41 00000000:0000 0A 00000000:00000000 00:00000000 00000000     0        0 102 1 0
   2: 0101A8C0:1F41 00000000:0000 0A 00000000:00000000 00:00000000 00000000     0        0 103 1 0
   3: 0100007F:1F42 0100007F:9999 01 00000000:00000000 00:00000000 00000000     0        0 104 1 0
`

const socketTable6 = `  sl  local_address                         remote_address                        st
   0: 00000000000000000000000001000000:1F43 00000000000000000000000000000000:0000 0A 00000000:00000000 00:00000000 00000000     0        0 105 1 0
   1: 0000000000000000FFFF00000100007F:1F44 00000000000000000000000000000000:0000 0A 00000000:00000000 00:00000000 00000000     0        0 106 1 0
`

func TestListenersOfTables(t *testing.T) {
	p := newProc(t)
	p.write("net/tcp", "%s", socketTable)
	p.write("net/tcp6", "%s", socketTable6)
	for pid, inodes := range map[int][]int{20: {101}, 21: {102, 900}, 22: {103}, 23: {101}, 24: {105, 106}} {
		for fd, inode := range inodes {
			folder := filepath.Join(p.root, strconv.Itoa(pid), "fd")
			must(t, os.MkdirAll(folder, 0o755))
			must(t, os.Symlink("/dev/null", filepath.Join(folder, strconv.Itoa(100+fd))))
			must(t, os.Symlink(fmt.Sprintf("socket:[%d]", inode), filepath.Join(folder, strconv.Itoa(fd))))
		}
	}
	local, other := net.IPv4(127, 0, 0, 1), net.IPv4(192, 168, 1, 1)
	for _, tt := range []struct {
		name string
		port int
		ips  []net.IP
		want []int
		why  string
	}{
		{name: "all addresses, two processes", port: 8000, ips: []net.IP{local}, want: []int{20, 23}},
		{name: "loopback", port: 8001, ips: []net.IP{local}, want: []int{21}},
		{name: "another address", port: 8001, ips: []net.IP{other}, want: []int{22}},
		{name: "either", port: 8001, ips: []net.IP{other, local}, want: []int{21, 22}},
		{name: "a connection is no listener", port: 8002, ips: []net.IP{local}, why: "no process listens on port 8002"},
		{name: "IPv6", port: 8003, ips: []net.IP{net.IPv6loopback}, want: []int{24}},
		{name: "IPv6, of another address", port: 8003, ips: []net.IP{local}, why: "no process listens"},
		{name: "IPv4 in IPv6", port: 8004, ips: []net.IP{local}, want: []int{24}},
	} {
		got, err := report.ListenersOf(p.root, tt.port, tt.ips...)
		slices.Sort(got)
		if !slices.Equal(got, tt.want) || (err != nil) != (tt.why != "") || err != nil && !strings.Contains(err.Error(), tt.why) {
			t.Errorf("%s: %v, %v, want %v %s", tt.name, got, err, tt.want, tt.why)
		}
	}
	must(t, os.RemoveAll(filepath.Join(p.root, "21")))
	if _, err := report.ListenersOf(p.root, 8001, local); err == nil || !strings.Contains(err.Error(), "may not inspect") {
		t.Errorf("a process of another user: %v", err)
	}
	if _, err := report.ListenersOf("", 8001, local); err == nil || !strings.Contains(err.Error(), "not supported") {
		t.Errorf("another system: %v", err)
	}
}

// With the real tables, the process that listens is this one.
func TestListeners(t *testing.T) {
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	defer cancel()
	for _, address := range []string{"", "nonsense", "127.0.0.1:http-that-is-none"} {
		if pids, err := report.Listeners(ctx, address); err == nil {
			t.Errorf("%q: %v and no error", address, pids)
		}
	}
	// An address reserved for documentation (RFC 5737) does not belong to this host.
	if pids, err := report.Listeners(ctx, "192.0.2.1:80"); err != nil || pids != nil {
		t.Errorf("another host: %v, %v", pids, err)
	}
	if runtime.GOOS != "linux" {
		return
	}
	for _, address := range []string{"127.0.0.1:0", ":0"} {
		l, err := net.Listen("tcp", address)
		must(t, err)
		_, port, err := net.SplitHostPort(l.Addr().String())
		must(t, err)
		pids, err := report.Listeners(ctx, "127.0.0.1:"+port)
		if err != nil || !slices.Equal(pids, []int{os.Getpid()}) {
			t.Errorf("%s: %v, %v, want this process", address, pids, err)
		}
		must(t, l.Close())
		if pids, err := report.Listeners(ctx, "127.0.0.1:"+port); err == nil {
			t.Errorf("%s, closed: %v", address, pids)
		}
	}
}

// The parsers of /proc do not panic for any text.
func FuzzTables(f *testing.F) {
	f.Add([]byte(socketTable), 8000)
	f.Add([]byte("1 (a) b) S 2 3"), 1)
	f.Add([]byte("1 (a) S 1 1 1 0 -1 0 10 0 20 0 18446744073709551615 1 70 80 20 0 1 0 5 1000 20"), -1)
	f.Add([]byte("Rss: x kB\nmodel name\t:\n"), 0)
	f.Fuzz(func(_ *testing.T, text []byte, port int) { report.ParseTables(text, port) })
}
