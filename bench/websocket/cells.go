package main

import (
	"fmt"
	"slices"
	"time"

	"github.com/sluice-push/sluice/bench/internal/load"
)

// cell is one workload.
type cell struct {
	load.Work
	title  string
	idle   bool          // what connections cost that do nothing
	stream time.Duration // how long it takes, in one round; 0: as long as -seconds says, in all rounds
}

const kib = 1 << 10

// cells are all workloads, in the order of tables, with at most so many connections, so many idle ones, and a stream of that length.
func cells(conns, idle int, stream time.Duration) []cell {
	list := []cell{
		{Work: load.Work{Name: "e100", Size: kib, Conns: 100, InFlight: 1}},
		{Work: load.Work{Name: "e1000", Size: kib, Conns: 1000, InFlight: 1}},
		{Work: load.Work{Name: "e10000", Size: kib, Conns: 10000, InFlight: 1}},
		{Work: load.Work{Name: "p1000", Size: kib, Conns: 1000, InFlight: 16}},
		{Work: load.Work{Name: "s100", Size: 128, Conns: 100, InFlight: 1}},
		{Work: load.Work{Name: "l100", Size: 64 * kib, Conns: 100, InFlight: 1}},
		{Work: load.Work{Name: "idle", Size: kib, Conns: idle, InFlight: 1, Count: 1}, idle: true},
		// Each connection gets but fifteen messages a second, and while they are few each costs a tenth more, to C as well.
		{Work: load.Work{Name: "bc", Size: 256, Conns: 10000, Kind: load.Broadcast, Warm: 2 * time.Second}},
		{Work: load.Work{Name: "stream", Size: kib, Conns: 10000, InFlight: 16}, stream: stream},
		{Work: load.Work{Name: "open", Size: kib, InFlight: 64, Kind: load.Open}},
	}
	for i := range list {
		c := &list[i]
		c.Proto = "websocket"
		if !c.idle {
			c.Conns = min(c.Conns, conns)
		}
		if c.Kind == load.Open {
			c.InFlight = min(c.InFlight, conns)
		}
		c.Args = args(c.Kind == load.Broadcast)
		c.title = c.describe()
	}
	return list
}

// args are the arguments of servers.
func args(broadcast bool) load.Args {
	if broadcast {
		return load.Args{Limit: []string{"broadcast"}, Go: []string{"-broadcast"}}
	}
	return load.Args{Limit: []string{"echo"}}
}

// describe says what a cell does.
func (c *cell) describe() string {
	size := fmt.Sprintf("%d B", c.Size)
	if c.Size >= kib {
		size = fmt.Sprintf("%d KiB", c.Size/kib)
	}
	switch {
	case c.idle:
		return fmt.Sprintf("bytes of memory for each of %d idle connections, which send %s once", c.Conns, size)
	case c.Kind == load.Broadcast:
		return fmt.Sprintf("each message of %s goes to %d connections", size, c.Conns)
	case c.Kind == load.Open:
		return fmt.Sprintf("connections that are upgraded and reset, %d at a time", c.InFlight)
	case c.stream > 0:
		return fmt.Sprintf("echo of %s for %v, %d connections, %d in flight on each", size, c.stream, c.Conns, c.InFlight)
	case c.InFlight == 1:
		return fmt.Sprintf("echo of %s, %d connections, one in flight on each", size, c.Conns)
	default:
		return fmt.Sprintf("echo of %s, %d connections, %d in flight on each", size, c.Conns, c.InFlight)
	}
}

// servers returns those of the wanted that are measured; named says that they were asked for by name. Second ways to be upgraded make a
// difference in cell open only.
func (c cell) servers(wanted []string, named bool) []string {
	return slices.DeleteFunc(slices.Clone(wanted), func(s string) bool { return find(s).second && c.Kind != load.Open && !named })
}
