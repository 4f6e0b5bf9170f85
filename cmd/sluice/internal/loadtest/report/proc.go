package report

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"time"
)

// proc is the path of the proc file system of Linux (proc(5)). The empty proc stands for a system without one, on which all figures are unknown.
type proc string

// hostProc returns the proc of this host.
func hostProc() proc {
	if runtime.GOOS != "linux" {
		return ""
	}
	return "/proc"
}

// errUnknown is the error of read on a system without /proc.
var errUnknown = errors.New("not supported on this system")

// read returns the content of a file. The name is given in parts, relative to /proc.
func (p proc) read(name ...string) ([]byte, error) {
	if p == "" {
		return nil, errUnknown
	}
	return os.ReadFile(filepath.Join(append([]string{string(p)}, name...)...))
}

// tick is the unit of CPU times in /proc. USER_HZ is 100 on all architectures that Go supports.
const tick = 10 * time.Millisecond

// process holds the resources that one process has used.
type process struct {
	parent  int
	started uint64        // start time in ticks since the host booted; tells apart two processes with the same ID
	cpu     time.Duration // user and system time of all threads, including ended ones
	rss     int64         // bytes
}

// process reads the resources of a process. Its memory comes from a counter that may be some hundred KiB off. If exact is set and permitted, the
// kernel adds up its pages instead, which delays a large process for some milliseconds.
func (p proc) process(pid int, exact bool) (process, error) {
	stat, err := p.read(strconv.Itoa(pid), "stat")
	if err != nil {
		return process{}, err
	}
	u, err := parseStat(stat)
	if err != nil {
		return process{}, err
	}
	if exact {
		if rollup, err := p.read(strconv.Itoa(pid), "smaps_rollup"); err == nil {
			if u.rss = kilobytes(rollup, "Rss:"); u.rss > 0 {
				return u, nil
			}
		}
	}
	statm, err := p.read(strconv.Itoa(pid), "statm")
	if err != nil {
		return process{}, err
	}
	if fields := bytes.Fields(statm); len(fields) > 1 {
		pages, _ := strconv.ParseInt(string(fields[1]), 10, 64)
		u.rss = pages * int64(os.Getpagesize())
	}
	return u, nil
}

// parseStat parses the content of /proc/PID/stat.
func parseStat(stat []byte) (process, error) {
	end := bytes.LastIndexByte(stat, ')') // the name in parentheses may hold any character
	if end < 0 {
		return process{}, errors.New("a stat file without a name")
	}
	fields := strings.Fields(string(stat[end+1:]))
	const first = 3 // number of the first field after the name
	number := func(field int) uint64 {
		n, _ := strconv.ParseUint(fields[field-first], 10, 64)
		return n
	}
	const parent, user, system, started = 4, 14, 15, 22
	if len(fields) <= started-first {
		return process{}, fmt.Errorf("a stat file of %d fields", len(fields))
	}
	return process{
		parent:  int(number(parent)),
		started: number(started),
		cpu:     time.Duration(number(user)+number(system)) * tick,
	}, nil
}

// kilobytes returns the value of a line "NAME  123 kB" in bytes, or 0 if there is no such line.
func kilobytes(text []byte, name string) int64 {
	for line := range strings.Lines(string(text)) {
		if rest, ok := strings.CutPrefix(line, name); ok {
			n, _ := strconv.ParseInt(strings.TrimSuffix(strings.TrimSpace(rest), " kB"), 10, 64)
			return n << 10
		}
	}
	return 0
}

// pids returns the IDs of all processes.
func (p proc) pids() []int {
	if p == "" {
		return nil
	}
	entries, err := os.ReadDir(string(p))
	if err != nil {
		return nil
	}
	var pids []int
	for _, e := range entries {
		if pid, err := strconv.Atoi(e.Name()); err == nil {
			pids = append(pids, pid)
		}
	}
	return pids
}

// family returns the IDs of a process and of all its descendants.
func (p proc) family(pid int) []int {
	children := make(map[int][]int)
	for _, other := range p.pids() {
		if stat, err := p.read(strconv.Itoa(other), "stat"); err == nil {
			if u, err := parseStat(stat); err == nil {
				children[u.parent] = append(children[u.parent], other)
			}
		}
	}
	all := []int{pid}
	for i := 0; i < len(all); i++ {
		for _, child := range children[all[i]] {
			if !slices.Contains(all, child) {
				all = append(all, child)
			}
		}
	}
	return all
}

// processors holds the CPU time of all CPUs since the host booted, in ticks.
type processors struct{ total, stolen uint64 }

// processors reads the first line of /proc/stat.
func (p proc) processors() processors {
	var c processors
	stat, err := p.read("stat")
	if err != nil {
		return c
	}
	line, _, _ := strings.Cut(string(stat), "\n")
	fields := strings.Fields(line)
	const stolen, columns = 8, 8 // the guest columns after these are part of user and nice
	for i := 1; i < len(fields) && i <= columns; i++ {
		n, _ := strconv.ParseUint(fields[i], 10, 64)
		c.total += n
		if i == stolen {
			c.stolen = n
		}
	}
	return c
}

// sockets returns the kernel's TCP memory of the whole host in bytes, or 0 if it is unknown.
func (p proc) sockets() int64 {
	text, err := p.read("net", "sockstat")
	if err != nil {
		return 0
	}
	for line := range strings.Lines(string(text)) {
		fields := strings.Fields(line)
		for i := 1; i+1 < len(fields) && fields[0] == "TCP:"; i++ {
			if fields[i] == "mem" {
				pages, _ := strconv.ParseInt(fields[i+1], 10, 64)
				return pages * int64(os.Getpagesize())
			}
		}
	}
	return 0
}
