// Package capacity says how many clients a process has room for: what the machine has, and what the process may use of it.
package capacity

import (
	"fmt"
	"math"
	"os"
	"path"
	"runtime/debug"
	"strconv"
	"strings"

	"github.com/sluice-push/sluice/cmd/sluice/internal/descriptors"
	"github.com/sluice-push/sluice/internal/sockopt"
	"github.com/sluice-push/sluice/push/config"
)

// Capacity is the resources that a process may use.
type Capacity struct {
	descriptors int
	memory      int64 // in bytes
}

const (
	// sessionMemory is the estimated memory of a client with some subscriptions, in bytes. Clients may take half of the memory.
	sessionMemory = 32 << 10
)

// sessions returns how many clients the process has room for.
func (c Capacity) sessions() int {
	byDescriptors := max(c.descriptors-descriptors.Reserved, c.descriptors/2)
	return max(int(min(int64(byDescriptors), c.memory/2/sessionMemory)), 1)
}

// backlog returns how many bytes may wait to be written to all clients together.
func (c Capacity) backlog() int64 { return c.memory / 8 }

// Own returns what this process may use: the smallest of the machine's resources and the limits on the process.
func Own() Capacity {
	c := Capacity{descriptors: sockopt.FileLimit(), memory: debug.SetMemoryLimit(-1)} // GOMEMLIMIT
	if file, err := os.ReadFile("/proc/meminfo"); err == nil {
		c.memory = min(c.memory, totalMemory(string(file)))
	}
	c.memory = min(c.memory, AddressSpace())
	file, _ := os.ReadFile("/proc/self/cgroup")
	for folder := unifiedGroup(string(file)); ; folder = path.Dir(folder) {
		limit, _ := os.ReadFile("/sys/fs/cgroup" + path.Join(folder, "memory.max"))
		c.memory = min(c.memory, groupLimit(string(limit)))
		if folder == "/" {
			return c
		}
	}
}

// minAddressSpace is about the least address space with which a node can report an error. Go's runtime reserves 1 GiB at once, and more for each
// thread. With less, the process dies before its first line of output.
const minAddressSpace = 2 << 30

// CheckAddressSpace returns an error if a limit on the address space, in bytes, is too low for a node.
func CheckAddressSpace(allowed int64) error {
	if allowed >= minAddressSpace {
		return nil
	}
	return fmt.Errorf("the address space is limited to %d MiB (ulimit -v), but a node reserves 2048 MiB, most of it unused: raise the limit. "+
		"To limit memory, use a control group or GOMEMLIMIT", allowed>>20)
}

// AddressSpace returns how many bytes of address space this process may use.
func AddressSpace() int64 {
	limits, _ := os.ReadFile("/proc/self/limits")
	return addressSpace(string(limits))
}

// addressSpace parses the text of /proc/self/limits.
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

// totalMemory parses the text of /proc/meminfo.
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

// unifiedGroup parses the text of /proc/self/cgroup and returns the path of the process's control group of version 2. See cgroups(7).
func unifiedGroup(cgroup string) string {
	for line := range strings.Lines(cgroup) {
		if place, ok := strings.CutPrefix(strings.TrimSpace(line), "0::/"); ok {
			return path.Clean("/" + place)
		}
	}
	return "/"
}

// groupLimit parses the text of a control group's memory.max.
func groupLimit(memoryMax string) int64 {
	if n, err := strconv.ParseInt(strings.TrimSpace(memoryMax), 10, 64); err == nil && n > 0 {
		return n
	}
	return math.MaxInt64 // "max", or there is no such group
}

// Fill returns the configured limits. Limits that the configuration leaves open are derived from the capacity.
func (c Capacity) Fill(l config.Limits) config.Limits {
	if l.Sessions == 0 {
		l.Sessions = c.sessions()
	}
	if l.Backlog == 0 {
		l.Backlog = config.Bytes(c.backlog())
	}
	return l
}
