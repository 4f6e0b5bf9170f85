package report

import (
	"os"
	"runtime"
	"strconv"
	"strings"

	"github.com/sluice-push/sluice/cmd/sluice/internal/loadtest"
)

// Host returns the facts of this host. On systems other than Linux these are only the name, the operating system and architecture, the number of
// CPUs and the toolchain. Call Host before the run, because Load is the current value. [Sampler.Fill] sets Stolen. Host may be called
// concurrently.
func Host() loadtest.Host { return hostProc().host() }

func (p proc) host() loadtest.Host {
	h := loadtest.Host{
		System:    runtime.GOOS + " " + runtime.GOARCH,
		CPU:       "unknown",
		Cores:     runtime.NumCPU(),
		Toolchain: runtime.Version(),
	}
	h.Name, _ = os.Hostname() // on error the name stays empty
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

// cpuModel returns the name of the processor in the content of /proc/cpuinfo, or "" if it has none there.
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
