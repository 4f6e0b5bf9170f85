package main_test

import (
	"fmt"
	"os"
	"strconv"
	"strings"
	"time"
)

// cpu returns how much CPU time the process has used, for reports, and 0 on systems without proc(5).
func (p *process) cpu() time.Duration {
	stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", p.cmd.Process.Pid))
	if err != nil {
		return 0
	}
	_, after, _ := strings.Cut(string(stat), ") ") // the name before may contain any characters
	fields := strings.Fields(after)
	const utime, stime = 14 - 3, 15 - 3 // the fields' numbers in proc(5), counted from the first field after the name
	if len(fields) <= stime {
		return 0
	}
	ticks := 0
	for _, field := range []string{fields[utime], fields[stime]} {
		n, err := strconv.Atoi(field)
		if err != nil {
			return 0
		}
		ticks += n
	}
	return time.Duration(ticks) * 10 * time.Millisecond // USER_HZ is 100
}

// resident returns the resident memory of the process in bytes, and 0 on systems without proc(5).
func (p *process) resident() int64 {
	status, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", p.cmd.Process.Pid))
	if err != nil {
		return 0
	}
	for line := range strings.Lines(string(status)) {
		if value, found := strings.CutPrefix(line, "VmRSS:"); found {
			kilobytes, err := strconv.ParseInt(strings.TrimSuffix(strings.TrimSpace(value), " kB"), 10, 64)
			if err != nil {
				return 0
			}
			return kilobytes << 10
		}
	}
	return 0
}
