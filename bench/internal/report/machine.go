// Package report says what was measured, where, and what became of the targets.
package report

import (
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"runtime/debug"
	"slices"
	"strconv"
	"strings"
	"time"
)

// Machine says where, when and with what was measured.
type Machine struct {
	Date    string   `json:"date"`
	Command string   `json:"command"`
	Cores   int      `json:"cores"`
	CPU     string   `json:"cpu"`
	Kernel  string   `json:"kernel"`
	Memory  string   `json:"memory"`
	Load    string   `json:"load"` // average of the minute before
	Go      string   `json:"go"`
	CC      string   `json:"cc"`
	Modules []string `json:"modules"` // of others
	Commit  string   `json:"commit"`
	Stolen  float64  `json:"stolen"` // share of the processors' time that the host gave to others meanwhile
}

// ThisMachine describes the machine, a command, and those of the modules in it that are compared.
func ThisMachine(command string, peers []string) Machine {
	m := Machine{
		Date:    time.Now().UTC().Format(time.DateOnly),
		Command: strings.TrimSpace(command),
		Cores:   runtime.NumCPU(),
		CPU:     behind("/proc/cpuinfo", "model name"),
		Kernel:  firstLine(os.ReadFile("/proc/sys/kernel/osrelease")),
		Memory:  behind("/proc/meminfo", "MemTotal"),
		Go:      runtime.Version(),
		CC:      firstLine(exec.Command("cc", "--version").Output()),
		Commit:  firstLine(exec.Command("git", "describe", "--always", "--dirty").Output()),
	}
	m.Load, _, _ = strings.Cut(firstLine(os.ReadFile("/proc/loadavg")), " ")
	if info, ok := debug.ReadBuildInfo(); ok {
		for _, d := range info.Deps {
			if slices.Contains(peers, d.Path) {
				m.Modules = append(m.Modules, d.Path+" "+d.Version)
			}
		}
	}
	return m
}

// firstLine returns the first line of what was read, or what is said of things that are not known.
func firstLine(text []byte, err error) string {
	line, _, _ := strings.Cut(string(text), "\n")
	if err != nil || line == "" {
		return "unknown"
	}
	return strings.TrimSpace(line)
}

// behind returns what is behind a name and a colon in a file of /proc.
func behind(file, name string) string {
	text, err := os.ReadFile(file)
	if err != nil {
		return "unknown"
	}
	for line := range strings.Lines(string(text)) {
		if key, value, ok := strings.Cut(line, ":"); ok && strings.TrimSpace(key) == name {
			return strings.TrimSpace(value)
		}
	}
	return "unknown"
}

// String is for the head of a report.
func (m Machine) String() string {
	return fmt.Sprintf("%s, commit %s: %s.\n%d × %s, %s, Linux %s, load before %s.\n%s, %s, %s.\n",
		m.Date, m.Commit, m.Command, m.Cores, m.CPU, m.Memory, m.Kernel, m.Load, m.Go, m.CC, strings.Join(m.Modules, ", "))
}

// Times are what the processors were busy with since the machine started, in ticks.
type Times struct{ all, stolen float64 }

// ProcessorTimes reads /proc/stat; it knows nothing when that cannot be read.
func ProcessorTimes() (t Times) {
	text, err := os.ReadFile("/proc/stat")
	fields := strings.Fields(firstLine(text, err))
	for i := 1; i <= 8 && i < len(fields); i++ { // user, nice, system, idle, iowait, irq, softirq, steal
		v, err := strconv.ParseFloat(fields[i], 64)
		if err != nil {
			return Times{}
		}
		t.all += v
		if i == 8 {
			t.stolen = v
		}
	}
	return t
}

// StolenUntil returns the share of the time until then that was stolen.
func (t Times) StolenUntil(then Times) float64 {
	if then.all <= t.all {
		return 0
	}
	return (then.stolen - t.stolen) / (then.all - t.all)
}
