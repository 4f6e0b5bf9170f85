package main

import (
	"fmt"
	"slices"
	"time"
)

// cell is one workload.
type cell struct {
	name     string // as in -cells
	title    string
	kind     kind
	echo     bool // otherwise requests are acknowledged
	size     int  // of the frames that are sent, in bytes
	conns    int
	inFlight int           // on each connection, when rate is 0
	rate     int           // messages a second in all; 0: as fast as answers come
	sleep    time.Duration // for how long a handler sleeps
	every    int           // one in so many does; 0: none
	burners  int           // goroutines that compute in the process of the server
	windows  int           // how many times -seconds it is measured for; 0 is 1
	count    int           // messages on each connection, for bursts
	without  []string      // servers that cannot do it
	slow     []string      // servers that are left out unless they were asked for by name
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
	conns int           // at most so many connections in every other cell
	idle  int           // sessions that do nothing
	burst int           // messages of each client
	rest  time.Duration // how long idle sessions are left alone; bursts a third of it
}

// cells are all workloads, in the order of tables.
func cells(by scale) []cell {
	list := []cell{
		{name: "a1", size: 915, conns: 100, inFlight: 1},
		{name: "a2", size: 915, conns: 5, inFlight: 16},
		{name: "b100", echo: true, size: kib, conns: 100, inFlight: 1},
		{name: "b1000", echo: true, size: kib, conns: 1000, inFlight: 1},
		{name: "b10000", echo: true, size: kib, conns: 10000, inFlight: 1},
		{name: "b1000x16", echo: true, size: kib, conns: 1000, inFlight: 16},
		{name: "b64k", echo: true, size: 64 * kib, conns: 100, inFlight: 1},
		{name: "c", kind: idle, size: 915, conns: by.idle, inFlight: 1, count: 1},
		{name: "d1", size: 915, conns: 500, rate: 8000, burners: 2, without: []string{"net-bufio-pool", "net-raw"}},
		{
			name: "d2", size: 915, conns: 500, rate: 8000, windows: 2, sleep: 20 * time.Millisecond, every: 500,
			without: []string{limit, "net-bufio-pool", "net-raw"},
		},
		{
			name: "d3", size: 915, conns: 500, inFlight: 1, sleep: 5 * time.Millisecond, every: 1,
			without: []string{limit, "net-bufio-pool", "net-raw"},
		},
		{name: "e", kind: burst, size: 915, conns: 100, inFlight: 16, count: by.burst, slow: []string{"net", "net-bufio-pool"}},
	}
	for i := range list {
		c := &list[i]
		if c.kind != idle {
			c.conns = min(c.conns, by.conns)
		}
		c.title = c.describe()
		c.windows = max(c.windows, 1)
	}
	return list
}

// describe says what a cell does.
func (c cell) describe() string {
	what := fmt.Sprintf("requests of %d B with acknowledgements", c.size)
	if c.echo {
		what = fmt.Sprintf("echo of %d KiB", c.size/kib)
	}
	switch {
	case c.kind == idle:
		return fmt.Sprintf("bytes of memory for each of %d idle sessions", c.conns)
	case c.rate > 0:
		what += fmt.Sprintf(", %d connections, %d/s in all", c.conns, c.rate)
	case c.inFlight == 1:
		what += fmt.Sprintf(", %d connections, one in flight on each", c.conns)
	default:
		what += fmt.Sprintf(", %d connections, %d in flight on each", c.conns, c.inFlight)
	}
	switch {
	case c.burners > 0:
		what += fmt.Sprintf(", beside %d goroutines that compute (not in C)", c.burners)
	case c.every == 1:
		what += fmt.Sprintf(", every handler sleeps %v", c.sleep)
	case c.every > 1:
		what += fmt.Sprintf(", one handler call in %d sleeps %v", c.every, c.sleep)
	case c.count > 0:
		what += fmt.Sprintf(", %d messages on each", c.count)
	}
	return what
}

// proto is what servers and client call the protocol.
func (c cell) proto() string {
	if c.echo {
		return "echo"
	}
	return "ack"
}

// servers returns those of the wanted that are measured; named says that they were asked for by name.
func (c cell) servers(wanted []string, named bool) []string {
	return slices.DeleteFunc(slices.Clone(wanted), func(s string) bool {
		return slices.Contains(c.without, s) || !named && slices.Contains(c.slow, s)
	})
}
