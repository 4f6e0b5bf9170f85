package main

import (
	"fmt"
	"slices"
	"time"

	"github.com/sluice-push/sluice/bench/internal/load"
)

// What servers and client call the protocols: requests with acknowledgements, and echoes.
const (
	ack  = "ack"
	echo = "echo"
)

// cell is one workload.
type cell struct {
	load.Work
	title   string
	kind    kind
	burners int      // goroutines that compute in the process of the server
	windows int      // how many times -seconds it is measured for; 0 is 1
	without []string // servers that cannot do it
	slow    []string // servers that are left out unless they were asked for by name
}

// kind is what is measured in a cell.
type kind int

const (
	steady kind = iota // rate, CPU and latency while messages go to and fro
	idle               // what sessions cost that do nothing
	burst              // what a server needs before, while and after it has much to do
)

const kib = 1 << 10

// scale is how large the cells are that are counted in sessions and messages, not in time.
type scale struct {
	conns int // at most so many connections in every other cell
	idle  int // sessions that do nothing
	burst int // messages of each client
}

// cells are all workloads, in the order of tables.
func cells(by scale) []cell {
	others := []string{"net-bufio-pool", "net-raw"}
	list := []cell{
		{Work: load.Work{Name: "a1", Size: 915, Conns: 100, InFlight: 1}},
		{Work: load.Work{Name: "a2", Size: 915, Conns: 5, InFlight: 16}},
		{Work: load.Work{Name: "b100", Proto: echo, Size: kib, Conns: 100, InFlight: 1}},
		{Work: load.Work{Name: "b1000", Proto: echo, Size: kib, Conns: 1000, InFlight: 1}},
		{Work: load.Work{Name: "b10000", Proto: echo, Size: kib, Conns: 10000, InFlight: 1}},
		{Work: load.Work{Name: "b1000x16", Proto: echo, Size: kib, Conns: 1000, InFlight: 16}},
		{Work: load.Work{Name: "b64k", Proto: echo, Size: 64 * kib, Conns: 100, InFlight: 1}},
		{Work: load.Work{Name: "c", Size: 915, Conns: by.idle, InFlight: 1, Count: 1}, kind: idle},
		{Work: load.Work{Name: "d1", Size: 915, Conns: 500, Rate: 8000}, burners: 2, without: others},
		{
			Work:    load.Work{Name: "d2", Size: 915, Conns: 500, Rate: 8000, Sleep: 20 * time.Millisecond, Every: 500},
			windows: 2, without: append([]string{load.Limit}, others...),
		},
		{
			Work:    load.Work{Name: "d3", Size: 915, Conns: 500, InFlight: 1, Sleep: 5 * time.Millisecond, Every: 1},
			without: append([]string{load.Limit}, others...),
		},
		{
			Work: load.Work{Name: "e", Size: 915, Conns: 100, InFlight: 16, Count: by.burst}, kind: burst,
			slow: []string{"net", "net-bufio-pool"},
		},
	}
	for i := range list {
		c := &list[i]
		if c.kind != idle {
			c.Conns = min(c.Conns, by.conns)
		}
		if c.Proto == "" {
			c.Proto = ack
		}
		c.Args = args(c.Proto, c.burners)
		c.title = c.describe()
		c.windows = max(c.windows, 1)
	}
	return list
}

// describe says what a cell does.
func (c *cell) describe() string {
	what := fmt.Sprintf("requests of %d B with acknowledgements", c.Size)
	if c.Proto == echo {
		what = fmt.Sprintf("echo of %d KiB", c.Size/kib)
	}
	switch {
	case c.kind == idle:
		return fmt.Sprintf("bytes of memory for each of %d idle sessions", c.Conns)
	case c.Rate > 0:
		what += fmt.Sprintf(", %d connections, %d/s in all", c.Conns, c.Rate)
	case c.InFlight == 1:
		what += fmt.Sprintf(", %d connections, one in flight on each", c.Conns)
	default:
		what += fmt.Sprintf(", %d connections, %d in flight on each", c.Conns, c.InFlight)
	}
	switch {
	case c.burners > 0:
		what += fmt.Sprintf(", beside %d goroutines that compute (not in C)", c.burners)
	case c.Every == 1:
		what += fmt.Sprintf(", every handler sleeps %v", c.Sleep)
	case c.Every > 1:
		what += fmt.Sprintf(", one handler call in %d sleeps %v", c.Every, c.Sleep)
	case c.Count > 0:
		what += fmt.Sprintf(", %d messages on each", c.Count)
	}
	return what
}

// args are the arguments of servers.
func args(proto string, burners int) load.Args {
	return load.Args{Limit: []string{proto}, Go: []string{"-proto", proto, "-burners", fmt.Sprint(burners)}}
}

// servers returns those of the wanted that are measured; named says that they were asked for by name.
func (c cell) servers(wanted []string, named bool) []string {
	return slices.DeleteFunc(slices.Clone(wanted), func(s string) bool {
		return slices.Contains(c.without, s) || !named && slices.Contains(c.slow, s)
	})
}
