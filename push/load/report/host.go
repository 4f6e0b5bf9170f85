package report

import (
	"os"
	"runtime"
	"strconv"
	"strings"

	"github.com/sluice-push/sluice/push/load"
)

// Host returns what is known about this host: on systems other than Linux its name, its processors' number and the toolchain only. Call it
// before the run, since Load is as of now; Stolen is filled in by [Sampler.Fill]. It may be called concurrently.
func Host() load.Host { return theProc().host() }

func (p proc) host() load.Host {
	h := load.Host{
		System:    runtime.GOOS + " " + runtime.GOARCH,
		CPU:       "unknown",
		Cores:     runtime.NumCPU(),
		Toolchain: runtime.Version(),
	}
	h.Name, _ = os.Hostname() // what has no name is nameless
	if release, err := p.read("sys", "kernel", "osrelease"); err == nil {
		h.System = runtime.GOOS + " " + strings.TrimSpace(string(release)) + " " + runtime.GOARCH
	}
	if info, err := p.read("cpuinfo"); err == nil {
		if model := cpuModel(string(info)); model != "" {
			h.CPU = model
		}
	}
	if info, err := p.read("meminfo"); err == nil {
		h.Memory = kilobytes(info, "MemTotal:")
	}
	if average, err := p.read("loadavg"); err == nil {
		minute, _, _ := strings.Cut(string(average), " ")
		h.Load, _ = strconv.ParseFloat(minute, 64)
	}
	return h
}

// cpuModel returns what /proc/cpuinfo calls the processor. Not all kinds of processors have a name there.
func cpuModel(info string) string {
	for _, name := range []string{"model name", "cpu model", "uarch", "cpu"} {
		for line := range strings.Lines(info) {
			key, value, ok := strings.Cut(line, ":")
			if ok && strings.TrimSpace(key) == name {
				return strings.Join(strings.Fields(value), " ")
			}
		}
	}
	return ""
}
