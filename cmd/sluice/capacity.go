package main

import (
	"fmt"
	"math"
	"os"
	"path"
	"runtime/debug"
	"strconv"
	"strings"

	"github.com/sluice-push/sluice/internal/socket"
	"github.com/sluice-push/sluice/push/config"
)

// capacity is what the process may use.
type capacity struct {
	descriptors int
	memory      int64 // in bytes
}

const (
	// sparedDescriptors are left for the store, the API, health, and connections that are being made.
	sparedDescriptors = 256
	// sessionMemory is what a client is thought to take, with some subscriptions; clients may take half of the memory.
	sessionMemory = 32 << 10
)

// sessions is how many clients the process has room for.
func (c capacity) sessions() int {
	byDescriptors := max(c.descriptors-sparedDescriptors, c.descriptors/2)
	return max(int(min(int64(byDescriptors), c.memory/2/sessionMemory)), 1)
}

// backlog is how much may wait to be written to all clients together.
func (c capacity) backlog() int64 { return c.memory / 8 }

// ownCapacity returns what this process may use: the least of what the machine has and what limits it.
func ownCapacity() capacity {
	c := capacity{descriptors: socket.Limit(), memory: debug.SetMemoryLimit(-1)} // GOMEMLIMIT
	if file, err := os.ReadFile("/proc/meminfo"); err == nil {
		c.memory = min(c.memory, totalMemory(string(file)))
	}
	c.memory = min(c.memory, ownAddressSpace())
	file, _ := os.ReadFile("/proc/self/cgroup")
	for folder := unifiedGroup(string(file)); ; folder = path.Dir(folder) {
		limit, _ := os.ReadFile("/sys/fs/cgroup" + path.Join(folder, "memory.max"))
		c.memory = min(c.memory, groupLimit(string(limit)))
		if folder == "/" {
			return c
		}
	}
}

// leastAddressSpace is how much address space a node needs to be able to say anything: the runtime of Go reserves a gibibyte at once, and more
// for each thread. With less than about that much the process ends before its first line.
const leastAddressSpace = 2 << 30

// checkAddressSpace says what is wrong with a limit on the address space.
func checkAddressSpace(allowed int64) error {
	if allowed >= leastAddressSpace {
		return nil
	}
	return fmt.Errorf("the address space is limited to %d MiB (ulimit -v), and a node needs 2048: what it reserves there it does not use. "+
		"To limit memory use a control group, or GOMEMLIMIT", allowed>>20)
}

// ownAddressSpace returns how much address space this process may use.
func ownAddressSpace() int64 {
	limits, _ := os.ReadFile("/proc/self/limits")
	return addressSpace(string(limits))
}

// addressSpace reads /proc/self/limits.
func addressSpace(limits string) int64 {
	for line := range strings.Lines(limits) {
		if values, ok := strings.CutPrefix(line, "Max address space"); ok {
			if f := strings.Fields(values); len(f) == 3 {
				return groupLimit(f[0])
			}
		}
	}
	return math.MaxInt64
}

// totalMemory reads /proc/meminfo.
func totalMemory(meminfo string) int64 {
	for line := range strings.Lines(meminfo) {
		if f := strings.Fields(line); len(f) == 3 && f[0] == "MemTotal:" && f[2] == "kB" {
			if n, err := strconv.ParseInt(f[1], 10, 64); err == nil && n > 0 && n < math.MaxInt64>>10 {
				return n << 10
			}
		}
	}
	return math.MaxInt64
}

// unifiedGroup reads /proc/self/cgroup: it returns the process's place among the control groups of version 2. See cgroups(7).
func unifiedGroup(cgroup string) string {
	for line := range strings.Lines(cgroup) {
		if place, ok := strings.CutPrefix(strings.TrimSpace(line), "0::/"); ok {
			return path.Clean("/" + place)
		}
	}
	return "/"
}

// groupLimit reads the memory.max of a control group.
func groupLimit(memoryMax string) int64 {
	if n, err := strconv.ParseInt(strings.TrimSpace(memoryMax), 10, 64); err == nil && n > 0 {
		return n
	}
	return math.MaxInt64 // "max", or there is no such group
}

// orCapacity returns the limits of a configuration, with what it leaves open.
func orCapacity(l config.Limits, c capacity) config.Limits {
	if l.Sessions == 0 {
		l.Sessions = c.sessions()
	}
	if l.Backlog == 0 {
		l.Backlog = config.Bytes(c.backlog())
	}
	return l
}
