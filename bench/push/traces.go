package main

import (
	"bufio"
	"cmp"
	"context"
	"fmt"
	"io"
	"os/exec"
	"slices"
	"strconv"
	"strings"
)

// trace is a stack of a profile, the innermost function first, and what was counted there.
type trace struct {
	value  float64
	frames []string
}

// readTraces has go tool pprof, with these arguments, take a profile apart. Values are in unit.
func readTraces(ctx context.Context, unit string, args ...string) ([]trace, error) {
	cmd := exec.CommandContext(ctx, "go", append([]string{"tool", "pprof", "-traces"}, args...)...)
	out, err := cmd.StdoutPipe()
	if err == nil {
		err = cmd.Start()
	}
	if err != nil {
		return nil, err
	}
	all, err := parseTraces(out, unit)
	_, _ = io.Copy(io.Discard, out)
	if ended := cmd.Wait(); ended != nil {
		return nil, fmt.Errorf("go tool pprof %s: %w", strings.Join(args, " "), ended)
	}
	return all, err
}

// parseTraces reads what pprof prints: stacks between lines of dashes, each a value and a function, then the functions that called it. Lines
// before the value are labels.
func parseTraces(r io.Reader, unit string) ([]trace, error) {
	var all []trace
	lines, inside, open := bufio.NewScanner(r), false, false // inside: behind the head; open: a stack has begun
	lines.Buffer(nil, 1<<20)
	for lines.Scan() {
		fields := strings.Fields(lines.Text())
		switch {
		case strings.HasPrefix(lines.Text(), "-----------+"):
			inside, open = true, false
		case !inside || len(fields) == 0:
		case open:
			t := &all[len(all)-1]
			t.frames = append(t.frames, fields[0])
		case len(fields) > 1 && !strings.HasSuffix(fields[0], ":"):
			v, err := strconv.ParseFloat(strings.TrimSuffix(fields[0], unit), 64)
			if err != nil {
				return nil, fmt.Errorf("pprof says %q: %w", lines.Text(), err)
			}
			all = append(all, trace{value: v, frames: []string{fields[1]}})
			open = true
		}
	}
	return all, lines.Err()
}

// writes reports whether a stack is below a system call that writes to a socket.
func (t *trace) writes() bool {
	if !strings.Contains(t.frames[0], "yscall") {
		return false
	}
	return slices.ContainsFunc(t.frames, func(f string) bool {
		for _, name := range []string{"internal/buffer.Send", "internal/buffer.(*Batch).write", "syscall.write", "syscall.Write"} {
			if strings.HasSuffix(f, name) {
				return true
			}
		}
		return false
	})
}

// collects reports whether a stack collects garbage, or pays for its collection.
func (t *trace) collects() bool {
	return slices.ContainsFunc(t.frames, func(f string) bool {
		for _, name := range []string{"gcBgMarkWorker", "gcAssistAlloc", "bgsweep", "bgscavenge", "gcStart", "gcMarkDone", "deductSweepCredit"} {
			if strings.HasPrefix(f, "runtime."+name) {
				return true
			}
		}
		return false
	})
}

// looks reports whether a stack is of taking profiles itself.
func (t *trace) looks() bool {
	return slices.ContainsFunc(t.frames, func(f string) bool {
		return strings.HasPrefix(f, "net/http/pprof.") || strings.HasPrefix(f, "runtime/pprof.")
	})
}

// breakdown is where a profile's figures come from.
type breakdown struct {
	total, writes, collects float64
	rest                    []part // neither of them, the largest first
}

// part is a function and what was counted in it.
type part struct {
	function string
	value    float64
}

// breakDown adds stacks up, but for those of taking profiles. With leaves the rest is by innermost function, otherwise by the innermost that is not the runtime's or
// a standard package's for synchronisation.
func breakDown(all []trace, leaves bool) breakdown {
	var b breakdown
	rest := make(map[string]float64)
	for i := range all {
		t := &all[i]
		if t.looks() {
			continue
		}
		b.total += t.value
		switch {
		case t.writes():
			b.writes += t.value
		case t.collects():
			b.collects += t.value
		case leaves:
			rest[t.frames[0]] += t.value
		default:
			rest[t.site()] += t.value
		}
	}
	for f, v := range rest {
		b.rest = append(b.rest, part{f, v})
	}
	slices.SortFunc(b.rest, func(x, y part) int {
		return cmp.Or(cmp.Compare(y.value, x.value), strings.Compare(x.function, y.function))
	})
	return b
}

// site is the innermost function that is no part of the runtime or of package sync.
func (t *trace) site() string {
	for _, f := range t.frames {
		if !strings.HasPrefix(f, "runtime.") && !strings.HasPrefix(f, "sync.") && !strings.HasPrefix(f, "internal/sync.") {
			return f
		}
	}
	return t.frames[0]
}
